"""The page as it is now, and which parts of it changed after an earlier version."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from drawbridge.report.page.written import WrittenPage


class PageChanges(NamedTuple):
    """What changed after a version; with another frame the whole page is needed."""

    version: int
    is_frame: bool
    parts: Mapping[str, str]


class Snapshots:
    """The last page that was published. Versions are numbers that grow."""

    def __init__(self) -> None:
        self._version = 0
        self._frame_version = 0
        self._page = WrittenPage(())
        self._parts: dict[str, tuple[int, str]] = {}  # since which version, and the HTML
        self._body = b""
        self._published = asyncio.Event()

    @property
    def version(self) -> int:
        """The version of the page; 0 before the first one."""
        return self._version

    def publish(self, page: WrittenPage) -> None:
        """Replace the page."""
        parts = page.parts
        is_frame = page.frame != self._page.frame
        if not is_frame and parts == self._page.parts:
            return
        self._version += 1
        if is_frame:
            self._frame_version = self._version
        before = self._parts
        self._parts = {
            key: before[key] if before.get(key, (0, None))[1] == html else (self._version, html)
            for key, html in parts.items()
        }
        self._page, self._body = page, b""
        published, self._published = self._published, asyncio.Event()
        published.set()

    @property
    def body(self) -> bytes:
        """The whole page; it says its version."""
        if not self._body:
            self._body = self._page.write(self._version).encode(errors="replace")
        return self._body

    def find_changes(self, version: int) -> PageChanges | None:
        """Return what changed after a version; None if nothing did.

        A version that never was is older than everything.
        """
        if version == self._version:
            return None
        if not self._frame_version <= version < self._version:
            return PageChanges(self._version, is_frame=True, parts={})
        parts = {key: html for key, (since, html) in self._parts.items() if since > version}
        return PageChanges(self._version, is_frame=False, parts=parts)

    async def wait(self, version: int) -> None:
        """Wait until there is another version."""
        while version == self._version:
            await self._published.wait()
