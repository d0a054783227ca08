"""Which nodes keep their plugin: for pods there that nothing moves, and for pods without a node."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.audit.allowed_nodes import AllowedNodes
from drawbridge.audit.model import Fate, NamespaceAudit
from drawbridge.audit.node_groups import Group
from drawbridge.audit.objects import AuditedNamespace, text_at
from drawbridge.audit.outcomes import Decider, PodOutcome
from drawbridge.audit.workloads import (
    Alike,
    by_namespace,
    describe_alike,
    find_makers,
    find_owner,
    find_topmost,
    match_pods,
    read_templates,
)
from drawbridge.documents.values import Value
from drawbridge.facts.offers import served_resources
from drawbridge.ledger.pods import FINISHED
from drawbridge.models.cluster import ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import Served


class Awaited(NamedTuple):
    """Alike pods without a node: what each asks of a plugin, where it may run, and how many."""

    units: Mapping[str, int]
    nodes: frozenset[str]
    number: int


def _find_awaited(decider: Decider) -> list[Awaited]:
    """Return the pods that stay with their plugin, and wait or will be created."""
    objects = decider.objects
    allowed = AllowedNodes(objects.nodes, objects.volumes)
    legacy = decider.configuration.legacy
    served = {name for node in objects.nodes for name in served_resources(node, legacy)}
    pods, workloads = by_namespace(objects.pods), by_namespace(objects.workloads)
    alike = Counter[tuple[tuple[tuple[str, int], ...], frozenset[str]]]()
    for name in sorted({*pods, *workloads}):
        namespace = objects.find_namespace(name)
        if namespace.is_ending:
            continue
        asking = _find_pods(pods.get(name, ()), workloads.get(name, ()), namespace, decider)
        for pod, outcome, number in asking:
            # Some names only a scheduler reads, and no node advertises them.
            asked = outcome.demand.units
            units = {each: amount for each, amount in asked.items() if each in decider.most}
            if asked.keys() <= served and all(decider.most[e] >= n for e, n in units.items()):
                named = text_at(pod, "spec", "nodeName")
                nodes = frozenset({named}) if named else allowed.find(pod, asked)
                alike[tuple(units.items()), nodes] += number
    return [Awaited(dict(units), nodes, number) for (units, nodes), number in alike.items()]


def _find_pods(
    pods: Sequence[Value], workloads: Sequence[Value], namespace: AuditedNamespace, decider: Decider
) -> Iterator[tuple[Value, PodOutcome, int]]:
    """Yield the pods that wait, and those that their owners still want, with their number."""
    alive, makers = Counter[Alike](), find_makers(workloads)
    for pod in pods:
        outcome = decider.decide(pod, namespace)
        if outcome is None or outcome.fate is not Fate.STAYS:
            continue
        if text_at(pod, "status", "phase") in FINISHED:
            continue
        owner = find_topmost(find_owner(pod, namespace), makers)
        alive[describe_alike(owner, outcome)] += 1
        if not text_at(pod, "spec", "nodeName"):
            yield pod, outcome, 1
    templates = [*read_templates(workloads, namespace, decider)]
    for template, groups in zip(templates, match_pods(templates, alive), strict=True):
        missing = template.wanted
        for group in groups:
            there = min(alive[group], missing)
            alive[group] -= there
            missing -= there
        if template.outcome.fate is Fate.STAYS and missing:
            yield template.pod, template.outcome, missing


def find_kept(decider: Decider, cluster: ModelCluster, groups: Sequence[Group]) -> frozenset[str]:
    """Return the nodes that keep their plugin for pods that only a plugin can serve.

    Those that wait, or will be created, have as few nodes as they need, and those from which few
    pods must go.
    """
    candidates = [*_find_candidates(cluster, groups)]
    keeps = {each.node.name for each in candidates if each.is_tied}
    return _keep_for(_find_awaited(decider), candidates, keeps)


class _Candidate(NamedTuple):
    """A node with a plugin. `free` is what pods that stay leave, `going` what the others have.

    It is tied if pods that nothing moves have units of the plugin.
    """

    node: ModelNode
    replaced: frozenset[str]
    free: Counter[str]
    going: int
    is_tied: bool

    def can_run(self, pods: Awaited) -> bool:
        """Whether one of these pods can run there."""
        return self.node.name in pods.nodes and self.count_room(pods.units) > 0

    def count_room(self, units: Mapping[str, int]) -> int:
        """Return for how many pods that ask for these units it has room."""
        if not self.replaced & units.keys():
            return 0
        return min((self.free[name] // n for name, n in units.items() if n), default=0)

    def rank(self, units: Mapping[str, int], keeps: set[str]) -> tuple[bool, bool, int, int, str]:
        """Return what sorts nodes: those that keep it anyway, and then where few pods go."""
        is_closed = self.node.is_cordoned or not self.node.is_ready
        name = self.node.name
        return name not in keeps, is_closed, self.going, -self.count_room(units), name


def _find_candidates(cluster: ModelCluster, groups: Sequence[Group]) -> Iterator[_Candidate]:
    for group in groups:
        for node in group.nodes if group.has_plugin else ():
            free, going, is_tied = Counter(group.units), 0, False
            for pod in cluster.on_node(node.name):
                kind = cluster.kinds[pod.kind]
                stays = kind.translated is None and not kind.by_class
                is_tied |= (stays or pod.is_static) and not group.replaced.isdisjoint(kind.units)
                if stays:
                    free.subtract(kind.units)
                elif pod.served is Served.PLUGIN:
                    going += sum(kind.units.values())
            yield _Candidate(cluster.nodes[node.name], group.replaced, free, going, is_tied)


def _keep_for(
    awaited: Sequence[Awaited], candidates: Sequence[_Candidate], keeps: set[str]
) -> frozenset[str]:
    """Add the nodes that these pods need, first for those that can run on the fewest."""
    possible = [(pods, [e for e in candidates if e.can_run(pods)]) for pods in awaited]
    for pods, nodes in sorted(possible, key=lambda each: len(each[1])):
        left = pods.number
        for _, node in sorted((each.rank(pods.units, keeps), each) for each in nodes):
            number = min(left, node.count_room(pods.units))
            if number > 0:
                keeps.add(node.node.name)
                left -= number
                node.free.subtract({key: n * number for key, n in pods.units.items()})
    return frozenset(keeps)


def find_stayed(namespaces: Sequence[NamespaceAudit], most: Mapping[str, int]) -> frozenset[str]:
    """Return the names that workloads ask for which stay with a plugin, also without pods."""
    return frozenset(
        name
        for namespace in namespaces
        for entry in namespace.workloads
        if entry.fate is Fate.STAYS and not entry.is_over
        for name, units in entry.demand.units.items()
        if units <= most.get(name, 0)
    )
