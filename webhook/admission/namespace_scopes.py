"""Decide the scope of namespaces, with a bounded cache of the decisions."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from drawbridge.agreement.scope import Mode, decide_namespace_scope
from drawbridge.bounded_cache import BoundedCache
from drawbridge.config.model import Configuration, Placement
from drawbridge.config.placement import decide_placement
from drawbridge.finding import Finding
from drawbridge.names import ADMIN_ACCESS_LABEL
from drawbridge.process import review
from webhook.admission.protocols import NamespaceView
from webhook.admission.responses import ALLOWED, PartialResponse, format_finding, shorten

_MAX_ENTRIES: Final = 10_000


class NamespaceDecision(NamedTuple):
    """The mode of a namespace, findings about its label, what it allows, and its placement."""

    mode: Mode
    findings: tuple[Finding, ...]
    admin_access: bool
    labels: Mapping[str, str]
    placement: Placement = Placement.NATIVE


class NamespaceScopes:
    """Decides the scope of namespaces. A decision is valid for the same labels and settings."""

    def __init__(self, cluster: NamespaceView) -> None:
        self._cluster = cluster
        self._configured: Configuration | None = None  # of the decisions
        self._decisions: BoundedCache[str, NamespaceDecision] = BoundedCache(_MAX_ENTRIES)

    def __len__(self) -> int:
        return len(self._decisions)

    def find(self, name: str, configured: Configuration) -> NamespaceDecision | None:
        """Return the decision for a namespace, or None if the namespace is unknown."""
        if configured is not self._configured:
            self._configured = configured
            self._decisions.clear()
        labels = self._cluster.namespace_labels(name)
        if labels is None:
            return None
        cached = self._decisions.get(name)
        if cached is not None and cached.labels is labels:
            return cached
        return self._decide(name, labels, configured)

    async def read(
        self, name: str, configured: Configuration, seconds: float
    ) -> NamespaceDecision | None:
        """Return the decision for a namespace that may have to be read from the API server.

        Return None if it is still unknown.
        """
        decision = self.find(name, configured)
        if decision is not None:
            return decision
        # The rest of the time is for the templates.
        labels = await self._cluster.read_namespace_labels(name, seconds / 2)
        return None if labels is None else self._decide(name, labels, configured)

    def _decide(
        self, name: str, labels: Mapping[str, str], configured: Configuration
    ) -> NamespaceDecision:
        mode, _, findings = decide_namespace_scope(name, labels, configured.scope)
        admin_access = labels.get(ADMIN_ACCESS_LABEL) == "true"
        placement = decide_placement(labels, configured)
        decision = NamespaceDecision(mode, findings, admin_access, labels, placement)
        if configured is self._configured:
            self._decisions.put(name, decision)
        return decision


class KnownScopes(NamespaceScopes):
    """The scopes of the namespaces that are in memory; it reads no others."""

    async def read(
        self, name: str, configured: Configuration, seconds: float
    ) -> NamespaceDecision | None:
        """Return the decision for a namespace, or None if it is not in memory."""
        del seconds
        return self.find(name, configured)


def allow_out_of_scope(decided: NamespaceDecision | None) -> PartialResponse:
    """Compose the response for a namespace whose pods are not translated."""
    if decided is None or not decided.findings:
        return ALLOWED
    lines = [shorten(format_finding(each)) for each in decided.findings]
    codes = tuple(each.code for each in decided.findings)
    return PartialResponse(review.compose_allowed((), lines), "allowed", codes)
