"""Claims whose pods are gone for the scheduler, or are on another node than the devices."""

import pytest

from allocator.decisions.basis import Basis, Surroundings
from allocator.decisions.preemption import DevicePreemption
from tests.allocator.clusters import allocation_on, claim, gpu_slice, pod
from tests.allocator.contests import HIGH, Contest, full_node


@pytest.fixture
def full() -> Contest:
    return full_node()


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
    preemption = DevicePreemption(Basis(full.cluster.state, Surroundings()))
    gone = {"shared2", "shared3"} if is_gone else set()
    assert preemption.find_gone(full.preemption("high")) == gone
    full.cluster.add(pod("ended", "shared", node="n2"))  # a watch shows it after all
    assert preemption.find_gone(full.preemption("high")) == set()
    full.cluster.state.apply(full.cluster.pods["default", "ended"], None)
    assert preemption.find_gone(full.preemption("high")) == gone
    for number in (2, 3):
        full.deallocate(f"shared{number}")
    assert preemption.find_gone(full.preemption("high")) == set()


def test_claims_of_pods_that_run_are_not_looked_at_for_those_that_are_gone(
    full: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        full.cluster.add_claim(claim(f"c{number}", allocation=allocation_on("n1", 0), pods=["x"]))
    full.cluster.add(pod("x", *(f"c{number}" for number in range(20)), node="n1"))
    full.enlist("x", "n1", HIGH)
    request, looked_at = full.preemption("high"), list[str]()
    monkeypatch.setattr(full.cluster.state.pods, "consumers", looked_at.append)
    DevicePreemption(Basis(full.cluster.state, Surroundings())).find_gone(request)
    assert looked_at == []


def test_nobody_goes_for_devices_of_a_pod_on_another_node() -> None:
    """All other nodes are examined together; a claim of one of them is left over."""
    contest = Contest(n1=2, n2=2, n3=2)
    contest.run("important", "n1", 0, priority=HIGH)
    contest.run("one", "n2", 0, 1)
    contest.run("two", "n3", 0)
    contest.share("left-over", "n3", 1, pods=["one"])
    assert contest.victims("high", 2) == ["one"]
