"""Whether the allocation of a claim could be larger: more devices, or more of a capacity.

An allocation never changes in place. The answer is what a claim that asks for more would get if it
took the place of this one: on the same node, how far it could grow there, and which pods would have
to go.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import Allocation, ClaimStatus
from drawbridge.dra.claim import CapacityRequests, Claim, ExactRequest, Request
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Format, Quantity
from drawbridge.ledger.ledger import Ledger, uid_of
from drawbridge.ledger.node_fit import reachable_nodes
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.removals import (
    Fewest,
    OutOfTriesError,
    PodHolds,
    Tries,
    consumers_of,
    find_fewest,
)
from drawbridge.ledger.victims import RunningPod, importance
from drawbridge.solver.answers import Solution
from drawbridge.solver.reasons import Reason
from drawbridge.solver.world import View

_ZERO: Final = Quantity.of(0)
# The steps of the search for the largest amount, in billionths: the first that the amounts have.
_UNITS: Final = {
    Format.BINARY_SI: (10**9 << 20, 10**9, 1),
    Format.DECIMAL_SI: (10**6, 1),
    Format.DECIMAL_EXPONENT: (10**6, 1),
}


class Growth(msgspec.Struct, frozen=True):
    """What a request should have: so many devices, or so much of a capacity of each of them.

    Without a name, it is the only request of the claim.
    """

    request: str
    count: int = 0
    capacity: str = ""
    amount: Quantity | None = None


class Adjustment(msgspec.Struct, frozen=True):
    """The answer: what the larger claim gets on the node of the claim, or what it lacks.

    `keeps` is whether it keeps all devices. `most` is how far it can grow there; `without` are the
    fewest pods that would have to go, None if that does not help. `elsewhere` are other nodes. If
    the search was `cut`, fewer pods may be enough, and more nodes.
    """

    claim: str
    node: str
    fits: bool
    keeps: bool = False
    allocation: Allocation | None = None
    most: str = ""
    without: tuple[str, ...] | None = None
    elsewhere: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    cut: bool = False


class AllocatedCluster(NamedTuple):
    """The cluster, with the claims by name and the pods that run."""

    planner: Planner
    ledger: Ledger
    nodes: Sequence[Node]
    claims: Mapping[str, Claim]
    holds: PodHolds
    running: Sequence[RunningPod]


class NotAdjustableError(Exception):
    """The claim has no allocation on a node, or not the request."""


def adjust(
    name: str, growth: Growth, cluster: AllocatedCluster, tries: Tries | None = None
) -> Adjustment:
    """Answer whether an allocated claim could have more; raises NotAdjustableError."""
    claim = cluster.claims.get(name)
    if claim is None:
        raise NotAdjustableError(f"ResourceClaim {name} does not exist")
    if claim.status.allocation is None:
        raise NotAdjustableError(f"ResourceClaim {name} has no allocation")
    near, _ = reachable_nodes([claim], cluster.nodes)
    if not near:
        raise NotAdjustableError(f"ResourceClaim {name} is allocated on no node of the input")
    if problem := _find_problem(growth):
        raise NotAdjustableError(problem)
    growth = replace(growth, request=growth.request or _only_request(claim))
    question = _Question(claim, growth, near[0].name, cluster, tries or Tries())
    solution, reasons = question.solve(growth)
    if solution is not None:
        return Adjustment(
            name,
            near[0].name,
            fits=True,
            keeps=question.keeps(solution),
            allocation=solution.allocations[0],
        )
    most, fewest, elsewhere = question.find_most(), question.find_fewest(), question.elsewhere()
    return Adjustment(
        name,
        near[0].name,
        fits=False,
        most=most,
        without=None if fewest.pods is None else tuple(sorted(e.name for e in fewest.pods)),
        elsewhere=elsewhere,
        reasons=reasons,
        cut=question.cut or not fewest.proven,
    )


class _Question:
    """One claim, as if it were not there yet."""

    def __init__(
        self, claim: Claim, growth: Growth, node: str, cluster: AllocatedCluster, tries: Tries
    ) -> None:
        self._tries = tries
        self.cut = False
        self._claim = claim
        self._growth = growth
        self._node = node
        self._cluster = cluster
        self._uid = uid_of(claim)
        results = claim.status.allocation.devices.results if claim.status.allocation else ()
        self._devices = [(each.driver, each.pool, each.device) for each in results]
        self._request = _find_request(claim, growth.request)

    def solve(
        self, growth: Growth, released: Collection[str] = (), nodes: Collection[str] = ()
    ) -> tuple[Solution | None, tuple[Reason, ...]]:
        """Allocate a larger claim, its own devices first."""
        cluster = self._cluster
        uids = [self._uid, *(uid_of(cluster.claims[each]) for each in released)]
        view: View = cluster.ledger.view_without(uids)
        first = [
            (pool.id, device)
            for pool, _ in cluster.planner.node_pools(self._node)
            for driver, name, device in self._devices
            if (pool.id.driver, pool.id.name) == (driver, name)
        ]
        larger = self._larger(growth)
        answers = cluster.planner.solve_nodes(view, [larger], nodes or [self._node], first=first)
        reasons: tuple[Reason, ...] = ()
        for answer in answers.values():
            if isinstance(answer, Solution):
                return answer, ()
            reasons = (*reasons, *answer.reasons)
        return None, reasons

    def keeps(self, solution: Solution) -> bool:
        """Whether the larger claim has all devices that the claim has."""
        results = solution.allocations[0].devices.results
        return set(self._devices) <= {(each.driver, each.pool, each.device) for each in results}

    def _larger(self, growth: Growth) -> Claim:
        exactly = self._request
        if growth.amount is None:
            exactly = replace(exactly, count=growth.count)
        else:
            before = exactly.capacity.requests if exactly.capacity else {}
            amounts = {**before, growth.capacity: growth.amount}
            exactly = replace(exactly, capacity=CapacityRequests(amounts))
        devices = self._claim.spec.devices
        requests = tuple(
            Request(each.name, exactly) if each.name == growth.request else each
            for each in devices.requests
        )
        spec = replace(self._claim.spec, devices=replace(devices, requests=requests))
        return replace(self._claim, spec=spec, status=ClaimStatus())

    def find_most(self) -> str:
        """Return how far the claim can grow on its node; empty if not even its own size fits."""
        if self._growth.amount is None:
            fits = lambda count: self._fits(replace(self._growth, count=count))  # noqa: E731
            most = _largest(self._request.count, self._growth.count, fits)
            return f"{most}" if most is not None else ""
        requested = self._request.capacity.requests if self._request.capacity else {}
        held = requested.get(self._growth.capacity, _ZERO)
        form = self._growth.amount.format
        wanted, least = self._growth.amount.nanos(), held.nanos()
        unit = next(each for each in _UNITS[form] if not (wanted % each or least % each))

        def amount_of(number: int) -> Quantity:
            return Quantity(number * unit, -9, form, decimal=False)

        number = _largest(
            least // unit,
            wanted // unit,
            lambda each: self._fits(replace(self._growth, amount=amount_of(each))),
        )
        return amount_of(number).canonical() if number is not None else ""

    def _fits(self, growth: Growth, released: Collection[str] = ()) -> bool:
        return self.solve(growth, released)[0] is not None

    def find_fewest(self) -> Fewest:
        """Return the fewest other pods of the node without which the larger claim fits."""
        own = consumers_of(self._claim)
        candidates = [
            each
            for each in self._cluster.running
            if each.node == self._node
            and each.name not in own
            and each.name in self._cluster.holds.claims
        ]

        def fits_without(removed: Collection[RunningPod]) -> bool:
            self._tries.take()
            names = [each.name for each in removed]
            return self._fits(self._growth, self._cluster.holds.released_without(names))

        return find_fewest(sorted(candidates, key=importance), fits_without, self._tries)

    def elsewhere(self) -> tuple[str, ...]:
        """Return other nodes on which the larger claim fits now."""
        names = []
        for name in (each.name for each in self._cluster.nodes if each.name != self._node):
            try:
                self._tries.take()
            except OutOfTriesError:
                self.cut = True
                break
            if self.solve(self._growth, (), [name])[0]:
                names.append(name)
        return tuple(names)


def _find_problem(growth: Growth) -> str:
    """Return why no request can have so much."""
    if growth.amount is None:
        return "" if growth.count > 0 else f"a request has 1 device at least, not {growth.count}"
    negative = growth.amount.sign() < 0
    return f"the amount {growth.amount} of {growth.capacity} is negative" if negative else ""


def _only_request(claim: Claim) -> str:
    requests = claim.spec.devices.requests
    return requests[0].name if len(requests) == 1 else ""


def _find_request(claim: Claim, name: str) -> ExactRequest:
    for request in claim.spec.devices.requests:
        if request.name == name:
            if request.exactly is None:
                text = f"request {name} has alternatives, and only one of them could grow"
                raise NotAdjustableError(text)
            return request.exactly
    names = ", ".join(each.name for each in claim.spec.devices.requests)
    raise NotAdjustableError(f"the claim has no request {name}; it has {names}")


def _largest(fitting: int, wanted: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number below `wanted` that fits; what fits, fits with less, too."""
    if not fits(fitting):
        return None
    while wanted - fitting > 1:
        middle = (fitting + wanted) // 2
        if fits(middle):
            fitting = middle
        else:
            wanted = middle
    return fitting
