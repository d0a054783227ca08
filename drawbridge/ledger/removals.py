"""Which pods of a node would have to go so that a pod fits there, and the fewest of them.

A pod that fits without some pods also fits without more of them. So the search first finds the
pods that must go in any case, and tries sets of the others by size. Its work is limited; beyond
that, the set has no pod that could stay, but a smaller set may exist.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.dra.claim import Claim
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import Placer
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.victims import RunningPod, remove_fewest

# Each try is a search for devices on one node and takes about a millisecond: half a minute in all.
MAX_TRIES: Final = 40_000
FitsWithout = Callable[[Collection[RunningPod]], bool]


class OutOfTriesError(Exception):
    """The search may try no more."""


class Tries:
    """How often searches may still try something; shared by all of them.

    They may try no more at all when `out_of_time` says so.
    """

    def __init__(
        self, most: int = MAX_TRIES, out_of_time: Callable[[], bool] = lambda: False
    ) -> None:
        self.left = most
        self._out_of_time = out_of_time

    @property
    def is_over(self) -> bool:
        """Whether no more can be allowed."""
        return self._out_of_time()

    def take(self) -> None:
        """Count a try; raises OutOfTriesError if none is left."""
        if self.left <= 0 or self.is_over:
            raise OutOfTriesError
        self.left -= 1

    def allow(self, number: int) -> None:
        """Allow at least this many more."""
        self.left = max(self.left, number)


class PodHolds(NamedTuple):
    """The claims of each pod, and the pods of each allocated claim. `""` is no known pod."""

    claims: Mapping[str, tuple[str, ...]]
    pods: Mapping[str, frozenset[str]]

    def released_without(self, names: Collection[str]) -> list[str]:
        """Return the claims that are released when these pods end."""
        claims = dict.fromkeys(claim for name in names for claim in self.claims.get(name, ()))
        return [claim for claim in claims if self.pods[claim].issubset(names)]


def find_holds(claims: Mapping[str, Claim]) -> PodHolds:
    """Return who has the allocated claims."""
    of_pods = defaultdict[str, list[str]](list)
    of_claims = {}
    for name, claim in claims.items():
        if claim.status.allocation is None:
            continue
        of_claims[name] = consumers_of(claim)
        for pod in of_claims[name]:
            of_pods[pod].append(name)
    return PodHolds({pod: tuple(names) for pod, names in of_pods.items()}, of_claims)


def consumers_of(claim: Claim) -> frozenset[str]:
    """Return the pods that use a claim; `""` stands for a consumer that is not a pod."""
    namespace = claim.metadata.namespace or "default"
    return frozenset(
        f"{namespace}/{consumer.name}" if consumer.is_pod else ""
        for consumer in claim.status.reserved_for
    )


class NodeRemovals:
    """Asks whether a pod fits on one node if some of its pods are gone. Changes nothing."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a question
        self,
        pod: Pod,
        node: str,
        placer: Placer,
        planner: Planner,
        cluster: ClusterNodes,
        holds: PodHolds,
        tries: Tries,
    ) -> None:
        alone = tuple(each for each in cluster.nodes if each.name == node)
        fenced = cluster.fenced & {node}
        names = {node: cluster.advertised.get(node, frozenset())}
        there = replace(cluster, nodes=alone, fenced=fenced, advertised=names)
        self._pod = pod
        self._placer = placer.beside(planner, there)
        self._holds = holds
        self._tries = tries

    def fits_without(self, removed: Collection[RunningPod]) -> bool:
        """Tell whether the pod fits then; raises OutOfTriesError."""
        self._tries.take()
        released = self._holds.released_without([each.name for each in removed])
        ended = [(each.node, each.held) for each in removed if each.held]
        return bool(self._placer.fitting_nodes(self._pod, released, ended=ended))


def find_needed(
    candidates: Sequence[RunningPod], fits_without: FitsWithout, most: int
) -> tuple[RunningPod, ...] | None:
    """Return the candidates that every sufficient set has; None if even all are not enough.

    More than `most` of them are not looked for.
    """
    if not fits_without(candidates):
        return None
    needed: list[RunningPod] = []
    for candidate in candidates:
        if len(needed) > most:
            break
        if not fits_without([other for other in candidates if other is not candidate]):
            needed.append(candidate)
    return tuple(needed)


def sets_of_size(
    size: int,
    candidates: Sequence[RunningPod],
    needed: Sequence[RunningPod],
    fits_without: FitsWithout,
) -> Iterator[tuple[RunningPod, ...]]:
    """Yield the sufficient sets of a size; raises OutOfTriesError."""
    identities = set(map(id, needed))
    others = [each for each in candidates if id(each) not in identities]
    for more in combinations(others, size - len(needed)) if size >= len(needed) else ():
        chosen = {id(each) for each in (*needed, *more)}
        removed = tuple(each for each in candidates if id(each) in chosen)
        if fits_without(removed):
            yield removed


class Fewest(NamedTuple):
    """The smallest sufficient set; `pods` is None if all candidates are not enough.

    If it is not `proven`, the search ended early: every pod of the set is needed, and a smaller set
    may exist. Without a set, it is not known whether one exists.
    """

    pods: tuple[RunningPod, ...] | None
    proven: bool


def find_fewest(
    candidates: Sequence[RunningPod], fits_without: FitsWithout, tries: Tries
) -> Fewest:
    """Return the smallest sufficient set; `fits_without` takes from `tries`."""
    try:
        needed = find_needed(candidates, fits_without, len(candidates))
        for size in range(len(needed), len(candidates) + 1) if needed is not None else ():
            for removed in sets_of_size(size, candidates[::-1], needed or (), fits_without):
                return Fewest(removed, proven=True)
    except OutOfTriesError:
        return _find_few(candidates, fits_without, tries)
    return Fewest(None, proven=True)


def _find_few(candidates: Sequence[RunningPod], fits_without: FitsWithout, tries: Tries) -> Fewest:
    """Return a set in which every pod is needed: this takes a few tries for each pod."""
    tries.allow(1 + len(candidates) ** 2)
    try:
        few = fewest_or_few(candidates, fits_without) if fits_without(candidates) else None
    except OutOfTriesError:
        few = None
    return Fewest(few, proven=False)


def fewest_or_few(
    candidates: Sequence[RunningPod], fits_without: FitsWithout
) -> tuple[RunningPod, ...]:
    """Return a sufficient set in which every pod is needed; all candidates together are enough."""
    return tuple(remove_fewest(candidates, candidates, fits_without))


def by_node(pods: Iterable[RunningPod]) -> dict[str, list[RunningPod]]:
    """Return the pods of each node."""
    nodes = defaultdict[str, list[RunningPod]](list)
    for pod in pods:
        nodes[pod.node].append(pod)
    return dict(nodes)
