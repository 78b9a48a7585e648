// What scrolls sideways can be reached with the keyboard, and headings in the sidebar state their level.
window.addEventListener("load", () => {
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, div.math"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
});
