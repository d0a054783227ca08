"""Which nodes have the devices that a pod asks for, if nobody else used any of them.

Nodes with equal devices are asked once, and so are pods with equal claims.
"""

from collections.abc import Collection, Sequence

from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.nodes import Node
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import Placer, freed, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.still_fits import Schedulers
from drawbridge.solver.deviations import Allocator


class ServingNodes:
    """Answers for one cluster."""

    def __init__(
        self,
        nodes: ClusterNodes,
        schedulers: Schedulers,
        claims: Collection[Claim],
        templates: Collection[Template],
    ) -> None:
        self._nodes = nodes
        self._schedulers = schedulers
        self._claims = [freed(each) for each in claims]
        self._templates = tuple(templates)
        self._alike: dict[object, list[list[Node]]] = {}
        self._answers: dict[object, frozenset[str]] = {}

    def find(self, pod: Pod, templates: Sequence[Template]) -> frozenset[str]:
        """Return the names of the nodes. `templates` are further ones."""
        allocator = self._schedulers.choose(pod)
        key = allocator, _describe_claims(pod, templates)
        if key not in self._answers:
            self._answers[key] = self._find(pod, templates, allocator)
        return self._answers[key]

    def _find(
        self, pod: Pod, templates: Sequence[Template], allocator: Allocator
    ) -> frozenset[str]:
        planner = self._schedulers.planner(allocator)
        cluster = self._schedulers.nodes(allocator, self._nodes)
        if allocator not in self._alike:
            self._alike[allocator] = _group(cluster.nodes, planner)
        fitting: set[str] = set()
        for nodes in self._alike[allocator]:
            held = hold_claims(Ledger(), self._claims, (*self._templates, *templates))
            placed = Placer(planner, cluster, held).place_on(pod, [nodes[0]])
            if placed.node is not None:
                fitting.update(each.name for each in nodes)
        return frozenset(fitting)


def _describe_claims(pod: Pod, templates: Sequence[Template]) -> object:
    """Return what the nodes depend on: no namespace or name, if all templates are given."""
    given = {each.metadata.name: each.spec for each in templates}
    asked = {each.resource_claim_template_name for each in pod.spec.resource_claims}
    owner = "" if asked <= given.keys() else pod.full_name
    return owner, f"{pod.spec} {given}"


def _group(nodes: Sequence[Node], planner: Planner) -> list[list[Node]]:
    """Group nodes whose devices are alike but for their names."""
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        devices = sorted(
            (pool.id.driver, f"{candidate.device.attributes}", f"{candidate.device.capacity}")
            for pool, candidates in planner.node_pools(node.name)
            for candidate in candidates
        )
        groups.setdefault(tuple(devices), []).append(node)
    return [*groups.values()]
