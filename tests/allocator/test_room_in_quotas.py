"""Who is woken when a device quota has room again: for free devices, or to ask for victims."""

import pytest

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import PotentialVictim, PreemptionNode, PreemptRequest
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.quantity import Quantity, from_json
from tests.allocator.clusters import (
    Cluster,
    allocation_on,
    as_claim,
    claim,
    codes,
    gpu_slice,
    pod,
)
from tests.allocator.test_quotas import ALL, BIG, DEVICES, MEMORY, limit, used
from tests.tables import every_row


def test_a_pod_over_quota_is_woken_when_another_one_gives_devices_back() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=8)
    waiting = WaitingPods(cluster.decisions)
    for uid in ("a", "b"):
        cluster.schedule(uid, claim(f"c-{uid}"))
        cluster.write(uid)
    for uid in ("c", "d"):
        reply = cluster.prefilter(uid, claim(f"c-{uid}"))
        waiting.note_answer(uid, [], cluster.now, complete=reply.complete)
    assert waiting.wake(1.0).woken == ()
    assert not waiting.wake(1.0).unfinished
    cluster.state.apply(as_claim(claim("c-a", version=3)), None)
    turn = waiting.wake(2.0)
    assert turn.woken == ("c",)
    assert not turn.unfinished
    assert used(cluster) == ["2/2"]


def test_a_pod_over_quota_is_woken_when_its_namespace_leaves_the_quota() -> None:
    only_gold = DeviceQuota(
        "q", lambda _, labels: labels.get("tier") != "gold", {}, {DEVICES: Quantity.of(0)}
    )
    cluster = Cluster(quotas=[only_gold], n1=1)
    waiting = WaitingPods(cluster.decisions)
    assert codes(cluster.prefilter("a", claim("c"))) == ["DeviceQuotaTooSmall"]
    waiting.note_answer("a", [], cluster.now)
    assert waiting.wake(1.0).woken == ()
    cluster.state.ledger.quotas.set_labels("default", {"tier": "gold"})
    assert waiting.wake(2.0).woken == ("a",)


def test_a_pod_over_quota_asks_for_victims_once_its_quota_has_room_without_a_free_device() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=1)
    waiting = WaitingPods(cluster.decisions)
    foreign = claim("by hand", allocation=allocation_on("elsewhere", 0), pods=["x"])
    cluster.add_claim(foreign)
    cluster.schedule("low", claim("c-low"))
    cluster.write("low")
    assert codes(cluster.prefilter("high", claim("c-high"), priority=9)) == ["DeviceQuotaUsedUp"]
    waiting.note_answer("high", [], cluster.now)
    assert waiting.wake(1.0).woken == ()
    cluster.state.apply(as_claim(foreign), None)
    assert waiting.wake(2.0).unfinished
    assert waiting.wake(2.1).woken == ("high",)
    assert waiting.wake(99.0).woken == ()


def test_a_pod_does_not_ask_each_time_that_others_take_turns_with_the_room_of_its_quota() -> None:
    """Another filter refuses the node of the others, so that they give the room back."""
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=1)
    waiting = WaitingPods(cluster.decisions)
    low = claim("c-low", allocation=allocation_on("n1", 0), pods=["low"], namespace="other")
    cluster.add_claim(low)
    times = []
    for turn in range(40):
        foreign = claim(f"x-{turn}", allocation=allocation_on("elsewhere", 0), pods=["x"])
        cluster.add_claim(foreign)
        cluster.prefilter("high", claim("c-high"), priority=9)
        waiting.note_answer("high", [], cluster.now)
        cluster.state.apply(as_claim(foreign), None)
        while True:
            woken = waiting.wake(1.0 + turn / 10)
            times += [turn] * bool(woken.woken)
            if not woken.unfinished:
                break
    assert times == [0, 10, 20, 30]


@pytest.mark.parametrize("used_up", ["before their answers", "before they ask for victims"])
def test_pods_ask_for_victims_at_once_when_their_quota_has_room_for_them(used_up: str) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=1)
    waiting = WaitingPods(cluster.decisions)
    foreign = claim("by hand", allocation=allocation_on("elsewhere", 0), pods=["x"])
    low = claim("c-low", allocation=allocation_on("n1", 0), pods=["low"], namespace="other")
    cluster.add_claim(low)
    # Both ask the same, so what is found for the first one is known of the second one.
    pods = ("first", "second")
    if used_up == "before their answers":
        cluster.add_claim(foreign)
    for uid in pods:
        cluster.add(pod(uid, f"c-{uid}"))
        cluster.prefilter(uid, claim(f"c-{uid}"), priority=9)
        waiting.note_answer(uid, [], cluster.now)
    cluster.add_claim(foreign)
    for uid in pods:
        request = PreemptRequest(pod_uid=uid, nodes=(PreemptionNode(node="n1"),))
        assert "quota q" in cluster.decisions.preempt(request, cluster.now).message
        waiting.note_preemption(uid, refused=True)
    # Others end, which helps none of them: their pauses grow.
    woken = []
    for at in range(1, 9):
        gone = pod(f"gone-{at}", f"c-gone-{at}", node="n2")
        cluster.add(gone)
        cluster.state.apply(gone, None)
        woken += waiting.wake(100.0 * at).woken
    assert len(woken) == 16
    assert waiting.wake(801.0).woken == ()
    cluster.state.apply(as_claim(foreign), None)
    woken = [uid for at in (802.0, 802.1, 802.2) for uid in waiting.wake(at).woken]
    assert sorted(woken) == sorted(pods)


