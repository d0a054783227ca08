"""Follows each link of a built site to a file and a place in it."""

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

_EXTERNAL: Final = ("http", "https", "mailto")
_LINKS: Final = {"a": "href", "link": "href", "img": "src", "script": "src"}
# Addresses that are for people, and cannot be loaded from a page.
_FOLLOWED_BY_READERS: Final = "a"


class Page(NamedTuple):
    """The links of a page with the element of each, and the places that links can name."""

    links: tuple[tuple[str, str], ...]
    places: frozenset[str]


class Report(NamedTuple):
    """How many links were followed, the external ones, and what is wrong."""

    followed: int
    external: tuple[str, ...]
    wrong: tuple[str, ...]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value for name, value in attrs if value is not None}
        if "id" in named:
            self.places.add(named["id"])
        if address := named.get(_LINKS.get(tag, "")):
            self.links.append((tag, address))


@cache
def read_page(file: Path) -> Page:
    """Return the links and places of a page."""
    reader = _Reader()
    reader.feed(file.read_text("utf-8"))
    return Page(tuple(reader.links), frozenset(reader.places))


def follow(site: Path) -> Report:
    """Follow the links of all pages."""
    followed = 0
    external, wrong = set[str](), list[str]()
    for file in sorted(site.rglob("*.html")):
        for tag, address in read_page(file).links:
            if urlsplit(address).scheme in _EXTERNAL or address.startswith("//"):
                external.add(address)
                if tag != _FOLLOWED_BY_READERS:
                    wrong.append(f"{file.relative_to(site)} loads {address} from elsewhere")
                continue
            followed += 1
            wrong += (f"{file.relative_to(site)}: {why}" for why in _check(file, address))
    return Report(followed, tuple(sorted(external)), tuple(wrong))


def _check(file: Path, address: str) -> Iterator[str]:
    """Yield what is wrong with a link of a page."""
    parts = urlsplit(address)
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        yield f"{address}: no such file"
    elif parts.fragment and target.suffix == ".html" and not _has_place(target, parts.fragment):
        yield f"{address}: no such place"


def _has_place(page: Path, place: str) -> bool:
    return unquote(place) in read_page(page).places
