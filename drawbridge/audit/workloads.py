"""Collects who asks for devices: the pods of each owner, and owners without pods."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement.scope import find_root_owner
from drawbridge.audit.model import Fate, WorkloadAudit
from drawbridge.audit.objects import AuditedNamespace, namespace_of, text_at
from drawbridge.audit.outcomes import Decider, PodOutcome, read_metadata
from drawbridge.audit.servers import Plugin, name_servers
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import FINISHED
from drawbridge.names import GUARD_WEBHOOK, POD_WEBHOOK
from drawbridge.translate.manifests.replicas import count_pods
from drawbridge.translate.manifests.workloads import Place, find_places

FAILED_CREATE: Final = "FailedCreate"  # the reason of the events of owners whose pods are refused
CLAIMS: Final = "claims"
NOBODY: Final = "nobody"
_REFUSED: Final = re.compile(
    rf'admission webhook "(?:{re.escape(POD_WEBHOOK)}|{re.escape(GUARD_WEBHOOK)})" denied the'
    r" request: (.*)",
    re.DOTALL,
)
_MAX_NOTE: Final = 300
_ENDS: Final = ("Complete", "Failed")  # conditions of a Job
# Waits for a node, was given to one, or has ended.
_WAITS, _RUNS, _ENDED = range(3)


class Where(NamedTuple):
    """The nodes by name, their groups, and their plugins."""

    nodes: Mapping[str, Node]
    groups: Mapping[str, str]
    plugins: Mapping[str, tuple[Plugin, ...]]


class _Key(NamedTuple):
    owner: str
    asks: tuple[str, ...]
    served_by: str
    fate: Fate


def collect_pods(
    pods: Iterable[Value], namespace: AuditedNamespace, decider: Decider, where: Where
) -> dict[_Key, WorkloadAudit]:
    """Return the alike pods of each owner."""
    by_key: dict[_Key, WorkloadAudit] = {}
    alike: dict[object, _Key] = {}
    # Finished pods belong to the others of their owner, whoever serves those.
    for pod in sorted(pods, key=lambda each: _state(each) == _ENDED):
        outcome = decider.decide(pod, namespace)
        if outcome is None:
            continue
        entry = _read(pod, namespace, outcome, where)
        key = _Key(entry.owner, entry.asks, entry.served_by, entry.fate)
        first = alike.setdefault((entry.owner, entry.asks, entry.fate), key)
        key = first if entry.finished else key
        by_key[key] = _add(by_key[key], entry) if key in by_key else entry
    return by_key


def _read(
    pod: Value, namespace: AuditedNamespace, outcome: PodOutcome, where: Where
) -> WorkloadAudit:
    node, state = text_at(pod, "spec", "nodeName"), _state(pod)
    owner = find_root_owner(namespace.name, read_metadata(pod)).partition("/")[2]
    group = where.groups.get(node, "")
    on = {group: 1} if state == _RUNS else {}
    return WorkloadAudit(
        owner[:400],
        outcome.asks,
        _find_server(pod, node, outcome, where),
        outcome.fate,
        outcome.becomes,
        outcome.reasons,
        outcome.codes,
        pods=int(state != _ENDED),
        finished=int(state == _ENDED),
        running=int(state == _RUNS),
        last=text_at(pod, "metadata", "creationTimestamp"),
        demand=outcome.demand,
        nodes=on,
        kept=(node,) if state == _RUNS and outcome.fate is Fate.STAYS else (),
    )


def _state(pod: Value) -> int:
    if text_at(pod, "status", "phase") in FINISHED:
        return _ENDED
    return _RUNS if text_at(pod, "spec", "nodeName") else _WAITS


def _find_server(pod: Value, node: str, outcome: PodOutcome, where: Where) -> str:
    """Return who serves the devices of a pod, in words."""
    if _state(pod) == _ENDED:
        return NOBODY
    if outcome.fate in (Fate.TRANSLATED, Fate.OWN_CLAIMS):
        return CLAIMS
    if not outcome.is_read:
        return CLAIMS if outcome.demand.devices else NOBODY
    path = ("status", "extendedResourceClaimStatus", "requestMappings")
    if names := [text_at(each, "resourceName") for each in as_list(get_value(pod, path))]:
        return f"DeviceClass for {', '.join(dict.fromkeys(names))}"
    if not node:
        return NOBODY
    node_facts = where.nodes.get(node)
    registrations = node_facts.registrations if node_facts else ()
    return name_servers(outcome.demand.units, where.plugins.get(node, ()), registrations)


def _add(first: WorkloadAudit, second: WorkloadAudit) -> WorkloadAudit:
    return replace(
        first,
        pods=first.pods + second.pods,
        running=first.running + second.running,
        finished=first.finished + second.finished,
        last=max(first.last, second.last),
        codes=tuple(dict.fromkeys((*first.codes, *second.codes))),
        nodes=dict(Counter(first.nodes) + Counter(second.nodes)),
        kept=tuple(dict.fromkeys((*first.kept, *second.kept))),
    )


def has_claims(entry: WorkloadAudit) -> bool:
    """Whether the devices of an entry come from a driver."""
    return entry.served_by == CLAIMS or entry.served_by.startswith("DeviceClass")


# --- owners --------------------------------------------------------------------------------------


def add_owners(
    collected: Mapping[_Key, WorkloadAudit],
    workloads: Iterable[Value],
    namespace: AuditedNamespace,
    decider: Decider,
) -> Iterator[WorkloadAudit]:
    """Yield the entries with the number of pods that their owners want, and owners without pods."""
    entries = dict(collected)
    first = {key.owner: key for key in reversed([*collected])}
    for workload in workloads:
        if _is_owned(workload):
            continue
        owner = f"{text_at(workload, 'kind')}/{text_at(workload, 'metadata', 'name')}"
        places = find_places(workload)
        is_over = _is_over(workload)
        wanted = 0 if is_over else sum(_count_wanted(workload, place) for place in places)
        if owner in first:
            entries[first[owner]] = replace(entries[first[owner]], wanted=wanted)
        if owner in first or is_over:
            continue
        for place in places:
            outcome = decider.decide(place.pod, namespace)
            if outcome is not None:
                number = _count_wanted(workload, place)
                key = _Key(owner, outcome.asks, NOBODY, outcome.fate)
                entries[key] = _without_pods(key, outcome, number)
    yield from entries.values()


def _count_wanted(workload: Value, place: Place) -> int:
    """Return how many pods an owner wants; its status tells on how many nodes it wants one."""
    count = count_pods(workload, place)
    on_nodes = get_value(workload, ("status", "desiredNumberScheduled"))
    return on_nodes if count.on_each_node and isinstance(on_nodes, int) else count.number


def _is_owned(workload: Value) -> bool:
    """Whether another object made the workload, which then stands for it."""
    owners = as_list(get_value(workload, ("metadata", "ownerReferences")))
    return any(as_mapping(each).get("controller") is True for each in owners)


def _is_over(workload: Value) -> bool:
    """Whether a Job has ended, and creates no more pods."""
    conditions = map(as_mapping, as_list(get_value(workload, ("status", "conditions"))))
    ended = any(e.get("type") in _ENDS and e.get("status") == "True" for e in conditions)
    return ended and text_at(workload, "kind") == "Job"


def _without_pods(key: _Key, outcome: PodOutcome, wanted: int) -> WorkloadAudit:
    return WorkloadAudit(
        key.owner,
        key.asks,
        key.served_by,
        key.fate,
        outcome.becomes,
        outcome.reasons,
        outcome.codes,
        wanted=wanted,
        demand=outcome.demand,
    )


# --- refusals ------------------------------------------------------------------------------------


def find_refusals(events: Iterable[Value]) -> dict[str, str]:
    """Return the owners whose pods Drawbridge refuses now, with attempts and reason."""
    refusals: dict[str, str] = {}
    for value in events:
        event = as_mapping(value)
        note = event.get("note") or event.get("message")
        denied = _REFUSED.search(note) if isinstance(note, str) else None
        if event.get("reason") != FAILED_CREATE or denied is None:
            continue
        subject = as_mapping(event.get("regarding") or event.get("involvedObject"))
        series = as_mapping(event.get("series"))
        attempts = series.get("count") or event.get("deprecatedCount") or event.get("count")
        number = attempts if isinstance(attempts, int) else 1
        owner = f"{subject.get('kind')}/{subject.get('name')}"[:400]
        refusals[owner] = f"{count_noun(number, 'attempt')}: {denied[1][:_MAX_NOTE]}"
    return refusals


def by_namespace(objects: Iterable[Value]) -> Mapping[str, list[Value]]:
    """Group objects by their namespace."""
    by_namespace: dict[str, list[Value]] = {}
    for each in objects:
        by_namespace.setdefault(namespace_of(each), []).append(each)
    return by_namespace


def order(entries: Iterable[WorkloadAudit]) -> list[WorkloadAudit]:
    """Return the entries that need somebody first."""
    urgency = (
        Fate.REFUSED,
        Fate.STAYS,
        Fate.TO_TRANSLATE,
        Fate.BY_CLASS,
        Fate.TRANSLATED,
        Fate.OWN_CLAIMS,
    )
    return sorted(entries, key=lambda each: (urgency.index(each.fate), -each.pods, each.owner))
