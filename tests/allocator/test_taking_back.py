"""Allocations of ours that yield: which writes that takes, and what they never touch."""

import pytest
from msgspec.structs import replace

from allocator.state.conflicts import ContestedClaim
from drawbridge.dra.allocation import Consumer
from tests.allocator.binding_rig import Rig, contest

pytestmark = pytest.mark.asyncio
ENDING = ", which another allocator wrote, contradicts claim n/a: Device/d.io/p/gpu-0-0"
MESSAGE = f"the allocation of n/b{ENDING}"


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def allocate(rig: Rig, *pods: str) -> None:
    """Allocate claim `a` for pods whose binding fails."""
    for pod in pods:
        rig.reservations.reserve(pod, "a")
        rig.cluster.faults[len(rig.cluster.writes) + (3 if pod == pods[0] else 2)] = "refuse"
        assert await rig.bind(pod)
        rig.reservations.reserve(pod, "a")
    rig.cluster.writes.clear()
    rig.cluster.faults.clear()


async def test_a_pod_whose_device_is_contested_is_not_bound(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    contest(rig)
    assert await rig.bind() == f"{MESSAGE}; the pod is tried again"
    assert rig.cluster.writes == ["mark a", "allocate a"]
    rig.reservations.reserve("pod", "a")  # the claims of the pod stay known
    await rig.recovery.run_turn()
    assert rig.cluster.writes[2:] == ["change pod", "deallocate a", "unmark a"]
    assert rig.cluster.is_clean("a")
    assert rig.cluster.node_of("pod") == ""


async def test_a_conflict_that_begins_after_the_devices_are_ready_is_seen(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    find, asked = rig.reservations.find_contest, []

    def find_later(uid: str) -> ContestedClaim | None:
        asked.append(uid)
        if len(asked) > 1:
            contest(rig)
        return find(uid)

    rig.reservations.find_contest = find_later  # type: ignore[method-assign]  # from the second on
    assert await rig.bind() == f"{MESSAGE}; the pod is tried again"
    assert rig.cluster.node_of("pod") == ""


async def test_an_allocation_that_yields_is_reported_and_its_pod_is_tried_again(rig: Rig) -> None:
    await allocate(rig, "pod")
    theirs = rig.claim("b")
    contest(rig)
    await rig.recovery.run_turn()
    assert rig.cluster.writes == ["change pod", "deallocate a", "unmark a"]
    assert rig.reported == [f"AllocationTakenBack a: {MESSAGE}"]
    assert rig.woken.get_nowait() == "uid-pod"
    assert rig.reservations.penalised == ["gpu-0-0"]
    assert rig.claim("b") == theirs
    # Once: the claim has no allocation any more.
    await rig.recovery.run_turn()
    assert len(rig.cluster.writes) == 3


async def test_only_the_log_names_a_rival_of_another_namespace(rig: Rig) -> None:
    rig.cluster.add_claim("c", "other")
    rig.reservations.reserve("pod", "a")
    contest(rig, "c")
    message = f"the allocation of a claim of another namespace{ENDING}"
    assert await rig.bind() == f"{message}; the pod is tried again"
    rig.reservations.reserve("pod", "a")
    await rig.recovery.run_turn()
    assert rig.reported == [f"AllocationTakenBack a: {message}"]
    assert rig.logged == [f"the allocation of other/c{ENDING}"]


async def test_a_call_that_waits_for_its_devices_ends_at_once(rig: Rig) -> None:
    await allocate(rig, "pod")
    contest(rig)
    await rig.recovery.run_turn()
    assert rig.cluster.ended_waits == ["uid-a"]


async def test_nothing_is_taken_from_a_pod_that_is_bound(rig: Rig) -> None:
    rig.reservations.reserve("pod", "a")
    assert not await rig.bind()
    rig.cluster.writes.clear()
    contest(rig)  # the watch is behind
    await rig.recovery.run_turn()
    assert rig.cluster.writes == []
    assert rig.claim("a").status.allocation is not None
    assert rig.reported == []


async def test_pods_that_share_a_claim_give_it_back_together(rig: Rig) -> None:
    await allocate(rig, "first", "second")
    assert rig.consumers("a") == ["first", "second"]
    contest(rig)
    await rig.recovery.run_turn()
    assert rig.cluster.is_clean("a")
    assert sorted(rig.woken.get_nowait() for _ in range(2)) == ["uid-first", "uid-second"]


async def test_a_claim_of_a_group_goes_back_while_no_member_has_a_node(rig: Rig) -> None:
    rig.reservations.group = Consumer.of_pod_group("train", "uid-train")
    await allocate(rig, "m0")
    contest(rig)
    await rig.recovery.run_turn()
    assert rig.cluster.is_clean("a")


async def test_a_conflict_that_ended_meanwhile_undoes_nothing(rig: Rig) -> None:
    await allocate(rig, "pod")
    contest(rig)
    listed = rig.reservations.list_contests()
    rig.reservations.contested.clear()
    rig.reservations.list_contests = lambda: listed  # type: ignore[method-assign]  # as before
    await rig.recovery.run_turn()
    assert rig.cluster.writes == []


async def test_a_write_that_is_refused_is_repeated_later_and_stops_no_other(rig: Rig) -> None:
    await allocate(rig, "pod")
    contest(rig)
    rig.cluster.faults[2] = "refuse"
    await rig.recovery.run_turn()
    await rig.recovery.run_turn()
    assert rig.cluster.writes == ["change pod", "deallocate a"]
    assert rig.claim("a").status.allocation is not None


async def test_a_claim_whose_pods_are_gone_is_left_to_the_claim_controller(rig: Rig) -> None:
    await allocate(rig, "pod")
    status = replace(rig.claim("a").status, reserved_for=())
    rig.cluster.put(replace(rig.claim("a"), status=status))
    rig.reservations.users.clear()
    contest(rig)
    await rig.recovery.run_turn()
    assert rig.cluster.writes == []


async def test_while_another_leads_nothing_is_written(rig: Rig) -> None:
    await allocate(rig, "pod")
    contest(rig)
    rig.cluster.faults |= dict.fromkeys(range(1, 9), "not leading")
    await rig.recovery.run_turn()
    assert rig.claim("a").status.allocation is not None
