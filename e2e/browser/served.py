"""Checks the page of `drawbridge page` in Chromium, as people use it and as others attack it.

Light and dark, with a keyboard, with names that are markup, from foreign sites, and live; and how
long 500 nodes with 4,000 devices take to paint and to scroll.
"""

import asyncio
import contextlib
import json
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from e2e.browser import clusters
from e2e.browser.build import Browser
from e2e.browser.clusters import JSON
from e2e.browser.devtools import FOREIGN, Tab, drive
from e2e.browser.foreign import ATTACK, serve_foreign_site
from tests.cluster.fake.api import FakeApi

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "page.png"
PICTURE_SIZE: Final = (1100, 1700)
ROUNDS: Final = 5
TAB, ENTER = 9, 13
HOSTILE: Final = (
    "<script>window.hacked = 1; alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</bdi></summary></details><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "javascript:alert(1)",
    "<a href='javascript:alert(1)' autofocus onfocus=alert(1)>x</a>",
    "a\u202egnp.exe\u2066",
    "x" * 50_000,
)
# The elements that only a name could have brought, and what turns text.
_FOREIGN_PARTS: Final = """(() => ({
  hacked: window.hacked || null,
  elements: [...document.querySelectorAll(
    "img, iframe, object, embed, form, input, link, base, meta[http-equiv]," +
    "[onerror], [onfocus], [style]"
  )].map((each) => each.outerHTML.slice(0, 100)),
  scripts: document.scripts.length,
  links: [...document.querySelectorAll("[href], [src]")]
    .map((each) => each.getAttribute("href") || each.getAttribute("src"))
    .filter((each) => !/^(#|audit$|\\.\\/$)/.test(each)),
  turned: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.outerHTML),
  wide: document.documentElement.scrollWidth > window.innerWidth,
}))()"""
_FOCUSED: Final = """(() => {
  const each = document.activeElement, box = each.getBoundingClientRect();
  const outline = getComputedStyle(each).outlineStyle;
  return [each.tagName, each.closest("[id]")?.id || "", each.textContent.slice(0, 60),
          box.width > 0 && box.bottom > 0 && box.top < innerHeight && outline !== "none"];
})()"""
_AXE: Final = """axe.run().then((found) => ({
  passes: found.passes.length,
  violations: found.violations.map(
    (each) => [each.id, each.help, each.nodes.map((node) => node.html)])}))"""
_PAINT: Final = """new Promise((done) => {
  const look = () => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    const load = performance.getEntriesByType("navigation")[0];
    if (paint && load.loadEventEnd) done([paint.startTime, load.responseEnd, load.loadEventEnd]);
    else setTimeout(look, 10);
  };
  look();
})"""
# Scrolls from the top to the end as a person who holds Page Down, and notes frames and long tasks.
_SCROLL: Final = """new Promise((done) => {
  const tasks = [], frames = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) tasks.push(each.duration);
  }).observe({entryTypes: ["longtask"]});
  const end = document.documentElement.scrollHeight;
  let last = performance.now();
  const step = (now) => {
    frames.push(now - last); last = now;
    window.scrollBy(0, 100);
    const is_end = window.scrollY + window.innerHeight >= end - 1;
    if (!is_end && frames.length < 2000) requestAnimationFrame(step);
    else setTimeout(() => done({tasks, frames, scrolled: window.scrollY}), 200);
  };
  requestAnimationFrame(step);
})"""


async def check(browser: Browser, folder: Path, kept: Path | None) -> list[str]:
    """Return what is wrong."""
    failed: list[str] = []
    async with drive(browser, folder) as driver:
        tab = await driver.open_tab()
        axe = browser.checks.read_text("utf-8")
        async with serve_files(folder, "small", clusters.make_small_cluster()) as url:
            failed += await _look(tab, url, axe, kept)
            failed += await _walk(tab, url)
            failed += await _attack(await driver.open_tab(), url)
        for number, name in enumerate(HOSTILE):
            objects = clusters.make_hostile_cluster(name)
            async with serve_files(folder, f"hostile-{number}", objects) as url:
                failed += await _meet(await driver.open_tab(), url, axe, name)
        failed += await _follow(await driver.open_tab(), folder)
        async with serve_files(folder, "large", clusters.make_large_cluster()) as url:
            failed += await _measure(await driver.open_tab(), url)
    return failed


