"""The documentation site: what becomes of a page, and that each link leads somewhere."""

import re
from pathlib import Path

import pytest

from tests.tables import every_row
from tools.site.links import follow
from tools.site.pages import INDEX, ROOT, convert

DOCS = ROOT / "docs"


def test_a_diagram_becomes_markup_that_the_browser_draws() -> None:
    page = "a\n\n```mermaid\ngraph TD\n    a --> b & <c>\n```\n\n```console\n$ x\n```\n"
    assert convert(page) == (
        'a\n\n```{raw} html\n<pre class="mermaid">\ngraph TD\n    a --&gt; b &amp; &lt;c&gt;\n'
        "</pre>\n```\n\n```console\n$ x\n```\n"
    )


@every_row(
    "page", [file.stem for file in sorted(DOCS.glob("*.md"))], ids=lambda page: f"docs/{page}"
)
def test_the_index_lists_the_page(page: str) -> None:
    assert f"\ndocs/{page}\n" in INDEX.read_text("utf-8")


def test_the_index_has_a_line_for_each_person() -> None:
    text = INDEX.read_text("utf-8")
    for person in ("developers", "administrators", "drivers"):
        assert re.search(
            rf"^\| an? [a-z ]+ \| \[[^]]+\]\(docs/{person}\.md\) \|", text, re.MULTILINE
        )


LINKS = {
    "page.html": None,
    "page.html#here": None,
    "#top": None,
    "folder/": None,
    "a%20file.txt": None,
    "https://elsewhere.example/x": None,
    "mailto:a@example.com": None,
    "gone.html": "gone.html: no such file",
    "page.html#gone": "page.html#gone: no such place",
    "#gone": "#gone: no such place",
}


@pytest.mark.parametrize("address", LINKS)
def test_a_link_leads_to_a_file_and_a_place(tmp_path: Path, address: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text("")
    (tmp_path / "page.html").write_text('<h2 id="here">x</h2>')
    (tmp_path / "a file.txt").write_text("x")
    (tmp_path / "index.html").write_text(f'<p id="top"><a href="{address}">x</a></p>')
    problem = LINKS[address]
    report = follow(tmp_path)
    assert report.wrong == (() if problem is None else (f"index.html: {problem}",))
    is_external = ":" in address
    assert (len(report.external), report.followed) == (is_external, not is_external)


@pytest.mark.parametrize("tag", ["script src", "link href", "img src"])
def test_a_page_loads_nothing_from_elsewhere(tmp_path: Path, tag: str) -> None:
    (tmp_path / "index.html").write_text(f'<{tag}="//elsewhere.example/x">')
    (problem,) = follow(tmp_path).wrong
    assert problem == "index.html loads //elsewhere.example/x from elsewhere"
