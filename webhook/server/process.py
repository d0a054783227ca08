"""`drawbridge serve webhook`: puts admission together, serves it, and ends it gracefully.

Knows nothing of pods; what is decided about them is decided in `webhook` and `translate`.
"""

import argparse
import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from cluster.session import Session
from cluster.write import Writer
from dra.finding import Finding
from registration.codes import CODES
from runtime import logs, metrics
from runtime.health import Ready, operations
from runtime.listener import Gate
from runtime.process import REFUSED, live, running
from runtime.settings import Settings
from runtime.shutdown import Stop
from runtime.tls import Certificate
from translate.changes.template import Template
from webhook.admission.answer_cache import Memory
from webhook.admission.handler import Admission
from webhook.admission.protocols import Ensured, Templates
from webhook.admission.templates import Made
from webhook.server.cluster_view import Known
from webhook.server.http_handler import Door
from webhook.server.template_store import Store

_LOG: Final = logging.getLogger("runtime")
# After the drain; together with it less than the 30 s that a kubelet waits by default.
_LAST: Final = 5.0


class _Counted:
    """Templates, with their results counted."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    async def ensure(self, namespace: str, template: Template, seconds: float) -> Ensured | Finding:
        return _count(await self._templates.ensure(namespace, template, seconds))

    async def look(self, namespace: str, template: Template, seconds: float) -> Ensured | Finding:
        return await self._templates.look(namespace, template, seconds)


def _count(result: Ensured | Finding) -> Ensured | Finding:
    label = result.value if isinstance(result, Ensured) else "refused"
    metrics.TEMPLATES.labels(label).inc()
    return result


async def run(options: argparse.Namespace) -> int:
    """Serve until told to stop; 0 for a graceful end, 2 for what cannot be served."""
    logs.configure(options.log_level)
    settings = Settings(options.config, known=CODES)
    if settings.load():
        return REFUSED
    certificate = Certificate(options.tls_cert, options.tls_key)
    certificate.refresh()

    async def serve(stop: Stop, session: Session) -> None:
        await _serve(options, settings, certificate, stop, session)

    code = await live(options, _LOG, serve)
    if not code:
        logs.say(_LOG, logging.INFO, "stopped")
    return code


async def _serve(
    options: argparse.Namespace,
    settings: Settings,
    certificate: Certificate,
    stop: Stop,
    session: Session,
) -> None:
    known = Known(session, options.namespace or session.namespace, settings.current)
    settings.subscribe(known.configure)
    memory: Memory = Memory()
    made = Made(Store(known.templates, Writer(session)), lambda: datetime.now(UTC))

    def missing() -> list[str]:
        lacks = certificate.missing()
        return [*known.missing(), *([lacks] if lacks else [])]

    def ready() -> list[str]:
        return [*(["stopping"] if stop.asked else []), *missing()]

    door = Door(Admission(known, _Counted(made), memory), missing)
    gate = Gate(options.listen, certificate, door.handle)
    async with _operated(options, ready, known, memory):
        await gate.open()
        following = (each.run() for each in known.caches)
        async with running((settings.run(), certificate.run(), *following)):
            await stop.wanted()
            # What stops goes on serving until everybody knows that it is going.
            door.closing = True
            await asyncio.sleep(options.drain)
            await gate.close(_LAST)


@contextlib.asynccontextmanager
async def _operated(
    options: argparse.Namespace, ready: Ready, known: Known, memory: Memory
) -> AsyncIterator[None]:
    """Serve health and metrics, with what the caches and the memory have to say."""
    collectors = (metrics.Caches(known.named), metrics.Memories(memory))
    for each in collectors:
        metrics.REGISTRY.register(each)
    try:
        async with operations(options.health, options.metrics, ready):
            yield
    finally:
        for each in collectors:
            metrics.REGISTRY.unregister(each)
