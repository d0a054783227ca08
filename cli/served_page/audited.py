"""The audit as a page, made again after a minute, as far as somebody asks for it."""

import argparse
import asyncio
import copy
import io
import time
from collections.abc import Callable
from typing import Final

from cli import audit
from cli.input.audited_cluster import read_audited
from cli.input.facts_file import choose_gates
from cli.input.live_cluster import ClusterReadError
from cli.terminal.streams import Streams
from drawbridge.audit.written_as_html import write_html
from drawbridge.config.model import Configuration
from drawbridge.dra.gates import Gates
from drawbridge.report.markup import document, listed, text

KEPT_SECONDS: Final = 60.0
_BACK: Final = (
    '<nav class="screen" aria-label="Pages"><a href="./">Devices of the cluster</a></nav>\n'
)


class AuditPage:
    """Audits the cluster of the options, in a thread, one at a time.

    `find_namespace` returns the only namespace that is audited; empty for the whole cluster.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        streams: Streams,
        configuration: Configuration,
        find_namespace: Callable[[], str],
    ) -> None:
        self._options = options
        self._streams = streams
        self._configuration = configuration
        self._find_namespace = find_namespace
        self._lock = asyncio.Lock()
        self._made: tuple[float, str] | None = None

    async def write(self) -> str:
        """Return the page."""
        async with self._lock:
            if self._made is None or time.monotonic() - self._made[0] > KEPT_SECONDS:
                html = await asyncio.to_thread(self._write, self._find_namespace())
                self._made = time.monotonic(), html
            return self._made[1]

    def _write(self, namespace: str) -> str:
        options = copy.copy(self._options)
        options.only, options.since, options.quiet = namespace or None, None, True
        streams = self._streams._replace(err=io.StringIO())
        try:
            read = read_audited(options, streams, self._configuration.scope, lambda _: None)
        except ClusterReadError as error:
            return _write_failure(error.finding.message)
        enabled = choose_gates(options, read.version, keeps=read.keeps)
        if not isinstance(enabled, Gates):
            return _write_failure("; ".join(each.finding.message for each in enabled))
        given = audit.AuditInput(read, self._configuration, enabled, lambda _: None)
        done = audit.audit_cluster(options, given)
        said = [each.finding.message for each in read.findings]
        return "".join(write_html(done, f"{_BACK}{listed(said)}"))


def _write_failure(message: str) -> str:
    body = f"<header>\n{_BACK}<h1>No audit</h1>\n</header>\n<main><p>{text(message)}</p></main>\n"
    return "".join(document("No audit", [body]))
