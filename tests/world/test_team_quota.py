"""What a quota counts for a claim: no more than the allocator can know that promises devices."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import Hold as LedgerHold
from tests.cluster.fake.kinds import JSON
from tests.world.objects import CLASS, MEMORY, NIC_CLASS
from tests.world.preemptions import Held, read_holds
from tests.world.team_quota import Amounts, count_held, count_least


def request(count: int = 1, memory: int = 0, **more: Any) -> JSON:  # noqa: ANN401  # JSON
    """Return what a request asks for, without its name."""
    asked: JSON = {"deviceClassName": CLASS, "count": count, **more}
    return asked | ({"capacity": {"requests": {MEMORY: f"{memory}"}}} if memory else {})


def claim(*requests: JSON) -> JSON:
    """Return a claim with exact requests, or those with alternatives."""
    named = [
        {"name": f"r{number}", **(each if "firstAvailable" in each else {"exactly": each})}
        for number, each in enumerate(requests)
    ]
    return {"metadata": {"uid": "u", "namespace": "team"}, "spec": {"devices": {"requests": named}}}


EITHER = {"firstAvailable": [request(1, 4, name="a"), request(1, 1, name="b")]}
ALL = {"deviceClassName": CLASS, "allocationMode": "All"}
NICS = request(2, deviceClassName=NIC_CLASS)


@pytest.mark.parametrize(
    ("requests", "least"),
    [
        ([request(2)], (2, 0)),
        ([request(1, 3), request(2, 1)], (3, 5)),
        ([EITHER], (1, 1)),
        ([ALL], (1, 0)),
        ([request(), NICS], (1, 0)),
        ([request(adminAccess=True)], (0, 0)),
    ],
)
def test_a_claim_counts_at_least_what_any_allocation_of_it_has(
    requests: list[JSON], least: tuple[int, int]
) -> None:
    assert count_least(claim(*requests)) == least


def whole(pool: str, device: str) -> LedgerHold:
    return LedgerHold(PoolID("d.io", pool), device)


OF_CLAIM, PROMISED = whole("n1", "whole"), whole("n3", "whole")


@pytest.mark.parametrize(
    ("is_allocated", "is_promised", "unpublished", "counted"),
    [
        (True, False, {("v", ("n1", "whole"))}, Amounts(1, 4)),
        (True, False, {("u", ("n1", "whole"))}, Amounts(1, 0)),  # its driver is away since then
        (True, True, set(), Amounts(1, 3)),  # its allocation goes
        (False, True, {("u", ("n1", "whole"))}, Amounts(1, 3)),
        (False, False, set(), Amounts(1, 2)),  # marked by another allocator
    ],
)
def test_a_quota_counts_what_the_allocator_can_know(
    *, is_allocated: bool, is_promised: bool, unpublished: set[Any], counted: Amounts
) -> None:
    ledger = SimpleNamespace(
        reservations={"u": SimpleNamespace(holds=(PROMISED,))} if is_promised else {},
        claims={"u": SimpleNamespace(allocation="some" if is_allocated else None)},
    )
    state = SimpleNamespace(decisions=SimpleNamespace(state=SimpleNamespace(ledger=ledger)))
    parts = SimpleNamespace(state=state)
    uses = SimpleNamespace(under_way=set(), unknown_memory=set())
    world = SimpleNamespace(
        pairs={"host": SimpleNamespace(parts=parts, unpublished=unpublished)},
        spaces=SimpleNamespace(claims={"u": claim(request(1, 2))}),
        uses=uses,
    )
    held = Held(read_holds([OF_CLAIM]), frozenset())
    assert count_held(cast("Any", world), cast("Any", parts), "u", held) == counted
    is_known = is_promised or (is_allocated and ("u", ("n1", "whole")) not in unpublished)
    assert bool(uses.under_way or uses.unknown_memory) != bool(is_known)
