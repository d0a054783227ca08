"""Collects who asks for devices: the pods of each owner, and owners without pods."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement.scope import find_root_owner, read_metadata
from drawbridge.audit.ended import count_left, has_ended
from drawbridge.audit.model import Fate, WorkloadAudit
from drawbridge.audit.objects import AuditedNamespace, controllers_of, namespace_of, text_at
from drawbridge.audit.outcomes import Decider, PodOutcome
from drawbridge.audit.servers import Plugin, name_servers
from drawbridge.audit.templates import make_pod, name_workload
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import FINISHED
from drawbridge.names import GUARD_WEBHOOK, POD_WEBHOOK
from drawbridge.report.workloads import KINDS
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
_MAX_OWNER: Final = 400
_READ: Final = frozenset(each.kind for each in KINDS)
_REVISIONS: Final = ("ReplicaSet", "ReplicationController")
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
    group = where.groups.get(node, "")
    on = {group: 1} if state == _RUNS else {}
    return WorkloadAudit(
        find_owner(pod, namespace),
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
    if outcome.fate.has_claims:
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
    workloads: Sequence[Value],
    namespace: AuditedNamespace,
    decider: Decider,
) -> Iterator[WorkloadAudit]:
    """Yield the entries with the number of pods that their owners want, and those without pods."""
    entries, wanted, made = dict(collected), Counter[_Key](), defaultdict[_Key, set[Alike]](set)
    makers = find_makers(workloads)
    owners = {key: find_topmost(key.owner, makers) for key in entries}
    first = {describe_alike(owners[key], entry): key for key, entry in reversed(entries.items())}
    templates = [*read_templates(workloads, namespace, decider)]
    for template, pods in zip(templates, match_pods(templates, first), strict=True):
        outcome = template.outcome
        new = _Key(template.alike.owner, outcome.asks, NOBODY, outcome.fate)
        key = first[pods[0]] if pods else new
        if template.is_over and key not in entries:
            continue
        entries.setdefault(key, _without_pods(key, outcome))
        wanted[key] += template.wanted
        made[key].update(pods)
    alive = Counter[Alike]()
    for key, entry in collected.items():
        alive[describe_alike(owners[key], entry)] += entry.pods
    for key, number in wanted.items():
        # Others serve some of its pods, or these are translated already.
        others = sum(alive[each] for each in made[key]) - entries[key].pods
        entries[key] = replace(entries[key], wanted=max(0, number - others))
    yield from entries.values()


class Alike(NamedTuple):
    """What alike pods of an owner have in common.

    The template of translated pods is translated when it is used, so fates differ.
    """

    owner: str
    goes: bool
    asks: tuple[str, ...]
    units: tuple[tuple[str, int], ...]


class ReadTemplate(NamedTuple):
    """A pod as its owner creates it, what becomes of it, and how many of it the owner wants."""

    pod: Value
    alike: Alike
    outcome: PodOutcome
    wanted: int
    is_over: bool


def read_templates(
    workloads: Iterable[Value], namespace: AuditedNamespace, decider: Decider
) -> Iterator[ReadTemplate]:
    """Yield the templates of a namespace that ask for devices.

    What another object made is left out where that object was read, which stands for it, and where
    it is an old revision of that object.
    """
    workloads = [*workloads]
    makers = find_makers(workloads)
    for workload in workloads:
        if name_workload(workload) in makers or _is_old_revision(workload):
            continue
        is_over = has_ended(workload)
        for place in find_places(workload):
            pod = make_pod(workload, place.pod)
            outcome = decider.decide(pod, namespace)
            if outcome is not None:
                wanted = _count_wanted(workload, place)
                alike = describe_alike(find_owner(pod, namespace), outcome)
                yield ReadTemplate(pod, alike, outcome, wanted, is_over)


def match_pods(
    templates: Iterable[ReadTemplate], pods: Iterable[Alike]
) -> Iterator[Sequence[Alike]]:
    """Yield the alike pods that each template has made, first those that ask the same.

    Others are older than the template, or a webhook has added to them: they are of the only
    template of their owner with the same outcome, or of one that asks for the same units.
    """
    of_owner: dict[tuple[str, bool], list[Alike]] = {}
    for group in pods:
        of_owner.setdefault(group[:2], []).append(group)
    templates = [*templates]
    exact = {each.alike for each in templates}
    number = Counter(each.alike[:2] for each in templates)
    for template in templates:
        alike = template.alike
        alone = number[alike[:2]] == 1
        own = of_owner.get(alike[:2], ())
        others = (e for e in own if e not in exact and (alone or e.units == alike.units))
        yield *(e for e in own if e == alike), *others


def describe_alike(owner: str, pods: PodOutcome | WorkloadAudit) -> Alike:
    """Return what the pods of an owner have in common that ask the same."""
    return Alike(owner, pods.fate.goes, pods.asks, tuple(sorted(pods.demand.units.items())))


def find_owner(pod: Value, namespace: AuditedNamespace) -> str:
    """Return the root owner as `Kind/name`, as far as the pod shows it."""
    return find_root_owner(namespace.name, read_metadata(pod)).partition("/")[2][:_MAX_OWNER]


def _count_wanted(workload: Value, place: Place) -> int:
    """Return how many pods an owner wants; its status tells on how many nodes it wants one."""
    count = count_pods(workload, place)
    on_nodes = get_value(workload, ("status", "desiredNumberScheduled"))
    if count.on_each_node and isinstance(on_nodes, int):
        return on_nodes
    return count_left(workload, count.number)


def find_makers(workloads: Iterable[Value]) -> Mapping[str, str]:
    """Return which workload made another one that was read, and stands for it."""
    by_name = {name_workload(each): each for each in workloads}
    return {
        name: maker
        for name, workload in by_name.items()
        for maker in _find_controllers(workload)
        if maker in by_name
    }


def find_topmost(owner: str, makers: Mapping[str, str]) -> str:
    """Return the workload that stands for an owner of pods: no other that was read made it."""
    for _ in makers:  # objects can name each other in a circle
        if owner not in makers:
            break
        owner = makers[owner]
    return owner


def _is_old_revision(workload: Value) -> bool:
    """Whether an object of which nothing was read keeps a workload without pods to go back to."""
    return (
        text_at(workload, "kind") in _REVISIONS
        and get_value(workload, ("spec", "replicas")) == 0
        and any(_find_controllers(workload))
    )


def _find_controllers(workload: Value) -> Iterator[str]:
    """Return which object made a workload."""
    return (f"{each.get('kind')}/{each.get('name')}" for each in controllers_of(workload))


def _without_pods(key: _Key, outcome: PodOutcome) -> WorkloadAudit:
    return WorkloadAudit(
        key.owner,
        key.asks,
        key.served_by,
        key.fate,
        outcome.becomes,
        outcome.reasons,
        outcome.codes,
        demand=outcome.demand,
    )


# --- refusals ------------------------------------------------------------------------------------


def find_lacking(workloads: Iterable[Value], pods: Iterable[Value]) -> frozenset[str]:
    """Return the owners with fewer pods than they want."""
    alive = Counter[str]()
    for pod in pods:
        if _state(pod) != _ENDED:
            alive.update(_find_controllers(pod))
    return frozenset(
        name
        for each in workloads
        if alive[name := name_workload(each)]
        < sum(_count_wanted(each, place) for place in find_places(each))
    )


def find_refusals(events: Iterable[Value], lacking: Collection[str] | None) -> dict[str, str]:
    """Return the owners whose pods Drawbridge refuses now, with attempts and reason.

    An event stays after the pods were created or their owner was deleted, so only owners that are
    `lacking` pods count; all of them if that is not known, and those of kinds that are not read.
    """
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
        kind = f"{subject.get('kind')}"
        owner = f"{kind}/{subject.get('name')}"
        if lacking is None or owner in lacking or kind not in _READ:
            attempted = count_noun(number, "attempt")
            refusals[owner[:_MAX_OWNER]] = f"{attempted}: {denied[1][:_MAX_NOTE]}"
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