@contextlib.asynccontextmanager
async def serve_files(folder: Path, name: str, objects: Iterable[JSON]) -> AsyncIterator[str]:
    """Serve the page of these objects, and yield its URL."""
    file = folder / f"{name}.json"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})
    file.write_text(text)  # nobody waits
    async with _serve("--cluster", str(file)) as (url, _):
        yield url


@contextlib.asynccontextmanager
async def _serve(*words: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "page", *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip(), process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()


# --- people --------------------------------------------------------------------------------------


async def _look(tab: Tab, url: str, axe: str, kept: Path | None) -> list[str]:
    """Check both schemes, and the audit; take pictures."""
    failed, pictures = [], dict[Path, bytes]()
    await tab.resize(*PICTURE_SIZE)
    for scheme in ("light", "dark"):
        await tab.prefer(scheme)
        for name, page in (("page", url), ("audit", f"{url}audit")):
            await tab.open(page)
            await tab.evaluate("document.querySelectorAll('details')[3]?.setAttribute('open', '')")
            failed += await _check_rules(tab, axe, f"{name}, {scheme}")
            if kept is not None:
                pictures[kept / f"{name}-{scheme}.png"] = await tab.take_picture()
        if kept is not None and scheme == "light":
            await tab.open(url)
            await tab.evaluate(_SHOW_DEVICES)
            pictures[PICTURE] = await tab.take_picture()
    if tab.refusals:
        failed.append(f"the policy refuses parts of the page: {tab.refusals}")
    for file, picture in pictures.items():
        file.write_bytes(picture)  # nobody waits
    return failed


_SHOW_DEVICES: Final = """(() => {
  document.querySelector("nav").hidden = true;
  document.querySelectorAll("details")[2].open = true;
  window.scrollTo(0, 0);
})()"""


async def _check_rules(tab: Tab, axe: str, name: str) -> list[str]:
    await tab.evaluate(f"{axe}; 0")
    checked = await tab.evaluate(_AXE)
    print(f"{name}: {checked['passes']} rules of axe-core")  # noqa: T201
    return [f"{name}: {each}" for each in checked["violations"]]


async def _walk(tab: Tab, url: str) -> list[str]:
    """Walk through the page with the Tab key, and open each node with Enter."""
    await tab.open(url)
    summaries = await tab.evaluate("document.querySelectorAll('summary').length")
    seen: list[tuple[str, str]] = []
    failed, opened = [], 0
    for _ in range(200):
        await tab.press("Tab", TAB)
        kind, key, said, is_visible = await tab.evaluate(_FOCUSED)
        if kind == "BODY" or (kind, f"{key}{said}") in seen:
            break
        seen.append((kind, f"{key}{said}"))
        if not is_visible:
            failed.append(f"keyboard: the focus on {kind} {said!r} cannot be seen")
        if kind == "SUMMARY":
            await tab.press("Enter", ENTER)
            opened += await tab.evaluate("document.activeElement.parentElement.open ? 1 : 0")
    if [kind for kind, _ in seen[:1]] != ["A"]:
        failed.append(f"keyboard: the first stop is not the link that skips: {seen[:1]}")
    if opened != summaries:
        failed.append(f"keyboard: {opened} of {summaries} nodes opened")
    print(f"keyboard: {len(seen)} stops, {opened} nodes opened")  # noqa: T201
    return failed


# --- attackers -----------------------------------------------------------------------------------


async def _meet(tab: Tab, url: str, axe: str, name: str) -> list[str]:
    """Open the page of a cluster in which everything is named like this."""
    failed = []
    short = f"hostile {name[:30]!r}"
    for page in (url, f"{url}audit"):
        await tab.open(page)
        await tab.evaluate("document.querySelectorAll('details').forEach((e) => e.open = true)")
        brought = await tab.evaluate(_FOREIGN_PARTS)
        if brought != _HARMLESS:
            failed.append(f"{short}: {brought}")
        failed += await _check_rules(tab, axe, short)
    if tab.dialogs or tab.refusals:
        failed.append(f"{short}: dialogs {tab.dialogs}, refused {tab.refusals}")
    return failed


_HARMLESS: Final[JSON] = {
    "hacked": None, "elements": [], "scripts": 0, "links": [], "turned": False, "wide": False,
}  # fmt: skip


async def _attack(tab: Tab, url: str) -> list[str]:
    """Try from another server of this machine and from a foreign host, who know the URL."""
    failed = []
    async with serve_foreign_site() as port:
        for host in ("127.0.0.1", FOREIGN):
            await tab.open(f"http://{host}:{port}/")
            tab.responses.clear()
            for name, got in (await tab.evaluate(ATTACK % url)).items():
                if "Devices of a cluster" in f"{got}" or got in ("loaded", "frame", "alive"):
                    failed.append(f"foreign site {host}: {name} got {got[:80]!r}")
            answers = [status for asked, status in tab.responses if asked.startswith(url[:22])]
            if not answers or {*answers} & {200, 204, 304}:
                failed.append(f"foreign site {host}: answers {answers}")
            print(f"foreign site {host}: {len(answers)} answers, {sorted({*answers})}")  # noqa: T201
    rebound = url.replace("127.0.0.1", FOREIGN)
    tab.responses.clear()
    await tab.open(rebound)
    text = await tab.evaluate("document.documentElement.innerText")
    if [status for _, status in tab.responses[:1]] != [421] or "Devices" in text:
        failed.append(f"a name that points here: {tab.responses[:1]}, {text[:80]!r}")
    return failed


# --- live ----------------------------------------------------------------------------------------


async def _follow(tab: Tab, folder: Path) -> list[str]:
    """Change a cluster under an open page, and end the server."""
    async with FakeApi() as api:
        for each in clusters.make_small_cluster():
            api.put(each)
        words = ("--kubeconfig", str(api.kubeconfig(folder / "config")))
        async with _serve(*words) as (url, process):
            await tab.open(url)
            await tab.until("document.querySelectorAll('details').length >= 7")
            await tab.evaluate(
                "const node = [...document.querySelectorAll('details')].find("
                "(each) => each.textContent.includes('h100-1'));"
                "node.open = true; node.firstElementChild.focus(); window.kept = node.id; 0"
            )
            claim = api.get("ResourceClaim", "train-h100-1-0", "team-speech")
            assert claim is not None
            api.put({**claim, "status": {}})
            await tab.until("document.getElementById(kept).textContent.includes('1 held, 7 free')")
            kept = await tab.evaluate(
                "[document.getElementById(kept).open,"
                " document.activeElement === document.getElementById(kept).firstElementChild]"
            )
            failed = [] if kept == [True, True] else [f"live: open and focused: {kept}"]
            api.put(clusters.make_node("new-1", "new"))
            await tab.until("document.querySelector('main').textContent.includes('new-1')")
            kept = await tab.evaluate("document.getElementById(kept).open")
            failed += [] if kept else ["live: a node is closed by another frame"]
            process.kill()
            await process.wait()
            await tab.until("!lost.hidden && lost.textContent.includes('Not live')")
            if tab.refusals:
                failed.append(f"live: the policy refuses: {tab.refusals}")
            print("live: a part and a frame were replaced, and the end was said")  # noqa: T201
            return failed


# --- time ----------------------------------------------------------------------------------------


async def _measure(tab: Tab, url: str) -> list[str]:
    """Print how long a large page takes; it fails only if it does not load."""
    await tab.resize(1280, 800)
    rounds = []
    for _ in range(ROUNDS):
        await tab.open("about:blank")
        await tab.open(url)
        painted, received, loaded = await tab.evaluate(_PAINT)
        scrolled = await tab.evaluate(_SCROLL)
        rounds.append(
            {
                "first contentful paint": painted,
                "response received": received,
                "load event": loaded,
                "longest frame while scrolling": max(scrolled["frames"][1:]),
                "median frame while scrolling": statistics.median(scrolled["frames"][1:]),
                "longest task while scrolling": max(scrolled["tasks"], default=0),
                "long tasks while scrolling": len(scrolled["tasks"]),
            }
        )
    size = await tab.evaluate(
        "[document.querySelectorAll('details').length,"
        " document.querySelectorAll('.devices b').length,"
        " document.documentElement.outerHTML.length]"
    )
    print(f"large page: {size[0]} nodes, {size[1]} devices, {size[2]:,} characters")  # noqa: T201
    for line in _summarize(rounds):
        print(line)  # noqa: T201
    return [] if size[:2] == [500, 4000] else [f"large page: {size}"]


def _summarize(rounds: list[dict[str, Any]]) -> Iterator[str]:
    for name in rounds[0]:
        values = sorted(each[name] for each in rounds)
        listed = ", ".join(f"{value:.0f}" for value in values)
        yield f"  {name}: median {statistics.median(values):.0f} ({listed})"
