"""What is kept for a preemptor of the counters of a GPU whose partitions others have."""

from typing import Any

from tests.allocator.clusters import DRIVER, as_slice, claim, pod
from tests.allocator.contests import HIGH, LOW, Contest

_SELECTOR = 'device.attributes["gpu.example.com"].size == "{}"'


def _gpu(total: int = 4, **halves: Any) -> Contest:  # noqa: ANN401  # fields of a device
    """Return a node with a GPU: device `gpu-0` consumes 4 of it, three others 2."""
    contest = Contest(n1=0)
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    counters = {"name": "gpu", "counters": {"memory": {"value": f"{total}"}}}
    parts = ({**_device(number, "half", 2), **halves} for number in (1, 2, 3))
    devices = [_device(0, "whole", 4), *parts]
    for name, content in (("c", {"sharedCounters": [counters]}), ("d", {"devices": devices})):
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, **content}
        contest.cluster.add(as_slice({"metadata": {"name": name}, "spec": spec}))
    return contest


def _device(number: int, size: str, consumed: int) -> dict[str, Any]:
    counters = {"counterSet": "gpu", "counters": {"memory": {"value": f"{consumed}"}}}
    attributes = {"size": {"string": size}}
    return {"name": f"gpu-{number}", "attributes": attributes, "consumesCounters": [counters]}


def _ask(contest: Contest, uid: str, size: str, priority: int, named: str = "") -> list[str]:
    selectors = [{"cel": {"expression": _SELECTOR.format(size)}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors}
    wanted = claim(named or f"of-{uid}", requests=[{"name": "r", "exactly": exactly}])
    reply = contest.cluster.prefilter(uid, wanted, priority=priority)
    nodes = [fitting.node for fitting in reply.fit]
    contest.waiting.note_answer(uid, nodes, contest.cluster.now)
    return nodes


def _preempt(contest: Contest, uid: str, size: str) -> list[str]:
    assert _ask(contest, uid, size, HIGH) == []
    reply = contest.cluster.decisions.preempt(contest.preemption(uid), contest.cluster.now)
    contest.waiting.note_preemption(uid, refused=not (reply.node or reply.waiting))
    return list(reply.victims)


def _run(contest: Contest, uid: str) -> None:
    """Let a pod that has asked run on the node."""
    assert not contest.cluster.reserve(uid, "n1")
    contest.cluster.write(uid)
    contest.versions[f"of-{uid}"] = 2
    contest.cluster.add(pod(uid, f"of-{uid}", node="n1"))
    contest.enlist(uid, "n1", LOW)


def test_nobody_gets_the_free_half_while_a_pod_waits_for_the_other() -> None:
    contest = _gpu()
    contest.run("victim", "n1", 1)
    assert _preempt(contest, "high", "whole") == ["victim"]
    assert _ask(contest, "low", "half", LOW) == []
    assert _ask(contest, "another", "half", HIGH) == []


def test_pods_that_come_one_after_the_other_make_no_eviction_vain() -> None:
    contest = _gpu()
    contest.run("low-0", "n1", 1)
    evicted = list[str]()
    for turn in range(1, 4):
        contest.woken()
        evicted += _preempt(contest, "high", "whole")
        if _ask(contest, f"low-{turn}", "half", LOW):
            _run(contest, f"low-{turn}")
        contest.evict(evicted[-1])
        contest.end(evicted[-1])
        contest.woken()
        if _ask(contest, "high", "whole", HIGH):
            break
    assert evicted == ["low-0"]


def test_counters_promised_for_a_shared_claim_are_kept_for_a_more_important_pod() -> None:
    contest = _gpu()
    contest.run("victim", "n1", 1)
    contest.run("ending", "n1", 2)
    for uid in ("low-0", "low-1"):
        assert _ask(contest, uid, "half", LOW, "shared") == []
    contest.end("ending")
    assert contest.woken() == ["low-0", "low-1"]
    assert _preempt(contest, "high", "whole") == ["victim"]
    for uid in ("low-0", "low-1"):
        assert _ask(contest, uid, "half", LOW, "shared") == []
    contest.end("victim")
    assert _ask(contest, "high", "whole", HIGH) == ["n1"]


def test_what_another_pod_releases_later_is_kept_as_well() -> None:
    contest = _gpu()
    contest.run("ending", "n1", 1)
    contest.run("victim", "n1", 2)
    contest.evict("ending")
    assert _preempt(contest, "high", "whole") == ["victim"]
    contest.evict("victim")
    contest.end("victim")
    assert _ask(contest, "other", "half", HIGH - 1) == []
    contest.end("ending")
    assert _ask(contest, "low", "half", LOW) == []
    assert _ask(contest, "high", "whole", HIGH) == ["n1"]


def test_what_is_kept_of_counters_is_counted_once_for_others_that_preempt() -> None:
    contest = _gpu(total=6)
    contest.run("first", "n1", 1)
    contest.run("second", "n1", 2)
    (victim,) = _preempt(contest, "high", "whole")
    (other,) = {"first", "second"} - {victim}
    assert _preempt(contest, "high-2", "half") == [other]


def test_the_counters_of_one_victim_are_enough_for_several_pods() -> None:
    contest = _gpu()
    contest.run("victim", "n1", 0)
    assert _preempt(contest, "first", "half") == ["victim"]
    assert _preempt(contest, "second", "half") == []
    assert contest.cluster.decisions.preemptors.find("second") is not None
    assert _preempt(contest, "third", "half") == []
    assert contest.cluster.decisions.preemptors.find("third") is None
    contest.end("victim")
    for uid in ("second", "first"):
        assert _ask(contest, uid, "half", HIGH) == ["n1"]
        _run(contest, uid)


def test_nobody_gets_a_share_of_a_half_while_its_last_one_makes_way_for_the_whole() -> None:
    memory = {"memory": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}
    contest = _gpu(allowMultipleAllocations=True, capacity=memory)
    for uid in ("victim-0", "victim-1"):
        assert _ask(contest, uid, "half", LOW) == ["n1"]
        _run(contest, uid)
    assert sorted(_preempt(contest, "high", "whole")) == ["victim-0", "victim-1"]
    contest.end("victim-0")
    assert _ask(contest, "low", "half", LOW) == []
    contest.end("victim-1")
    assert _ask(contest, "low", "half", LOW) == []
    assert _ask(contest, "high", "whole", HIGH) == ["n1"]
