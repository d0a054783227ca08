"""Pods of a namespace with more than its share of the memory are told so."""

from types import SimpleNamespace
from typing import Any, cast

from allocator.decisions.pod_requests import check_claim
from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim, reduce_claim
from drawbridge.ledger.ledger import Ledger, uid_of
from drawbridge.ledger.planner import Planner
from tests.dra.test_large_claims import claim


def told(kept: Claim, received: Claim) -> str:
    state = SimpleNamespace(claims={uid_of(received): kept})
    pod = SimpleNamespace(name="p", uid="2", claims_of_group=None)
    reason = check_claim(cast("Any", pod), received, cast("Any", state))
    return "" if reason is None else f"{reason.code}: {reason.message}"


def test_a_pod_is_told_that_its_claim_is_too_large() -> None:
    whole = claim("", allocated=False)
    assert told(whole, whole) == ""
    message = (
        "ClaimTooLarge: ResourceClaim team/c is too large: namespace team has more than its share "
        "of the allocator's memory"
    )
    assert told(reduce_claim(whole), whole) == message


def test_a_pod_whose_claim_holds_devices_uses_them() -> None:
    whole = claim("", allocated=True)
    assert told(reduce_claim(whole), whole) == ""


def test_the_allocator_knows_the_devices_of_a_claim_of_which_not_all_is_kept() -> None:
    state = AllocatorState(Planner(), Ledger(), lambda *_: True)
    state.apply(None, reduce_claim(claim("", allocated=True)))
    record = state.ledger.claims[uid_of(claim("", allocated=True))]
    assert record.allocation is not None
    assert [each.device for each in record.allocation.devices.results] == ["d"]
