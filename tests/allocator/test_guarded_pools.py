"""Which pools the allocator uses because the API server refuses their allocation to others."""

import pytest

from allocator.state.fences import Fences
from drawbridge.agreement.device_fence import BINDING_SPEC, FenceParts, policy_spec
from drawbridge.dra.inventory import PoolID
from tests.agreement.fence_parts import NAMESPACE, installed, part

A, B = PoolID("d", "a"), PoolID("d", "b")


def guarded(*named: PoolID) -> Fences:
    """Return the pools of a process that saw the policy at 0 and looked at the claims at 10."""
    pools = Fences(NAMESPACE)
    pools.follow_parts(installed(named or (A, B)), 0)
    pools.note_look(10)
    return pools


def used(pools: Fences) -> list[str]:
    return [each.name for each in (A, B) if pools.is_guarded(each)]


def test_a_pool_is_used_after_a_look_ten_seconds_after_the_process_saw_it() -> None:
    pools = Fences(NAMESPACE)
    assert pools.follow_parts(installed([A]), 5) == set()
    assert [pools.need_look(each) for each in (14, 15)] == [False, True]
    assert pools.note_look(14) == []
    assert pools.need_look(16)
    assert pools.note_look(15) == [A]
    assert used(pools) == ["a"]
    assert not pools.need_look(99)


def test_a_start_waits_as_well() -> None:
    """No object tells since when the policy names a pool."""
    pools = Fences(NAMESPACE)
    pools.follow_parts(installed([A], generation=7), 100)
    assert used(pools) == []
    assert [pools.need_look(each) for each in (109, 110)] == [False, True]


def test_a_pool_that_is_added_waits_alone() -> None:
    pools = guarded(A)
    assert pools.follow_parts(installed([A, B], generation=2), 20) == set()
    assert used(pools) == ["a"]
    assert pools.note_look(30) == [B]
    assert used(pools) == ["a", "b"]


def test_a_pool_that_is_no_longer_named_stops_alone() -> None:
    pools = guarded()
    assert pools.follow_parts(installed([B], generation=2), 20) == {A}
    assert used(pools) == ["b"]
    pools.follow_parts(installed([A, B], generation=3), 21)
    pools.note_look(30)
    assert used(pools) == ["b"]
    pools.note_look(31)
    assert used(pools) == ["a", "b"]


def test_a_pool_that_leaves_is_used_no_more_and_settles_again_if_it_stays() -> None:
    pools = guarded()
    assert pools.follow_parts(installed([A, B], leaving=[A]), 20) == {A}
    assert used(pools) == ["b"]
    assert pools.follow_parts(installed([A, B]), 21) == set()
    pools.note_look(30)
    assert used(pools) == ["b"]
    pools.note_look(31)
    assert used(pools) == ["a", "b"]


def test_no_pool_is_used_while_the_lease_requires_a_newer_policy() -> None:
    pools = guarded()
    assert pools.follow_lease(is_behind=False) == set()
    assert pools.follow_lease(is_behind=True) == {A, B}
    assert pools.follow_lease(is_behind=True) == set()
    assert used(pools) == []
    assert pools.holds
    pools.follow_parts(installed([A, B], leaving=[A], generation=2), 20)
    assert used(pools) == []
    assert pools.follow_lease(is_behind=False) == {B}
    assert used(pools) == ["b"]


@pytest.mark.parametrize("name", FenceParts._fields)
def test_every_part_that_ends_stops_all_pools_until_it_has_settled_again(name: str) -> None:
    pools = guarded()
    assert pools.holds
    assert pools.follow_parts(installed([A, B])._replace(**{name: None}), 20) == {A, B}
    assert used(pools) == []
    assert not pools.holds
    assert not pools.need_look(99)
    pools.follow_parts(installed([A, B]), 40)
    pools.note_look(49)
    assert used(pools) == []
    pools.note_look(50)
    assert used(pools) == ["a", "b"]


UNSEEN: dict[str, FenceParts] = {
    "a policy that was made again": installed([A, B], uid="other"),
    "a policy that changed twice": installed([A, B], generation=3),
    "a policy of an earlier state": installed([A, B], generation=0),
    "a binding that was made again": installed([A, B])._replace(
        binding=part(dict(BINDING_SPEC), uid="other")
    ),
    "a binding that changed twice": installed([A, B])._replace(
        binding=part(dict(BINDING_SPEC), uid="binding", generation=3)
    ),
}


@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_was_perhaps_another_policy_in_between_settles_again(unseen: str) -> None:
    pools = guarded()
    assert pools.follow_parts(UNSEEN[unseen], 20) == {A, B}
    assert used(pools) == []
    # The same version once more does not delay it.
    assert pools.follow_parts(UNSEEN[unseen], 25) == set()
    pools.note_look(30)
    assert used(pools) == ["a", "b"]


WEAKER = {**policy_spec([A, B], NAMESPACE), "failurePolicy": "Ignore"}
ALTERED: dict[str, FenceParts] = {
    "policy": installed()._replace(policy=part(WEAKER, uid="policy", generation=2)),
    "binding": installed([A, B])._replace(
        binding=part({**BINDING_SPEC, "validationActions": ["Warn"]}, uid="binding", generation=2)
    ),
}


@pytest.mark.parametrize("altered", ALTERED)
def test_a_policy_that_was_another_one_for_a_while_settles_again(altered: str) -> None:
    pools = guarded()
    assert pools.follow_parts(ALTERED[altered], 20) == {A, B}
    pools.follow_parts(installed([A, B], generation=3), 21)
    pools.note_look(30)
    assert used(pools) == []
    pools.note_look(31)
    assert used(pools) == ["a", "b"]
