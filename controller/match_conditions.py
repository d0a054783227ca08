"""Keeps the matchConditions of Drawbridge's webhooks equal to the configuration.

Also sets failurePolicy Fail on the guard once that can deny no pod by mistake.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from controller.field_ownership import release_fields
from controller.new_findings import NewFindings
from controller.protocols import Gauge, ObjectReference, ObjectStore, Reporter, Unstructured
from controller.reconcile import FailedLast
from drawbridge.agreement.guard_rollout import serves_guard
from drawbridge.agreement.match_conditions import (
    API_VERSION,
    GUARD_KIND,
    KIND,
    find_uncalled,
    plan_applies,
)
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.names import FIELD_MANAGER, JUDGE_CONFIGURATION, WEBHOOK_CONFIGURATION

NAME: Final = "conditions"


class LiveWebhooks(NamedTuple):
    """Reads the webhook configurations and the Deployment of the webhook; None if missing.

    Also reads the labels of namespaces, by name.
    """

    read_mutating: Callable[[], Unstructured | None]
    read_validating: Callable[[str], Unstructured | None]  # of a name
    read_deployment: Callable[[], Awaitable[Unstructured | None]]
    read_namespaces: Callable[[], Mapping[str, Mapping[str, str]]]


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
        self._released = FailedLast()
        self._new_findings = NewFindings(reporter, "MatchConditions")

    async def reconcile(self) -> None:
        """Report which webhooks may not be called now, then apply the required conditions."""

        async def release(kind: str, live: Unstructured | None) -> None:
            await release_fields(self._stores[kind], live, FIELD_MANAGER)

        configuration = self._configuration()
        served = serves_guard(await self._live.read_deployment())
        mutating = self._live.read_mutating()
        validating = self._live.read_validating(WEBHOOK_CONFIGURATION)
        registered = {
            (KIND, WEBHOOK_CONFIGURATION): mutating,
            (GUARD_KIND, WEBHOOK_CONFIGURATION): validating,
        }
        if (judge := self._live.read_validating(JUDGE_CONFIGURATION)) is not None:
            registered[GUARD_KIND, JUDGE_CONFIGURATION] = judge  # not every installation has it
        await self._report(registered, configuration)
        latest = {KIND: mutating, GUARD_KIND: validating}
        plan = partial(plan_applies, configuration=configuration, guard_served=served)
        for change in plan(mutating, validating):
            latest[change["kind"]] = await self._stores[change["kind"]].apply(change)
            self._reporter.count(NAME, "applied")
        if not plan(*latest.values()):
            # Only now: while the conditions change, ownership removes those of the transition. An
            # administrator can apply the manifests again at once, and must not have a conflict.
            await self._released.process_each(latest, release)

    async def _report(
        self,
        registered: Mapping[tuple[str, str], Unstructured | None],
        configuration: Configuration,
    ) -> None:
        """Report what was not found before; a failed apply is tried again every few seconds."""
        findings: dict[Finding, ObjectReference] = {}
        namespaces = self._live.read_namespaces()
        for (kind, name), live in registered.items():
            uid = ((live or {}).get("metadata") or {}).get("uid", "")
            reference = ObjectReference(kind, name, uid=uid, api_version=API_VERSION)
            # Of ten thousands of namespaces, and selectors with thousands of names.
            asked = find_uncalled(kind, name, live, configuration, namespaces)
            uncalled = await asyncio.to_thread(tuple, asked)
            findings |= dict.fromkeys(uncalled, reference)
        self._new_findings.report(findings)
        self._reporter.set_gauge(Gauge.MATCH_CONDITIONS_INACTIVE, len(findings))
