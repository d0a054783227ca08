"""What evictions lose, and how that decides who must go."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from allocator.state.caches import without_unused_parts
from drawbridge.ledger.lost_work import (
    RESTART,
    LostClaim,
    lost_seconds,
    newest_start,
    read_interval,
    seconds_since,
    with_lost_work,
)
from drawbridge.ledger.preemption import running_pod
from drawbridge.ledger.victims import NodeVictims, RunningPod, choose_victims, find_victims
from drawbridge.names import CHECKPOINTS_ANNOTATION
from drawbridge.pod_groups import COSCHEDULING_LABEL
from tests.allocator.clusters import allocation_on, claim, pod
from tests.allocator.contests import Contest

_NOON, _ONE = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("90s", 90),
        ("2h", 7200),
        ("99999h", 99999 * 3600),
        ("", None),
        ("0m", None),
        ("-30m", None),
        ("30", None),
        ("30 m", None),
        ("1.5h", None),
        ("m30", None),
        ("999999h", None),
        ("never", None),
    ],
)
def test_an_interval_is_hours_minutes_and_seconds(text: str, expected: int | None) -> None:
    assert read_interval({CHECKPOINTS_ANNOTATION: text}) == expected


def test_a_pod_without_the_annotation_writes_no_checkpoints() -> None:
    assert read_interval({}) is None


@pytest.mark.parametrize(
    ("ran", "interval", "expected"),
    [(0, None, 0), (7200, None, 7200), (599, 600, 599), (600, 600, 300), (7200, 600, 300)],
)
def test_half_an_interval_is_lost_after_the_first_checkpoint(
    ran: int, interval: int | None, expected: int
) -> None:
    assert lost_seconds(ran, interval) == RESTART + expected


@pytest.mark.parametrize("interval", [1, 600, 7200, 10**9])
def test_no_annotation_makes_an_eviction_dearer(interval: int) -> None:
    assert all(lost_seconds(ran, interval) <= lost_seconds(ran, None) for ran in range(0, 9000, 7))


def test_times_are_those_of_the_api_server() -> None:
    now = newest_start([RunningPod("d", name, "n", started=s) for name, s in _STARTS.items()])
    assert (seconds_since(_NOON, now), seconds_since(_ONE, now)) == (3600, 0)
    assert (seconds_since("", now), seconds_since("later", now)) == (0, 0)
    assert seconds_since(_ONE, now - 60) == 0
    assert newest_start([]) == 0


_STARTS = {"a": _NOON, "b": _ONE, "c": "", "d": "unreadable"}


def test_the_members_of_a_gang_are_lost_together() -> None:
    pods = [
        RunningPod("d", "a", "n1", started=_NOON, group="g"),
        RunningPod("d", "b", "n2", started=_NOON, group="g", interval=600),
        RunningPod("d", "c", "n2", started=_NOON),
    ]
    now = newest_start([RunningPod("d", "x", "n1", started=_ONE)])
    held = [LostClaim(range(8), ["d/a"]), LostClaim("xy", ["d/b"])]
    lost = with_lost_work(pods, held, now)
    gang = 8 * (3600 + RESTART) + 2 * (300 + RESTART)
    assert {name: each.lost for name, each in lost.items()} == {
        "d/a": gang, "d/b": gang, "d/c": 0,
    }  # fmt: skip


def _lost(claims: Collection[LostClaim], **groups: str) -> dict[str, int]:
    """Return what pods lose that have run for an hour."""
    pods = [RunningPod("d", name, "n", started=_NOON, group=groups[name]) for name in groups]
    now = newest_start([RunningPod("d", "x", "n", started=_ONE)])
    return {each.pod_name: each.lost for each in with_lost_work(pods, claims, now).values()}


def test_a_claim_and_a_device_of_many_members_count_once() -> None:
    members = [f"d/g{number}" for number in range(64)]
    gang = {name.removeprefix("d/"): "g" for name in members}
    hour = 3600 + RESTART
    assert _lost([LostClaim("x", members)], **gang)["g7"] == hour
    shares = [LostClaim("x", [name]) for name in members]
    assert _lost(shares, **gang)["g7"] == hour
    assert _lost([*shares, LostClaim("y", members)], **gang)["g7"] == 2 * hour


def test_pods_that_share_a_claim_lose_it_once_together() -> None:
    claims = [LostClaim("xy", ["d/a", "d/b", "d/c", "d/e"])]
    lost = _lost(claims, a="", b="", c="g", e="g")
    assert lost == dict.fromkeys("abce", 2 * (3600 + RESTART) // 3)


def _running(name: str, lost: int, **fields: Any) -> RunningPod:  # noqa: ANN401  # of a pod
    return RunningPod("d", name, "n1", lost=lost, **fields)


def test_the_pods_that_lose_most_stay_on_their_node() -> None:
    pods = [_running("old", 10, started=_NOON), _running("new", 20, started=_ONE)]
    victims = find_victims("n1", pods, (), lambda removed: len(removed) > 0)
    assert victims is not None
    assert [each.pod_name for each in victims.pods] == ["old"]
    pods = [_running("important", 10, priority=1), _running("other", 20)]
    victims = find_victims("n1", pods, (), lambda removed: len(removed) > 0)
    assert victims is not None
    assert [each.pod_name for each in victims.pods] == ["other"]


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ([_running("a", 5), _running("b", 5)], [_running("c", 11)]),
        ([_running("a", 99)], [_running("b", 1, priority=1)]),
        ([_running("a", 6, group="g"), _running("b", 6, group="g")], [_running("c", 7)]),
    ],
    ids=["less in all", "priorities first", "a gang once"],
)
def test_the_node_that_loses_least_is_chosen(
    best: list[RunningPod], other: list[RunningPod]
) -> None:
    nodes = [NodeVictims("n1", tuple(other)), NodeVictims("n2", tuple(best))]
    assert choose_victims(nodes) == nodes[1]


# --- the allocator ---


def _contest(annotations: Mapping[str, str]) -> Contest:
    """Two nodes with a pod each; that on n2 started earlier, and has these annotations."""
    contest = Contest(n1=1, n2=1)
    contest.run("young", "n1", 0, start="2025-12-31T12:00:00Z")
    contest.run("old", "n2", 0, start="2025-12-31T00:00:00Z")
    contest.cluster.add(pod("old", "of-old", node="n2", annotations=annotations))
    return contest


def test_the_cache_keeps_the_annotation_of_pods_with_claims_alone() -> None:
    annotations = {CHECKPOINTS_ANNOTATION: "10m", "other": "text"}
    kept = without_unused_parts(pod("a", "claim", annotations=annotations))
    assert kept.metadata.annotations == {CHECKPOINTS_ANNOTATION: "10m"}
    no_interval = {CHECKPOINTS_ANNOTATION: "x" * 200_000}
    unused = (pod("a", annotations=annotations), pod("a", "c", annotations=no_interval))
    for dropped in (*unused, pod("a", "claim")):
        assert without_unused_parts(dropped).metadata.annotations == {}


def test_a_pod_with_checkpoints_goes_before_a_younger_one() -> None:
    assert _contest({}).victims("high") == ["young"]
    assert _contest({CHECKPOINTS_ANNOTATION: "10m"}).victims("high") == ["old"]
    assert _contest({CHECKPOINTS_ANNOTATION: "often"}).victims("high") == ["young"]


def test_fewer_devices_go_if_they_have_run_as_long() -> None:
    contest = Contest(n1=2, n2=2)
    for node, devices in (("n1", (0, 1)), ("n2", (0,))):
        contest.run(f"on-{node}", node, *devices, start="2025-12-31T00:00:00Z")
    contest.run("beside", "n2", 1, priority=1000)
    assert contest.victims("high") == ["on-n2"]


def test_a_gang_is_lost_with_all_its_members() -> None:
    contest = Contest(n1=1, n2=1, n3=1)
    for node in ("n1", "n2"):
        contest.run(f"member-{node}", node, 0, start="2025-12-31T20:00:00Z")
        member = pod(
            f"member-{node}",
            f"of-member-{node}",
            node=node,
            spec={"schedulingGroup": {"podGroupName": "g"}, "schedulerName": "drawbridge"},
        )
        contest.cluster.add(member)
    contest.run("alone", "n3", 0, start="2025-12-31T18:00:00Z")
    assert contest.victims("high") == ["alone"]


def _gang(contest: Contest, claims: Mapping[str, str], node: str, start: str) -> None:
    """Add members of one gang to a node, with the claim of each."""
    for uid, name in claims.items():
        member = pod(uid, name, node=node, labels={COSCHEDULING_LABEL: "g"})
        contest.cluster.add(member)
        contest.enlist(uid, node, start=start, priority=0 if uid == "g" else 200)


# Two gangs with one name, of two APIs.
_NAMESAKES: Mapping[str, Mapping[str, Any]] = {
    "old": {"labels": {COSCHEDULING_LABEL: "g"}, "annotations": {CHECKPOINTS_ANNOTATION: "10m"}},
    "young": {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
}


def test_gangs_of_one_name_in_two_apis_lose_their_own_work() -> None:
    contest = _contest({})
    for uid, node in (("young", "n1"), ("old", "n2")):
        contest.cluster.add(pod(uid, f"of-{uid}", node=node, **_NAMESAKES[uid]))
    assert contest.victims("high") == ["old"]


def test_gangs_of_one_name_in_two_apis_are_two_holders() -> None:
    pods = [running_pod(pod(uid, **fields), 0) for uid, fields in _NAMESAKES.items()]
    alone = RunningPod("default", "g", "n1")
    claims = [LostClaim("x", ["default/old"]), LostClaim("yz", ["default/young"])]
    lost = with_lost_work([*pods, alone], claims, 0)
    expected = {"default/old": RESTART, "default/young": 2 * RESTART, "default/g": 0}
    assert {name: each.lost for name, each in lost.items()} == expected


def test_members_that_share_a_device_elsewhere_do_not_make_a_gang_dearer() -> None:
    contest = Contest(n1=1, n2=1, n3=1)
    contest.run("honest", "n1", 0, start="2025-12-31T00:00:00Z")  # loses 24 h of a device
    contest.share("own", "n2", 0, pods=["g"])
    _gang(contest, {"g": "own"}, "n2", "2025-12-31T23:00:00Z")  # loses 1 h of two devices
    others = [f"g{number}" for number in range(63)]
    contest.share("shared", "n3", 0, pods=others)
    _gang(contest, dict.fromkeys(others, "shared"), "n3", "2025-12-31T23:00:00Z")
    assert contest.victims("high") == ["g"]


def test_members_that_join_later_lose_only_what_they_have_run() -> None:
    contest = Contest(n1=1, n2=1, n3=8)
    contest.run("honest", "n1", 0, start="2025-12-31T12:00:00Z")  # loses 12 h of a device
    contest.share("own", "n2", 0, pods=["g"])
    _gang(contest, {"g": "own"}, "n2", "2025-12-31T14:00:00Z")  # loses 10 h of one device
    contest.share("late", "n3", *range(8), pods=["g1"])
    _gang(contest, {"g1": "late"}, "n3", "2026-01-01T00:00:00Z")  # loses nothing but the restart
    assert contest.victims("high") == ["g"]


def test_pods_that_share_a_device_do_not_lose_it_several_times() -> None:
    contest = Contest(n1=1, n2=1)
    contest.run("honest", "n1", 0, start="2025-12-31T12:00:00Z")  # loses 12 h of a device
    sharing = [f"s{number}" for number in range(8)]
    contest.share("shared", "n2", 0, pods=sharing)
    for uid in sharing:
        contest.cluster.add(pod(uid, "shared", node="n2"))
        contest.enlist(uid, "n2", start="2025-12-31T14:00:00Z")  # lose 10 h of one device
    assert sorted(contest.victims("high")) == sharing


def test_a_claim_that_holds_nothing_costs_nothing() -> None:
    contest = Contest(n1=1)
    contest.cluster.add_claim(claim("empty", allocation=allocation_on("n1"), pods=["idle"]))
    contest.run("holder", "n1", 0)
    contest.enlist("idle", "n1")
    assert contest.victims("high") == ["holder"]