def test_pods_whose_devices_had_too_much_ask_for_victims_when_they_leave_the_quota() -> None:
    fifty = {MEMORY: from_json("50Gi")}
    quota = DeviceQuota("q", lambda _, labels: "left" not in labels, {}, fifty)
    cluster = Cluster(gpu_slice("n1", 1, capacity=BIG), quotas=[quota], n1=0)
    cluster.state.ledger.quotas.set_labels("other", {"left": ""})
    waiting = WaitingPods(cluster.decisions)
    for uid in ("first", "second"):
        cluster.add(pod(uid, f"c-{uid}"))
        reply = cluster.prefilter(uid, claim(f"c-{uid}"), priority=9)
        assert codes(reply) == ["DeviceQuotaUsedUp"]
        waiting.note_answer(uid, [], cluster.now)
    cluster.schedule("low", claim("c-low", namespace="other"), namespace="other")
    assert waiting.wake(1.0).woken == ()
    cluster.state.ledger.quotas.set_labels("default", {"left": ""})
    woken = [uid for at in (2.0, 2.1, 2.2) for uid in waiting.wake(at).woken]
    assert sorted(woken) == ["first", "second"]


def test_a_pod_that_a_quota_refused_victims_asks_again_when_it_leaves_the_quota() -> None:
    """Only the search for victims says that devices have too much, because none are free."""
    fifty = {MEMORY: from_json("50Gi")}
    quota = DeviceQuota("q", lambda _, labels: "left" not in labels, {}, fifty)
    cluster = Cluster(gpu_slice("n1", 1, capacity=BIG), quotas=[quota], n1=0)
    quotas = cluster.state.ledger.quotas
    quotas.set_labels("other", {"left": ""})
    quotas.set_labels("default", {})
    waiting = WaitingPods(cluster.decisions)
    cluster.schedule("low", claim("c-low", namespace="other"), namespace="other")
    cluster.write("low")
    cluster.add(pod("low", "c-low", node="n1", namespace="other"), pod("high", "c-high"))
    waiting.wake(0.1)
    reply = cluster.prefilter("high", claim("c-high"), priority=9)
    waiting.note_answer("high", [], cluster.now, complete=reply.complete)
    node = PreemptionNode(node="n1", pods=(PotentialVictim(uid="low", priority=0),))
    asked = PreemptRequest(pod_uid="high", nodes=(node,))
    assert "quota q" in cluster.decisions.preempt(asked, cluster.now).message
    waiting.note_preemption("high", refused=True)
    quotas.set_labels("default", {"a": "label that no quota selects"})
    assert waiting.wake(1.0).woken == ()
    quotas.set_labels("default", {"left": ""})
    assert waiting.wake(2.0).woken == ("high",)
    assert cluster.decisions.preempt(asked, cluster.now).victims == ("low",)


def test_a_gang_over_quota_asks_for_victims_once_when_its_quota_has_room() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(2)})
    cluster = Cluster(quotas=[own], n1=2)
    for number in range(2):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c-v{number}", allocation=held, pods=["v"], namespace="other"))
    foreign = claim("by hand", allocation=allocation_on("elsewhere", 0), pods=["x"])
    waiting, members = WaitingPods(cluster.decisions), ("m0", "m1")
    for uid in members:
        cluster.add(pod(uid, f"c-{uid}"))
    cluster.add_claim(foreign)
    assert codes(cluster.ask_group("default/g", *members, priority=9)) == ["DeviceQuotaUsedUp"]
    for uid in members:
        waiting.note_answer(uid, [], cluster.now)
    assert waiting.wake(1.0).woken == ()
    cluster.state.apply(as_claim(foreign), None)
    woken = [uid for at in (2.0, 2.1, 60.0, 60.1) for uid in waiting.wake(at).woken]
    assert woken == ["m0"]


