"""Keeps the matchConditions of Drawbridge's webhooks equal to the configuration."""

from collections.abc import Callable, Iterable
from typing import Final

from config.model import Configuration
from controller.protocols import Gauge, ObjectReference, ObjectStore, Reporter, Unstructured
from dra.finding import Finding
from dra.names import WEBHOOK_CONFIGURATION
from registration.match_conditions import (
    API_VERSION,
    KIND,
    find_inactive,
    plan_applies,
)

NAME: Final = "conditions"


class MatchConditionReconciler:
    """Applies the matchConditions that the configuration requires."""

    name = NAME

    def __init__(
        self,
        webhooks: ObjectStore,
        read_webhook: Callable[[], Unstructured | None],
        configuration: Callable[[], Configuration],
        reporter: Reporter,
    ) -> None:
        self._webhooks = webhooks
        self._read_webhook = read_webhook
        self._configuration = configuration
        self._reporter = reporter

    async def reconcile(self) -> None:
        """Report the conditions that are inactive now, then apply the required conditions."""
        live, configuration = self._read_webhook(), self._configuration()
        found = find_inactive(live, configuration)
        self._report(found, live)
        self._reporter.set_gauge(Gauge.MATCH_CONDITIONS_INACTIVE, len(found))
        for change in plan_applies(live, None, configuration, guard_served=False):
            await self._webhooks.apply(change)
            self._reporter.count(NAME, "applied")

    def _report(self, findings: Iterable[Finding], live: Unstructured | None) -> None:
        uid = ((live or {}).get("metadata") or {}).get("uid", "")
        reference = ObjectReference(KIND, WEBHOOK_CONFIGURATION, uid=uid, api_version=API_VERSION)
        for finding in findings:
            self._reporter.report(finding, reference, "MatchConditions")
