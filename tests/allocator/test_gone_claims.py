"""Claims whose pods are gone for the scheduler, or are on another node than the devices."""

from collections.abc import Collection, Iterable, Iterator

import pytest

from allocator.decisions.gone_claims import GoneClaims
from drawbridge.dra.inventory import PoolID
from tests.allocator.clusters import allocation_on, claim, gpu_slice, pod
from tests.allocator.contests import HIGH, Contest, full_node


@pytest.fixture
def full() -> Contest:
    return full_node()


def find_gone(contest: Contest) -> set[str]:
    return GoneClaims(contest.cluster.state, contest.preemption("high")).find("n1")


@pytest.mark.parametrize(
    ("others", "is_gone"),
    [
        ((), True),
        (("unknown",), True),
        (("unlisted",), True),
        (("listed",), False),
        (("unlisted", "listed"), False),
        (("elsewhere",), False),
    ],
)
def test_a_claim_is_gone_only_with_all_its_pods(
    full: Contest, others: tuple[str, ...], *, is_gone: bool
) -> None:
    for uid, node in (("unlisted", "n1"), ("listed", "n1"), ("elsewhere", "n2")):
        full.cluster.add(pod(uid, "shared", node=node))
    full.enlist("listed", "n1")
    for number in (2, 3):  # of which a driver publishes one only after its claim is there
        full.share(f"shared{number}", "n1", number, pods=["ended", *others])
        full.cluster.add(gpu_slice("n1", number + 1, generation=number))
    gone = {"shared2", "shared3"} if is_gone else set()
    assert find_gone(full) == gone
    full.cluster.add(pod("ended", "shared", node="n2"))  # a watch shows it after all
    assert find_gone(full) == set()
    full.cluster.state.apply(full.cluster.pods["default", "ended"], None)
    assert find_gone(full) == gone
    for number in (2, 3):
        full.deallocate(f"shared{number}")
    assert find_gone(full) == set()


def test_claims_of_pods_that_run_are_not_looked_at_for_those_that_are_gone(
    full: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        full.cluster.add_claim(claim(f"c{number}", allocation=allocation_on("n1", 0), pods=["x"]))
    full.cluster.add(pod("x", *(f"c{number}" for number in range(20)), node="n1"))
    full.enlist("x", "n1", HIGH)
    request, looked_at = full.preemption("high"), list[str]()
    monkeypatch.setattr(full.cluster.state.pods, "consumers", looked_at.append)
    GoneClaims(full.cluster.state, request).find("n1")
    assert looked_at == []


def test_nobody_goes_for_devices_of_a_pod_on_another_node() -> None:
    """All other nodes are examined together; a claim of one of them is left over."""
    contest = Contest(n1=2, n2=2, n3=2)
    contest.run("important", "n1", 0, priority=HIGH)
    contest.run("one", "n2", 0, 1)
    contest.run("two", "n3", 0)
    contest.share("left-over", "n3", 1, pods=["one"])
    assert contest.victims("high", 2) == ["one"]


@pytest.mark.parametrize("members", [0, 2])
def test_a_turn_looks_only_at_the_nodes_that_it_examines(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"n{number}" for number in range(20)]
    contest = Contest(**dict.fromkeys(names, 1))
    for name in names:
        contest.run(f"on-{name}", name, 0)
    if members:
        pods = [f"m{number}" for number in range(members)]
        contest.cluster.ask_group("default/g", *pods, priority=HIGH)
    else:
        assert contest.ask("m0") == []
    decisions, seen, looked_at = contest.cluster.decisions, contest.cluster.state.pods, list[str]()

    def look(node: str, pools: Iterable[PoolID], listed: Collection[str]) -> Iterator[str]:
        looked_at.append(node)
        return claims_unlisted(node, pools, listed)

    claims_unlisted = seen.claims_unlisted
    monkeypatch.setattr(seen, "claims_unlisted", look)
    looks = iter([False])
    decisions.preempt(contest.preemption("m0"), 0.0, lambda: next(looks, True))
    assert len(looked_at) <= 2
    while decisions.preempt(contest.preemption("m0"), 0.0).unfinished:
        pass
    assert len(looked_at) > 2


def test_a_gang_gets_what_pods_had_that_are_gone_for_the_scheduler() -> None:
    contest = Contest(n1=1, n2=1)
    contest.share("left-over", "n1", 0, pods=["ended"])
    contest.run("low", "n2", 0)
    contest.cluster.ask_group("default/g", "m0", "m1", priority=HIGH)
    reply = contest.cluster.decisions.preempt(contest.preemption("m0"), 0.0)
    assert [(each.node, each.victims) for each in reply.evictions] == [("n2", ("low",))]
