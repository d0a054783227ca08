"""The configuration of a process: read at start, and again whenever its file changes.

A broken file keeps the last good one and is reported, in the log and in a metric. What this
process cannot do is refused though a file for other commands may say it. Knows nothing of what the
fields mean.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

import config.codes
from config.load import load
from config.model import Configuration, Placement
from documents.document import Source
from documents.read import documents
from dra.finding import Finding
from runtime import metrics
from runtime.logs import say

_LOG: Final = logging.getLogger("runtime.settings")
EVERY: Final = 5.0  # seconds between looks: a mounted ConfigMap is swapped by links, without events
_TOLD: Final = 50  # findings of one file


class Settings:
    """The configuration in use; without a file, the defaults."""

    def __init__(self, path: str | None = None, *, known: Sequence[str]) -> None:
        self.current = Configuration()
        self._path = path
        self._known = known
        self._seen: bytes | None = None
        self._used = False
        self._listeners: list[Callable[[Configuration], None]] = []

    def subscribe(self, listener: Callable[[Configuration], None]) -> None:
        """Call `listener` with every new configuration from now on."""
        self._listeners.append(listener)

    def load(self) -> tuple[Finding, ...]:
        """Read the file for the first time; what is wrong with it, if anything."""
        return self.reload()

    def reload(self) -> tuple[Finding, ...]:
        """Read the file if its content changed; what is wrong with the new content."""
        if self._path is None:
            metrics.CONFIGURATION_GOOD.set(1)
            return ()
        content, read = _bytes(self._path)
        if content == self._seen:
            return ()
        self._seen = content
        found = read or parse(content, self._path, self._known)
        if isinstance(found, Configuration):
            self._use(found)
            return ()
        metrics.CONFIGURATION_READS.labels("error").inc()
        metrics.CONFIGURATION_GOOD.set(0)
        self._report(found)
        return found

    async def run(self, every: float = EVERY) -> None:
        """Look at the file now and then, until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                self.reload()
            except Exception:  # noqa: BLE001  # whatever it is
                # A bug in reading must not end a process that has a good configuration.
                _LOG.exception("the configuration could not be read")

    def _report(self, findings: Sequence[Finding]) -> None:
        text = "configuration refused" + (", the last good one goes on" if self._used else "")
        for finding in findings[:_TOLD]:
            content = msgspec.to_builtins(finding)
            say(_LOG, logging.ERROR, text, file=self._path, finding=content)

    def _use(self, found: Configuration) -> None:
        metrics.CONFIGURATION_READS.labels("success").inc()
        metrics.CONFIGURATION_GOOD.set(1)
        say(_LOG, logging.INFO, "configuration in use", file=self._path)
        self.current, self._used = found, True
        for listener in self._listeners:
            listener(found)


def parse(data: bytes, name: str, known: Sequence[str]) -> Configuration | tuple[Finding, ...]:
    """Read a Configuration that a process can serve, or give all findings."""
    found = [each for each in documents(Source(name, data)) if not each.empty]
    if unread := tuple(located.finding for each in found for located in each.findings):
        return unread
    if len(found) != 1:
        message = f"there are {len(found)} documents in the file, expected one Configuration"
        return (config.codes.NOT_ONE.at("", message),)
    loaded = load(found[0].value, known)
    if not isinstance(loaded, Configuration):
        return loaded
    return unbuilt(loaded) or loaded


def unbuilt(configuration: Configuration) -> tuple[Finding, ...]:
    """Tell what the file may say, but no process does yet."""
    if configuration.placement is not Placement.BRIDGE:
        return ()
    message = "placement bridge is not available in this version: nothing would allocate"
    return (config.codes.FIELD_UNAVAILABLE.at("placement", message, object="Configuration"),)


def _bytes(path: str) -> tuple[bytes, tuple[Finding, ...]]:
    """Read the file; without it, a text that differs from any content, and the finding."""
    try:
        return Path(path).read_bytes(), ()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        remedy = "Give --config the path of a file that is there and may be read."
        finding = config.codes.NOT_ONE.at("", message, object="Configuration", remedy=remedy)
        return b"\0" + message.encode(), (finding,)
