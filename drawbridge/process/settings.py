"""Load the configuration of a process, and reload it when the file changes.

An invalid file is reported in the log and in a metric, and the last valid configuration stays in
use. Settings that no process supports are rejected.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import drawbridge.config.codes
from drawbridge.agreement.configuration import read_configuration
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Source
from drawbridge.documents.read import read_documents
from drawbridge.finding import Finding
from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process.settings")
POLL_INTERVAL: Final = 5.0  # seconds; a mounted ConfigMap changes by symlinks, without events
_MAX_LOGGED: Final = 50  # findings of one file


class Settings:
    """The configuration in use. Without a file, it has the default values."""

    def __init__(self, path: str | None = None, *, known: Mapping[str, str]) -> None:
        self.current = Configuration()
        self._path = path
        self._known = known
        self._seen: bytes | None = None
        self._is_loaded = False
        self._listeners: list[Callable[[Configuration], None]] = []

    def subscribe(self, listener: Callable[[Configuration], None]) -> None:
        """Call `listener` with each new configuration."""
        self._listeners.append(listener)

    def load(self) -> tuple[Finding, ...]:
        """Load the file for the first time. Return its errors."""
        return self.reload()

    def reload(self) -> tuple[Finding, ...]:
        """Load the file if its content changed. Return the errors of the new content."""
        if self._path is None:
            metrics.CONFIGURATION_GOOD.set(1)
            return ()
        content, errors = _read_file(self._path)
        if content == self._seen:
            return ()
        self._seen = content
        parsed = errors or parse_configuration(content, self._path, self._known)
        if isinstance(parsed, Configuration):
            self._apply(parsed)
            return ()
        metrics.CONFIGURATION_READS.labels("error").inc()
        metrics.CONFIGURATION_GOOD.set(0)
        self._report(parsed)
        return parsed

    async def run(self, interval: float = POLL_INTERVAL) -> None:
        """Poll the file until cancelled."""
        while True:
            await asyncio.sleep(interval)
            try:
                self.reload()
            except Exception:  # noqa: BLE001  # any bug
                # A bug in the reader must not end a process that has a valid configuration.
                _LOG.exception("unhandled exception while reading the configuration")

    def _report(self, findings: Sequence[Finding]) -> None:
        text = "configuration rejected"
        if self._is_loaded:
            text += ", the last valid one stays in use"
        for finding in findings[:_MAX_LOGGED]:
            content = msgspec.to_builtins(finding)
            log_event(_LOG, logging.ERROR, text, file=self._path, finding=content)

    def _apply(self, configuration: Configuration) -> None:
        metrics.CONFIGURATION_READS.labels("success").inc()
        metrics.CONFIGURATION_GOOD.set(1)
        log_event(_LOG, logging.INFO, "configuration in use", file=self._path)
        self.current, self._is_loaded = configuration, True
        for listener in self._listeners:
            listener(configuration)


def parse_configuration(
    data: bytes, name: str, known: Mapping[str, str]
) -> Configuration | tuple[Finding, ...]:
    """Read a Configuration that a process supports, or return all findings."""
    documents = [each for each in read_documents(Source(name, data)) if not each.empty]
    if unread := tuple(located.finding for each in documents for located in each.findings):
        return unread
    if len(documents) != 1:
        message = f"expected one Configuration, but the file has {len(documents)} documents"
        return (drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("", message),)
    return read_configuration(documents[0].value, known)


def _read_file(path: str) -> tuple[bytes, tuple[Finding, ...]]:
    """Read the file. On an error, return bytes that differ from any content, and a finding."""
    try:
        return Path(path).read_bytes(), ()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        remedy = "Set --config to the path of a readable file."
        finding = drawbridge.config.codes.CONFIGURATION_NOT_ONE.at(
            "", message, object="Configuration", remedy=remedy
        )
        return b"\0" + message.encode(), (finding,)
