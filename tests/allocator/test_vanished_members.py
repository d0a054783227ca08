"""Devices of the claim of a group whose members vanish: it is released with the group, later."""

from typing import Any

import pytest

from allocator.state.cluster_state import AllocatorState
from drawbridge.dra.claim import Claim
from drawbridge.ledger.pods import Pod
from tests.allocator.clusters import allocation_on, as_claim, claim, pod
from tests.allocator.test_vanished_pods import (
    RELEASED,
    SECONDS,
    is_free,
    running,
    showing,
    state_with,
)
from tests.tables import every_row

GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


def of_group(*, version: int = 1) -> Claim:
    """Return the claim, which is reserved for the group."""
    made = claim("c", version=version, allocation=allocation_on("n1", 0))
    made["status"]["reservedFor"] = [GROUP]
    return as_claim(made)


def member(uid: str, state: str, **fields: Any) -> Pod:  # noqa: ANN401  # those of `pod`
    """Return a member that waits, runs or has ended."""
    if state == "runs":
        return running(uid, **fields)
    ended = {"node": "n1", "phase": "Succeeded"} if state == "ended" else {}
    return pod(uid, "c", **ended, **fields)


def with_members(*states: str) -> tuple[AllocatorState, list[Pod]]:
    """Return a group whose claim is allocated, and its members."""
    members = [member(f"m{number}", state) for number, state in enumerate(states)]
    return state_with(of_group(), *members), members


@every_row(
    ("members", "stay", "free"),
    [
        (("runs",), (), False),
        (("runs",), (0,), False),
        (("ended",), (), True),
        (("waits",), (), True),
        (("ended", "runs"), (), False),
        (("runs", "waits"), (1,), False),
        (("ended", "waits"), (), True),
        ((), (), False),  # this process may have started after the members vanished
    ],
)
def test_the_devices_are_free_when_no_container_can_run(
    members: tuple[str, ...],
    stay: tuple[int, ...],
    free: bool,  # noqa: FBT001  # a column
) -> None:
    state, pods = with_members(*members)
    for number, gone in enumerate(pods):
        if number not in stay:
            state.apply(gone, None)
    assert not is_free(state)
    state.apply(of_group(), RELEASED)
    assert is_free(state) is free


def test_what_a_member_used_is_free_after_its_time() -> None:
    state, [vanished] = with_members("runs")
    state.apply(vanished, None)
    state.apply(of_group(), RELEASED)
    state.vanished.observe_time(100.0)
    state.vanished.observe_time(100.0 + 30 + SECONDS - 1)
    assert not is_free(state)
    state.vanished.observe_time(100.0 + 30 + SECONDS)
    assert is_free(state)


@every_row(("version", "free"), [(1, True), (2, False)])
def test_a_member_that_is_seen_later_shows_that_nobody_used_the_claim(
    version: int,
    free: bool,  # noqa: FBT001  # a column
) -> None:
    state, _ = with_members()
    state.apply(of_group(), RELEASED)
    assert not is_free(state)
    state.apply(None, showing(of_group(version=version)))
    assert is_free(state) is free


@pytest.mark.parametrize("gone", [as_claim(claim("c", version=3)), None])
def test_nothing_is_remembered_of_a_claim_that_is_released(gone: Claim | None) -> None:
    state, [vanished] = with_members("runs")
    state.apply(vanished, None)
    of_nobody = as_claim(claim("c", version=2, allocation=allocation_on("n1", 0)))
    state.apply(of_group(), of_nobody)
    state.apply(of_nobody, gone)
    assert not state.vanished._left  # noqa: SLF001


def test_a_claim_that_is_released_after_the_time_of_its_members_is_free_at_once() -> None:
    state, [vanished] = with_members("runs")
    state.apply(vanished, None)
    state.vanished.observe_time(100.0)
    state.vanished.observe_time(100.0 + 30 + SECONDS)
    assert not is_free(state)
    state.apply(of_group(), RELEASED)
    assert is_free(state)


@pytest.mark.parametrize("seconds", [None, SECONDS])
def test_a_member_whose_end_is_seen_later_keeps_nothing(seconds: float | None) -> None:
    runs, ended = member("m", "runs"), member("m", "ended")
    state = state_with(of_group(), runs, seconds=seconds)
    state.apply(of_group(), RELEASED)
    assert is_free(state) is (seconds is None)
    state.apply(runs, ended)
    assert is_free(state)
