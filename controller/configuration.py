"""Copies the configuration that administrators offer to the configuration in use, once it is valid.

A refused configuration changes nothing but the condition of the copy, and is reported again in each
run, so that its Event stays.

A run reads both from the API server, the copy first: a watch can be behind, and what another leader
has accepted after that gives the copy another version than this one replaces.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from controller.protocols import ObjectReference, ObjectStore, Reporter, Unstructured, WallClock
from drawbridge.agreement.configuration_in_use import (
    ConfigurationConfigMap,
    ConfigurationReading,
    compose_in_use,
    describe_findings,
)
from drawbridge.agreement.offered_configuration import describe_unread, read_accepted, read_offered
from drawbridge.agreement.operation_codes import CONFIGURATION_REJECTED
from drawbridge.api_error import ApiError
from drawbridge.names import CONFIGURATION_CONFIG_MAP, CONFIGURATION_IN_USE_CONFIG_MAP

NAME: Final = "configuration"


class ConfigurationReconciler:
    """Writes the configuration in use. `last_text` is the last valid one that this process used."""

    name = NAME

    def __init__(
        self,
        store: ObjectStore,
        namespace: str,
        last_text: Callable[[], str],
        reporter: Reporter,
        now: WallClock,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._last_text = last_text
        self._reporter = reporter
        self._now = now

    async def reconcile(self) -> None:
        """Write the offered text if it is valid; else the one in use stays, or is repaired."""
        live = await self._store.read(CONFIGURATION_IN_USE_CONFIG_MAP)
        original, offered, refusal = await self._read_offered()
        text = offered.text
        if offered.configuration is None:
            in_use = await asyncio.to_thread(read_accepted, _decode(live))
            text = self._last_text() if in_use.configuration is None else in_use.text
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        change = compose_in_use(text, offered, live, now)
        if change is not None:
            write = self._store.create if live is None else self._store.replace
            await write(change)
            self._reporter.count(NAME, "published")
        if offered.configuration is None:
            uid = (original or {"metadata": {}})["metadata"].get("uid", "")
            self._report(describe_findings(offered.findings), uid, has_text=bool(text))
        if refusal is not None:
            raise refusal  # no watch tells of a new role, so that it is tried again soon

    async def _read_offered(
        self,
    ) -> tuple[Unstructured | None, ConfigurationReading, ApiError | None]:
        """Read the offered configuration; it is refused if this controller may not read it."""
        try:
            original = await self._store.read(CONFIGURATION_CONFIG_MAP)
        except ApiError as error:
            if not error.refused:
                raise
            return None, describe_unread(error), error
        # To read a large one takes a second.
        return original, await asyncio.to_thread(read_offered, _decode(original)), None

    def _report(self, reason: str, uid: str, *, has_text: bool) -> None:
        then = "the last valid one stays in use" if has_text else "no process can start without one"
        finding = CONFIGURATION_REJECTED.at("", f"{then}: {reason}", object="Configuration")
        reference = ObjectReference("ConfigMap", CONFIGURATION_CONFIG_MAP, self._namespace, uid)
        self._reporter.report(finding, reference, "AcceptConfiguration")


def _decode(live: Unstructured | None) -> ConfigurationConfigMap | None:
    return None if live is None else msgspec.convert(live, ConfigurationConfigMap)
