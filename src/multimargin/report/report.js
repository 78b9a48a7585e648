"use strict";
(() => {
  const table = document.getElementById("label-table");
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const controls = document.querySelector(".controls");
  const filter = document.getElementById("label-filter");
  const rare = document.getElementById("label-rare");
  const all = document.getElementById("label-all");
  const count = document.getElementById("label-count");
  const more = document.getElementById("more-labels");
  const names = new Intl.Collator("en", { numeric: true });
  const words = (n) => n.toLocaleString("en") + (n === 1 ? " label" : " labels");
  controls.hidden = false;

  // Values come first, in either direction; a cell without one comes last.
  function key(row, column) {
    if (column === 0) return row.cells[0].textContent;
    const value = row.cells[column].dataset.v;
    return value === "" ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value);
  }

  function sort(column, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (column === 0) return sign * names.compare(a, b);
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      return a === b ? 0 : a < b ? -sign : sign;
    });
    body.append(...rows.map(([, row]) => row));
    headings.forEach((cell, k) => cell.setAttribute("aria-sort", k === column ? direction : "none"));
  }

  function show() {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      const name = row.cells[0].textContent.toLowerCase();
      row.hidden = !name.includes(wanted) || (rare !== null && rare.checked && !("rare" in row.dataset));
      shown += !row.hidden;
    }
    const total = body.rows.length;
    count.textContent = shown === total ? words(total) : `${shown.toLocaleString("en")} of ${words(total)}`;
  }

  function addAll() {
    for (const [name, ...cells] of JSON.parse(more.textContent)) {
      const row = body.insertRow();
      if (cells.pop()) row.dataset.rare = "";
      const heading = document.createElement("th");
      heading.scope = "row";
      heading.textContent = name;
      row.append(heading);
      for (const [text, value] of cells) {
        const cell = row.insertCell();
        cell.textContent = text;
        cell.dataset.v = value;
      }
    }
    const sorted = headings.findIndex((cell) => cell.getAttribute("aria-sort") !== "none");
    sort(sorted, headings[sorted].getAttribute("aria-sort"));
    all.remove();
    show();
  }

  headings.forEach((cell, column) => {
    cell.firstElementChild.addEventListener("click", () => {
      const now = cell.getAttribute("aria-sort");
      const first = column === 0 ? "ascending" : "descending";
      sort(column, now === "none" ? first : now === "ascending" ? "descending" : "ascending");
    });
  });
  filter.addEventListener("input", show);
  if (rare !== null) rare.addEventListener("change", show);
  if (all !== null) all.addEventListener("click", addAll);

  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "Escape" && (filter.value !== "" || (rare !== null && rare.checked))) {
      filter.value = "";
      if (rare !== null) rare.checked = false;
      show();
    }
  });

  // What does not fit scrolls by itself, also by keyboard.
  function scrolls() {
    for (const part of document.querySelectorAll(".wide:not(.tall), figure")) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  }
  addEventListener("resize", scrolls);
  for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", scrolls);
  scrolls();

  const folded = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) {
      part.open = true;
      folded.push(part);
    }
  });
  addEventListener("afterprint", () => {
    for (const part of folded.splice(0)) part.open = false;
  });
  show();
})();
