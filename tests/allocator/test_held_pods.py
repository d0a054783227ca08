"""Reservations of pods that the scheduler holds: for how long, and for how many devices."""

from collections.abc import Collection
from typing import NamedTuple

import pytest

from allocator.state.reserved_pods import (
    HOLD_SECONDS,
    PROMISE_SECONDS,
    RESERVATION_SECONDS,
    HoldLimits,
)
from tests.allocator.clusters import Cluster, claim, pod
from tests.tables import every_row

HOUR = 3600


class Hold(NamedTuple):
    """In which seconds the status names the pod, and when its reservation ends."""

    named: Collection[int]
    ends: int
    limit: float = 1500.0


HOLDS = {
    "a plugin that names no pods": Hold((), 30),
    "each second": Hold(range(40), 69),
    "once at the last moment": Hold((29,), 59),
    "with lost calls": Hold((5, 34, 60), 90),
    "too late": Hold((30, 31, 32), 30),
    "for ever": Hold(range(HOUR), 1500),
    "for ever, with a shorter limit": Hold(range(HOUR), 45, 45.0),
    "a limit below the usual time": Hold(range(HOUR), 30, 10.0),
}


def follow(cluster: Cluster, *pods: str, seconds: int, named: Collection[int]) -> dict[str, int]:
    """Return in which second the reservation of each pod ended."""
    ended = {}
    for second in range(seconds):
        for uid in cluster.decisions.expire(second):
            ended[uid] = second
        if second in named:
            # Some are unknown, some are named twice.
            cluster.decisions.reservations.renew((*pods, *pods, "unknown"), second)
    return ended


@every_row("case", HOLDS.values(), ids=HOLDS)
def test_a_reservation_is_renewed_while_the_scheduler_holds_the_pod(case: Hold) -> None:
    cluster = Cluster(n1=1, limits=HoldLimits(seconds=case.limit))
    cluster.schedule("p", claim("c"))
    assert follow(cluster, "p", seconds=HOUR, named=case.named) == {"p": case.ends}
    assert cluster.held() == []


def test_a_pod_that_is_reserved_again_and_again_has_one_limit() -> None:
    cluster = Cluster(n1=1, limits=HoldLimits(seconds=60))
    cluster.schedule("p", claim("c"))
    for second in range(59):
        cluster.now = second
        assert not cluster.reserve("p", "n1")
    assert cluster.decisions.expire(60) == ("p",)


def test_a_pod_that_is_scheduled_again_is_held_anew() -> None:
    cluster = Cluster(n1=1, limits=HoldLimits(seconds=60))
    cluster.schedule("p", claim("c"))
    cluster.now = 50.0
    cluster.schedule("p", claim("c"))
    assert cluster.decisions.expire(79) == ()
    assert cluster.decisions.expire(80) == ("p",)


@pytest.mark.parametrize("end", ["unreserved", "deleted", "filtered"])
def test_a_pod_that_is_held_no_more_keeps_nothing_although_it_is_named(end: str) -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    match end:
        case "unreserved":
            cluster.decisions.unreserve("p")
        case "deleted":
            cluster.add(pod("p", "c"))
            cluster.state.apply(pod("p", "c"), None)
            for uid in cluster.state.pods.take_settled():
                cluster.decisions.end(uid)
        case "filtered":
            cluster.prefilter("p", claim("c"))
    cluster.decisions.reservations.renew(("p",), 0.0)
    cluster.decisions.expire(PROMISE_SECONDS)
    assert cluster.held() == []


def test_a_new_term_renews_nothing_of_an_earlier_one() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.decisions.begin_term()
    cluster.decisions.reservations.renew(("p",), 0.0)
    assert cluster.held() == []
    assert cluster.nodes("q", claim("d")) == ["n1"]


def test_a_held_pod_is_written_after_a_long_time() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    follow(cluster, "p", seconds=600, named=range(600))
    assert cluster.nodes("q", claim("d")) == []
    cluster.write("p")
    cluster.decisions.reservations.renew(("p",), 600.0)
    assert cluster.decisions.expire(1e9) == ()
    assert cluster.held() == ["n1/gpu-0"]


class Ceiling(NamedTuple):
    """Pods as (namespace, devices) in the order of their reservations, and which of them stay."""

    pods: Collection[tuple[str, int]]
    stay: Collection[str]


CEILINGS = {
    "up to the limit": Ceiling([("a", 3), ("a", 1)], ["p0", "p1"]),
    "the later one is too much": Ceiling([("a", 3), ("a", 2)], ["p0"]),
    "a smaller one does not overtake": Ceiling([("a", 3), ("a", 2), ("a", 1)], ["p0"]),
    "each namespace has its own": Ceiling([("a", 4), ("b", 4), ("a", 1)], ["p0", "p1"]),
    "one that has more than the limit": Ceiling([("a", 5)], []),
}


@pytest.mark.parametrize("case", CEILINGS.values(), ids=CEILINGS)
def test_a_namespace_holds_a_limited_number_of_devices_for_a_long_time(case: Ceiling) -> None:
    cluster = Cluster(n1=16, limits=HoldLimits(devices=4))
    names = []
    for number, (namespace, count) in enumerate(case.pods):
        names.append(f"p{number}")
        cluster.now = number / 10
        own = claim(f"c{number}", count, namespace=namespace)
        cluster.schedule(names[-1], own, namespace=namespace)
    reservations = cluster.decisions.reservations
    ended = follow(cluster, *reversed(names), seconds=100, named=range(100))
    assert [uid for uid in names if uid not in ended] == list(case.stay)
    # Without a limit they would have ended at the same time.
    assert all(at >= 2 * RESERVATION_SECONDS for at in ended.values())
    held = sum(count for uid, (_, count) in zip(names, case.pods, strict=True) if uid in case.stay)
    assert reservations.count_renewed_devices(100.0) == held == len(cluster.held())


def test_a_claim_that_pods_share_counts_once_for_their_namespace() -> None:
    cluster = Cluster(n1=16, limits=HoldLimits(devices=6))
    shared, names = claim("shared", 3), [f"p{number}" for number in range(4)]
    for number, name in enumerate(names):
        cluster.now = number / 10
        cluster.schedule(name, shared, claim(f"own-{name}"))
    ended = follow(cluster, *names, seconds=100, named=range(100))
    assert list(ended) == ["p3"]  # the claim of all, and one of each of the others
    assert cluster.decisions.reservations.count_renewed_devices(100.0) == len(cluster.held()) == 6


def test_the_end_of_a_cycle_for_a_group_holds_the_devices_of_a_member_for_a_moment() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    assert cluster.decisions.reservations.hold("p", cluster.now)
    assert cluster.nodes("q", claim("d")) == []
    assert cluster.decisions.expire(HOLD_SECONDS - 0.1) == ()
    assert cluster.decisions.expire(HOLD_SECONDS) == ("p",)
    assert cluster.nodes("q", claim("d")) == ["n1"]


def test_a_member_that_is_reserved_again_is_held_no_more() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.decisions.reservations.hold("p", cluster.now)
    assert not cluster.reserve("p", "n1")
    assert cluster.decisions.expire(HOLD_SECONDS) == ()


def test_a_pod_without_a_reservation_is_not_held() -> None:
    assert not Cluster(n1=1).decisions.reservations.hold("p", 0.0)
