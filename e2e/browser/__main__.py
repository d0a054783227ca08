"""Checks the pages of Drawbridge in Chromium: `python -m e2e.browser [FOLDER]`.

Opens the page of `drawbridge audit -o html` for the sample cluster, and for a cluster whose tenants
write markup. Nothing may violate a rule of axe-core, load from elsewhere, or be missing when it is
printed. A page with faults shows that the checks find them. `e2e.browser.served` checks and
measures the page of `drawbridge page`. With FOLDER, pages, PDFs and pictures are kept there, and
the pictures of the documentation are taken anew: `docs/audit.png` and `docs/page.png`. Without a
browser for this machine it says why, and passes.
"""

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.browser import served
from e2e.browser.build import Browser, NoBrowserError, fetch
from e2e.browser.page import open_page, print_page, take_picture

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "audit"
FEWEST_RULES = 10
PICTURE, PICTURE_SIZE = ROOT / "docs" / "audit.png", (1000, 1150)
_MARKUP = "<img src=x onerror=alert(1)>"
_HOSTILE = f"""apiVersion: v1
kind: Pod
metadata: {{name: '{_MARKUP}', namespace: '{_MARKUP}'}}
spec:
  containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: '{_MARKUP}'}}}}}}]
"""


def main(words: list[str]) -> int:
    """Check the pages; the exit code is 1 if one fails."""
    try:
        browser = fetch()
    except NoBrowserError as error:
        print(f"skipped: {error}")  # noqa: T201
        return 0
    kept = Path(words[0]) if words else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hostile = folder / "hostile.yaml"
        hostile.write_text(_HOSTILE)
        failed = [*_check(browser, "sample", SAMPLE, folder)]
        failed += _check(browser, "hostile", hostile, folder)
        failed += _check_checks(browser, folder)
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
        failed += asyncio.run(served.check(browser, folder, kept))
        if kept is not None:
            take_picture(browser, folder / "sample.html", PICTURE, PICTURE_SIZE)
            for file in (*folder.glob("*.html"), *folder.glob("*.pdf")):
                shutil.copy(file, kept / file.name)
    print("\n".join(failed) or "passed")  # noqa: T201
    return 1 if failed else 0


def _check_checks(browser: Browser, folder: Path) -> list[str]:
    """Return what the checks miss in a page with faults: no language, an image of nothing."""
    page = folder / "wrong.html"
    page.write_text("<title>wrong</title><body><img src=missing.png></body>")
    opened = open_page(browser, page, folder)
    missed = {"html-has-lang", "image-alt"} - {each["id"] for each in opened.violations}
    failed = [f"the checks miss {each}" for each in sorted(missed)]
    return failed if opened.loaded else [*failed, "what a page loads is not seen"]


def _check(browser: Browser, name: str, cluster: Path, folder: Path) -> list[str]:
    """Return what is wrong with the page of a cluster."""
    page, printed = folder / f"{name}.html", folder / f"{name}.pdf"
    words = (sys.executable, "-m", "cli", "audit", "--cluster", str(cluster), "-o", "html")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    page.write_text(done.stdout, "utf-8")
    opened = open_page(browser, page, folder)
    print_page(browser, page, printed)
    pages = len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))
    print(f"{name}: {opened.passes} rules of axe-core, {pages} printed pages")  # noqa: T201
    failed = [f"{name}: {e['id']}: {e['help']}: {e['nodes']}" for e in opened.violations]
    failed += [f"{name}: the page loads {each}" for each in opened.loaded]
    if opened.passes < FEWEST_RULES:
        failed.append(f"{name}: only {opened.passes} rules were checked")
    if not pages:
        failed.append(f"{name}: nothing is printed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