def test_a_pod_for_which_devices_are_kept_has_room_where_one_that_asks_the_same_has_none() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.add_claim(
        claim("c-low", allocation=allocation_on("n1", 0), pods=["low"], namespace="other")
    )
    node = PreemptionNode(node="n1", pods=(PotentialVictim(uid="low", priority=0),))
    for uid in ("first", "second", "first"):
        reply = cluster.prefilter(uid, claim(f"c-{uid}"), priority=9)
        waiting.note_answer(uid, [], cluster.now, complete=reply.complete)
        if uid == "first" and reply.preemptible:
            asked = PreemptRequest(pod_uid=uid, nodes=(node,))
            assert cluster.decisions.preempt(asked, cluster.now).victims == ("low",)
    exceeds = cluster.decisions.promises.exceeds_quota
    first, second = map(cluster.decisions.promises.request_key, ("first", "second"))
    assert first is not None
    assert second is not None
    assert (exceeds(first), exceeds(second)) == (False, True)


def test_equal_pods_that_wait_in_a_quota_search_once_for_what_is_released() -> None:
    """More of them wait than pods are tried in one turn."""
    cluster = Cluster(quotas=[limit({DEVICES: "99"})], n1=40)
    waiting, waiters = WaitingPods(cluster.decisions), [f"p{number}" for number in range(40)]
    times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 600}
    for number in range(40):
        allocation = allocation_on("n1", number)
        cluster.add_claim(claim(f"of-{number}", allocation=allocation, pods=[f"v{number}"]))
        cluster.add(pod(f"v{number}", f"of-{number}", node="n1", **times))
    for uid in waiters:
        assert codes(cluster.prefilter(uid, claim(f"c-{uid}")))[0] == "DevicesBeingReleased"
        waiting.note_answer(uid, [], cluster.now)
    while waiting.wake(1.0).unfinished:
        pass
    assert used(cluster) == ["80/99"]
    cluster.delete_claim("of-0")
    turn = waiting.wake(2.0)
    assert turn.woken == ("p0",)
    assert not turn.unfinished


@every_row(
    ("devices", "held", "preemptible", "victims"),
    [
        # All devices of the second node are one, and its pod can go.
        (1, 1, True, ("v",)),
        # They are more than the quota has room for: without the pod, or already.
        (2, 1, True, ()),
        (2, 0, False, ()),
    ],
)
def test_a_pod_that_exceeds_its_quota_on_one_node_preempts_on_another_one(
    devices: int, held: int, *, preemptible: bool, victims: tuple[str, ...]
) -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(1)})
    cluster = Cluster(quotas=[own], n1=2, n2=devices)
    if held:
        allocation = allocation_on("n2", 0)
        cluster.add_claim(claim("c-v", allocation=allocation, pods=["v"], namespace="other"))
        cluster.add(pod("v", "c-v", node="n2", namespace="other"))
    reply = cluster.prefilter("high", claim("c", requests=ALL), priority=9)
    assert codes(reply)[0] == "DeviceQuotaUsedUp"
    assert reply.preemptible is preemptible
    listed = (PotentialVictim(uid="v", priority=0),)
    node = PreemptionNode(node="n2", pods=listed, running=("v",))
    request = PreemptRequest(pod_uid="high", nodes=(node,))
    if preemptible:
        assert cluster.decisions.preempt(request, cluster.now).victims == victims


@every_row(
    ("memory", "victims"),
    [
        # What is kept for the first pod has 80Gi.
        ("160Gi", [("v0",), ("v1",)]),
        ("120Gi", [("v0",), ()]),
    ],
)
def test_two_pods_do_not_preempt_for_the_memory_of_one(
    memory: str, victims: list[tuple[str, ...]]
) -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {MEMORY: from_json(memory)})
    nodes = ("n0", "n1")
    gpus = [gpu_slice(node, 1, capacity=BIG) for node in nodes]
    cluster = Cluster(*gpus, quotas=[own], **dict.fromkeys(nodes, 0))
    chosen = []
    for number, node in enumerate(nodes):
        held, victim = allocation_on(node, 0), f"v{number}"
        cluster.add_claim(claim(f"c-{node}", allocation=held, pods=[victim], namespace="other"))
        cluster.add(pod(victim, f"c-{node}", node=node, namespace="other"))
    for number, node in enumerate(nodes):
        cluster.prefilter(f"p{number}", claim(f"c-p{number}"), priority=9)
        listed = (PotentialVictim(uid=f"v{number}", priority=0),)
        on = PreemptionNode(node=node, pods=listed, running=(f"v{number}",))
        request = PreemptRequest(pod_uid=f"p{number}", nodes=(on,))
        chosen.append(cluster.decisions.preempt(request, cluster.now).victims)
    assert chosen == victims
