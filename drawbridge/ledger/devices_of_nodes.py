"""Which nodes have the devices that a pod asks for, if nobody else used any of them.

Nodes with equal devices are asked once.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.nodes import Node
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import Placer, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.still_fits import Schedulers


class ServingNodes:
    """Answers for one cluster."""

    def __init__(
        self,
        nodes: ClusterNodes,
        schedulers: Schedulers,
        claims: Collection[Claim],
        templates: Collection[Template],
        *,
        sharing: bool = True,
    ) -> None:
        self._nodes = nodes
        self._schedulers = schedulers
        self._claims = [_free(each) for each in claims]
        self._templates = tuple(templates)
        self._sharing = sharing
        self._alike: dict[object, list[list[Node]]] = {}

    def find(self, pod: Pod, templates: Sequence[Template]) -> frozenset[str]:
        """Return the names of the nodes. `templates` are further ones."""
        allocator = self._schedulers.choose(pod)
        planner = self._schedulers.planner(allocator)
        cluster = self._schedulers.nodes(allocator, self._nodes)
        if allocator not in self._alike:
            self._alike[allocator] = _group(cluster.nodes, planner)
        fitting: set[str] = set()
        for nodes in self._alike[allocator]:
            ledger = Ledger(sharing=self._sharing)
            held = hold_claims(ledger, self._claims, (*self._templates, *templates))
            placed = Placer(planner, cluster, held).place_on(pod, [nodes[0]])
            if placed.node is not None:
                fitting.update(each.name for each in nodes)
        return frozenset(fitting)


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


def _free(claim: Claim) -> Claim:
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))
