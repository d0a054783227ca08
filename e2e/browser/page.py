"""Opens a page in the browser: what violates accessibility, what it loads, and how it prints."""

import html
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.browser.build import Browser

_SECONDS = 120
_RESULT = re.compile(r'<pre id="axe-result">(.*?)</pre>', re.DOTALL)
# Files have no resource timing, so the elements tell what is loaded.
_RUN = """axe.run().then((found) => {
  const elements = [...document.querySelectorAll("[src], [srcset], [href], [data], [action]")];
  const styles = [...document.querySelectorAll("style, [style]")].filter(
    (each) => /url\\(|@import/.test(each.outerHTML));
  const loaded = [...elements, ...styles].map((each) => each.outerHTML.slice(0, 200));
  const violations = found.violations.map(
    (each) => ({id: each.id, help: each.help, nodes: each.nodes.map((node) => node.html)}));
  const result = document.createElement("pre");
  result.id = "axe-result";
  result.textContent = JSON.stringify({violations, loaded, passes: found.passes.length});
  document.body.appendChild(result);
});"""


@dataclass(frozen=True)
class OpenedPage:
    """What the browser found in a page."""

    violations: tuple[dict[str, Any], ...]
    loaded: tuple[str, ...]  # what the page loads from elsewhere
    passes: int  # the rules that the page meets


def open_page(browser: Browser, page: Path, folder: Path) -> OpenedPage:
    """Run the checks of accessibility in a copy of the page, in `folder`."""
    script = browser.checks.read_text("utf-8").replace("</script", "<\\/script")
    added = f"<script>{script}</script><script>{_RUN}</script></body>"
    copy = folder / "checked.html"
    copy.write_text(page.read_text("utf-8").replace("</body>", added), "utf-8")
    dumped = _browse(browser, folder, "--virtual-time-budget=30000", "--dump-dom", copy.as_uri())
    return read_result(dumped)


def read_result(dumped: str) -> OpenedPage:
    """Read the result of the checks from the document that the browser printed."""
    match = _RESULT.search(dumped)
    if match is None:
        raise AssertionError(f"the checks did not run: {dumped[-500:]}")
    result = json.loads(html.unescape(match[1]))
    return OpenedPage(tuple(result["violations"]), tuple(result["loaded"]), result["passes"])


def print_page(browser: Browser, page: Path, target: Path) -> None:
    """Print the page as PDF."""
    words = (f"--print-to-pdf={target}", "--no-pdf-header-footer", page.as_uri())
    _browse(browser, target.parent, *words)


def take_picture(browser: Browser, page: Path, target: Path, size: tuple[int, int]) -> None:
    """Take a picture of the upper part of the page, of this width and height."""
    words = (f"--screenshot={target}", f"--window-size={size[0]},{size[1]}", "--hide-scrollbars")
    _browse(browser, page.parent, *words, page.as_uri())


def _browse(browser: Browser, folder: Path, *words: str) -> str:
    # The sandbox needs rights that a container lacks. The page is our own, and no host resolves.
    fixed = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}",
    )  # fmt: skip
    done = subprocess.run(
        (str(browser.program), *fixed, *words),
        env=browser.environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the browser ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout
