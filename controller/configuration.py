"""Copies the configuration that administrators offer to the configuration in use, once it is valid.

A refused configuration changes nothing but the condition of the copy, and is reported again in each
run, so that its Event stays.
"""

from collections.abc import Callable
from typing import Final

from controller.protocols import ObjectReference, ObjectStore, Reporter, WallClock
from drawbridge.agreement.configuration_in_use import compose_in_use, describe_findings
from drawbridge.agreement.operation_codes import CONFIGURATION_REJECTED
from drawbridge.names import CONFIGURATION_IN_USE_CONFIG_MAP
from drawbridge.process.settings import WatchedConfiguration

NAME: Final = "configuration"


class ConfigurationReconciler:
    """Writes the configuration in use."""

    name = NAME

    def __init__(
        self,
        offered: WatchedConfiguration,
        store: ObjectStore,
        text_in_use: Callable[[], str],
        reporter: Reporter,
        now: WallClock,
    ) -> None:
        self._offered = offered
        self._store = store
        self._text_in_use = text_in_use
        self._reporter = reporter
        self._now = now

    async def reconcile(self) -> None:
        """Write the offered text if it is valid, else the one that this process uses."""
        offered = self._offered.reading
        text = self._text_in_use() if offered.configuration is None else offered.text
        live = await self._store.read(CONFIGURATION_IN_USE_CONFIG_MAP)
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        change = compose_in_use(text, offered, live, now)
        if change is not None:
            write = self._store.create if live is None else self._store.replace
            await write(change)
            self._reporter.count(NAME, "published")
        if offered.configuration is None:
            self._report(describe_findings(offered.findings), has_text=bool(text))

    def _report(self, reason: str, *, has_text: bool) -> None:
        then = "the last valid one stays in use" if has_text else "no process can start without one"
        finding = CONFIGURATION_REJECTED.at("", f"{then}: {reason}", object="Configuration")
        reference = ObjectReference(
            "ConfigMap", self._offered.name, self._offered.namespace, self._offered.uid
        )
        self._reporter.report(finding, reference, "AcceptConfiguration")
