"""Keeps the matchConditions of Drawbridge's webhooks equal to the configuration.

Also sets failurePolicy Fail on the guard once that can deny no pod by mistake.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from controller.field_ownership import release_fields
from controller.protocols import Gauge, ObjectReference, ObjectStore, Reporter, Unstructured
from drawbridge.agreement.guard_rollout import serves_guard
from drawbridge.agreement.match_conditions import (
    API_VERSION,
    GUARD_KIND,
    KIND,
    find_inactive,
    plan_applies,
)
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.names import FIELD_MANAGER, WEBHOOK_CONFIGURATION

NAME: Final = "conditions"


class LiveWebhooks(NamedTuple):
    """Reads both webhook configurations and the Deployment of the webhook; None if missing."""

    read_mutating: Callable[[], Unstructured | None]
    read_validating: Callable[[], Unstructured | None]
    read_deployment: Callable[[], Awaitable[Unstructured | None]]


class MatchConditionReconciler:
    """Applies the matchConditions that the configuration requires."""

    name = NAME

    def __init__(
        self,
        stores: Mapping[str, ObjectStore],
        live: LiveWebhooks,
        configuration: Callable[[], Configuration],
        reporter: Reporter,
    ) -> None:
        self._stores = stores
        self._live = live
        self._configuration = configuration
        self._reporter = reporter
        self._reported: tuple[Finding, ...] = ()

    async def reconcile(self) -> None:
        """Report the conditions that are inactive now, then apply the required conditions."""
        configuration = self._configuration()
        served = serves_guard(await self._live.read_deployment())
        mutating, validating = self._live.read_mutating(), self._live.read_validating()
        inactive = find_inactive(mutating, configuration)
        self._report(inactive, mutating)
        self._reporter.set_gauge(Gauge.MATCH_CONDITIONS_INACTIVE, len(inactive))
        changes = plan_applies(mutating, validating, configuration, guard_served=served)
        for change in changes:
            await self._stores[change["kind"]].apply(change)
            self._reporter.count(NAME, "applied")
        if not changes:
            # Only now: while the conditions change, ownership removes those of the transition.
            for kind, live in ((KIND, mutating), (GUARD_KIND, validating)):
                await release_fields(self._stores[kind], live, FIELD_MANAGER)

    def _report(self, findings: tuple[Finding, ...], live: Unstructured | None) -> None:
        """Report what was not found before; a failed apply is tried again every few seconds."""
        uid = ((live or {}).get("metadata") or {}).get("uid", "")
        reference = ObjectReference(KIND, WEBHOOK_CONFIGURATION, uid=uid, api_version=API_VERSION)
        for finding in findings:
            if finding not in self._reported:
                self._reporter.report(finding, reference, "MatchConditions")
        self._reported = findings
