"""The built site in a real browser: no page asks the network, logs an error, is wider than a phone, or is hard to use.

    python tools/check_site.py [--pictures FOLDER]

Every page of docs/_build is opened 1400 and 420 pixels wide, in light and in dark colours, and examined by axe-core,
whose findings of serious and critical impact are faults. Needs Chromium, playwright and axe-playwright-python; without
them it says so and checks nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "_build"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTHS = {"wide": 1400, "phone": 420}
COLOURS = ("light", "dark")
GRAVE = {"serious", "critical"}


def pages() -> list[Path]:
    """Return the pages a reader meets: not the sources, and of the reference one of each hundred names."""
    every = sorted(path for path in SITE.rglob("*.html") if not {"_sources", "_static"} & set(path.parts))
    reference = [path for path in every if "api" in path.parts]
    return [path for path in every if path not in reference] + reference[::100]


def faults_of(page: Any, axe: Any, width: int) -> list[str]:
    """Return what is wrong with the page that is open."""
    found = []
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        found.append(f"{wide} pixels wide on a screen of {width}")
    for violation in axe.run(page).response["violations"]:
        if violation["impact"] in GRAVE:
            place = violation["nodes"][0]["html"][:100]
            found.append(f"{violation['id']}, {len(violation['nodes'])} places, such as {place}")
    return found


def main() -> int:
    """Check every page and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="a folder for a picture of every page")
    options = parser.parse_args()
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    try:
        from axe_playwright_python.sync_playwright import Axe
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        print("The site was not looked at: that needs Chromium, and pip install playwright axe-playwright-python.")
        return 0
    faults = 0
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for colours in COLOURS:
            for kind, width in WIDTHS.items():
                context = opened.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
                page = context.new_page()
                heard: list[str] = []
                page.on("console", lambda m, heard=heard: heard.append(m.text) if m.type == "error" else None)
                page.on("pageerror", lambda error, heard=heard: heard.append(str(error)))
                page.on(
                    "request",
                    lambda r, heard=heard: heard.append(f"asks {r.url}") if r.url.startswith("http") else None,
                )
                for path in pages():
                    heard.clear()
                    page.goto(path.as_uri())
                    name = path.relative_to(SITE).as_posix()
                    said = list(heard)  # before axe-core, which asks for style sheets that a file may not read
                    for fault in [*said, *faults_of(page, Axe(), width)]:
                        faults += 1
                        print(f"{name} ({kind}, {colours}): {fault}")
                    if options.pictures is not None:
                        target = options.pictures / f"{name.replace('/', '-')}-{kind}-{colours}.png"
                        page.screenshot(path=target, full_page=False)
                context.close()
        opened.close()
    print(f"{len(pages())} pages in {len(WIDTHS)} widths and {len(COLOURS)} colours: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
