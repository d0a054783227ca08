"""The requests of a translated pod before its translation.

The undo patch is an annotation that any client can write. It never decides alone: the restored pod
is read and decided as any other.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.changes.queues import charge_to_queue
from drawbridge.translate.decisions.admin_access import check_admin_access
from drawbridge.translate.decisions.node_offers import PodAsks, decide_for_one_node
from drawbridge.translate.decisions.partition_policy import apply_partition_policy
from drawbridge.translate.legacy.asks import Ask, PodRequests
from drawbridge.translate.legacy.read import read_pod


class PodInput(NamedTuple):
    """A pod, and what is known about its namespace."""

    pod: Value
    namespace: str
    admin_access: bool | None
    queue: str = ""


class OriginalRequests(NamedTuple):
    """A pod as it was before its translation, and its requests."""

    pod: Value
    requests: PodRequests


def with_namespace(pod: Value, namespace: str) -> Value:
    """Return a pod with its namespace, which a pod template does not contain."""
    if not namespace or not isinstance(pod, dict):
        return pod
    metadata = as_mapping(pod.get("metadata"))
    if metadata.get("namespace"):
        return pod
    return {**pod, "metadata": {**metadata, "namespace": namespace}}


def read_original(
    given: PodInput, configuration: Configuration, facts: Facts | None
) -> OriginalRequests | None:
    """Read a translated pod as it was before its translation; None for any other pod."""
    original = restore_original(given.pod)
    if original is None:
        return None
    requests = read_pod(with_namespace(original, given.namespace), configuration)
    requests = charge_to_queue(requests, given.queue)
    return OriginalRequests(original, apply_partition_policy(requests, facts))


def is_left_by_translation(
    requests: PodRequests,
    given: PodInput,
    configuration: Configuration,
    facts: Facts | None,
) -> bool:
    """Return whether the translation of the original pod leaves all of these requests.

    The annotation can be forged, so the original is decided again, and it has to contain the
    requests with the same amounts.
    """
    left = find_left(given, configuration, facts)
    now = _list_amounts(given.pod, requests.asks)
    return bool(now) and all(left.get(where) == amounts for where, amounts in now.items())


def find_left(
    given: PodInput, configuration: Configuration, facts: Facts | None
) -> dict[tuple[Path, str], tuple[Value, Value]]:
    """Return the requests that the translation of the original pod leaves, with their amounts.

    There are none if it is refused, and of a pod that was not translated.
    """
    original = read_original(given, configuration, facts)
    if original is None or any(
        finding.severity is Severity.ERROR for finding in original.requests.findings
    ):
        return {}
    asks = original.requests.asks
    admin = check_admin_access(asks, configuration, labelled=given.admin_access)
    decided = decide_for_one_node(PodAsks(asks, admin), facts, configuration)
    return {} if decided.refused else _list_amounts(original.pod, decided.left)


def _list_amounts(pod: Value, asks: Iterable[Ask]) -> dict[tuple[Path, str], tuple[Value, Value]]:
    """Return limit and request of the resources that asks are read from, by container and name."""
    return {
        (user.path, name): (
            get_value(pod, (*user.path, "resources", "limits", name)),
            get_value(pod, (*user.path, "resources", "requests", name)),
        )
        for ask in asks
        for user in ask.users
        for name in ask.resources
    }


def lower_errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with warnings instead of errors."""
    return tuple(
        msgspec.structs.replace(finding, severity=Severity.WARNING)
        if finding.severity is Severity.ERROR
        else finding
        for finding in findings
    )
