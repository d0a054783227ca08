"""What decisions keep of those that were built before: no cache tells it again."""

import pytest
from msgspec.structs import replace

from allocator.state.cluster_state import AllocatorState
from allocator.state.seen_pods import TERMINATION_SECONDS
from tests.allocator.clusters import as_claim, claim, device
from tests.allocator.test_vanished_members import of_group, with_members
from tests.allocator.test_vanished_pods import (
    RELEASED,
    SECONDS,
    UNBOUND,
    Change,
    allocated,
    ended,
    is_free,
    running,
    state_with,
)

GRACE = 300
LONG = running(spec={"terminationGracePeriodSeconds": GRACE})


def built_after(state: AllocatorState, *objects: object) -> AllocatorState:
    """Return decisions that are built of these objects, and keep what the others know."""
    new = state_with(*objects)
    new.take_over(state)
    return new


@pytest.mark.parametrize(
    ("before", "seconds"), [((LONG, None), GRACE + SECONDS), ((ended(), None), 0)]
)
def test_how_a_pod_went_is_known_to_new_decisions(before: Change, seconds: int) -> None:
    state = state_with(before[0], allocated("p"))
    state.apply(*before)
    new = built_after(state, allocated("p"))
    new.apply(allocated("p"), RELEASED)
    new.vanished.observe_time(0.0)
    assert is_free(new) is not bool(seconds)
    new.vanished.observe_time(seconds - 1.0)
    assert is_free(new) is not bool(seconds)
    new.vanished.observe_time(float(seconds))
    assert is_free(new)


def test_new_decisions_release_the_claim_of_a_pod_that_has_gone() -> None:
    state = state_with(running(), allocated("p"))
    state.apply(running(), None)
    assert built_after(state, allocated("p")).pods.releasing == {allocated("p").metadata.uid}
    assert not built_after(state, running(), allocated("p")).pods.releasing


def test_new_decisions_know_that_a_pod_was_bound() -> None:
    state = state_with(UNBOUND, allocated("p"))
    state.pods.note_bound("p")
    new = built_after(state, UNBOUND, allocated("p"))
    new.apply(UNBOUND, None)
    new.apply(allocated("p"), RELEASED)
    assert not is_free(new)


def test_what_is_being_released_while_decisions_are_built_is_free_at_once() -> None:
    state = state_with(UNBOUND, allocated("p"))
    with state.pods.release(allocated("p")):
        new = built_after(state, UNBOUND, allocated("p"))
        new.apply(allocated("p"), RELEASED)
    assert is_free(new)
    again = replace(allocated("p"), metadata=replace(RELEASED.metadata, resource_version="7"))
    new.apply(RELEASED, again)
    new.apply(again, as_claim(claim("c", version=8)))
    assert not is_free(new)


@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("ends", ["ended", "runs"])
def test_which_members_have_gone_is_known_to_new_decisions(ends: str, *, rebuilt: bool) -> None:
    state, pods = with_members(ends)
    state.apply(pods[0], None)
    for seconds in (0.0, 30.0 + SECONDS):
        state.vanished.observe_time(seconds)
    if rebuilt:
        state = built_after(state, of_group())
    state.apply(of_group(), RELEASED)
    assert is_free(state)


def test_a_pod_that_lingers_does_so_for_new_decisions() -> None:
    deleted = {"deletionTimestamp": "2026-11-22T00:00:00Z", "deletionGracePeriodSeconds": 30}
    terminating = running(**deleted)
    state = state_with(terminating, allocated("p"))
    for seconds in (0.0, 31.0 + TERMINATION_SECONDS):
        state.pods.observe_time(seconds)
    new = built_after(state, terminating, allocated("p"))
    assert new.pods.is_lingering("p")
    assert not new.pods.releasing


def test_new_decisions_avoid_a_device_that_has_failed() -> None:
    state = state_with()
    state.penalise(device("n1"), 60.0)
    assert built_after(state).preferred_view(1.0) is not None
