"""Members of a gang that are bound although the scheduler did not tell of them: they count."""

from collections.abc import Sequence

from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import GroupReference
from drawbridge.dra.device_quotas import DeviceQuota
from drawbridge.dra.quantity import Quantity
from drawbridge.pod_groups import COSCHEDULING_LABEL
from tests.allocator.clusters import (
    Cluster,
    allocation_on,
    ask_group,
    claim,
    codes,
    members_of,
    pod,
)
from tests.allocator.test_quotas import DEVICES

KEY = f"default/{COSCHEDULING_LABEL}=g"
LABELS = {COSCHEDULING_LABEL: "g"}


def cluster_with_members(*waiting: str, free: int, quotas: Sequence[DeviceQuota] = ()) -> Cluster:
    """Return a cluster in which member m0 has a device, and no watch has shown its node."""
    cluster = Cluster(quotas=quotas, n1=1 + free)
    cluster.add_claim(claim("c-m0", allocation=allocation_on("n1", 0), pods=["m0"], version=2))
    cluster.add(*(pod(uid, f"c-{uid}", labels=LABELS) for uid in ("m0", *waiting)))
    return cluster


def show_bound(cluster: Cluster, uid: str = "m0", priority: int = 0) -> None:
    """Show that a member has a node, which changes no device."""
    epoch = cluster.state.epoch()
    cluster.add(pod(uid, f"c-{uid}", node="n1", labels=LABELS, spec={"priority": priority}))
    assert cluster.state.epoch() == epoch


def test_a_member_counts_that_was_bound_before_the_scheduler_hears_of_it() -> None:
    cluster = cluster_with_members("m1", free=1)
    show_bound(cluster)
    assert cluster.ask_group(KEY, "m1", min_count=2).fit


def test_a_bound_member_counts_once() -> None:
    cluster = cluster_with_members("m1", free=1)
    show_bound(cluster)
    reply = cluster.ask_group(KEY, "m1", min_count=3, scheduled=1)
    assert reply.message == "2 of 3 members of the group exist"
    # The scheduler asks for it as well.
    cluster = cluster_with_members("m1", free=1)
    show_bound(cluster)
    reply = cluster.ask_group(KEY, "m1", "m0", min_count=3)
    assert reply.message == "2 of 3 members of the group exist"


def test_a_bound_member_of_another_gang_does_not_count() -> None:
    cluster = cluster_with_members(free=1)
    show_bound(cluster)
    cluster.add(pod("m1", "c-m1", labels={COSCHEDULING_LABEL: "other"}))
    reply = cluster.ask_group(f"default/{COSCHEDULING_LABEL}=other", "m1", min_count=2)
    assert reply.message == "1 of 2 members of the group exist"


def test_a_member_waits_no_longer_when_another_one_is_bound_about_which_nobody_asks() -> None:
    """The claim of m0 is being deleted, so that the scheduler does not ask for it as well."""
    cluster = cluster_with_members("m1", free=1)
    waiting = WaitingPods(cluster.decisions)
    assert not cluster.ask_group(KEY, "m1", min_count=2).fit
    waiting.note_answer("m1", [], 0.0)
    assert waiting.wake(2.0).woken == ()
    show_bound(cluster)
    assert waiting.wake(4.0).woken == ("m1",)
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1"]


def test_a_member_asks_for_victims_when_another_one_is_bound_about_which_nobody_asks() -> None:
    cluster = cluster_with_members("m1", free=1)
    waiting = WaitingPods(cluster.decisions)
    cluster.add_claim(claim("c-low", allocation=allocation_on("n1", 1), pods=["low"]))
    assert not cluster.ask_group(KEY, "m1", min_count=2, priority=9).group_preemptible
    waiting.note_answer("m1", [], 0.0)
    assert waiting.wake(2.0).woken == ()
    show_bound(cluster, priority=9)
    assert waiting.wake(4.0).unfinished
    assert waiting.wake(4.1).woken == ("m1",)


def test_a_member_over_quota_waits_no_longer_when_another_one_is_bound() -> None:
    quota = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(3)})
    cluster = cluster_with_members("m1", "m2", free=2, quotas=[quota])
    waiting = WaitingPods(cluster.decisions)
    other = claim("other", allocation=allocation_on("n1", 1), pods=["other"], namespace="other")
    cluster.add_claim(other)
    assert codes(cluster.ask_group(KEY, "m1", "m2", min_count=2)) == ["GangTooLarge"]
    for uid in ("m1", "m2"):
        waiting.note_answer(uid, [], 0.0)
    assert waiting.wake(2.0).woken == ()
    cluster.add_claim(claim("by hand", allocation=allocation_on("elsewhere", 0), pods=["x"]))
    cluster.delete_claim("other")
    assert waiting.wake(3.0).woken == ()
    show_bound(cluster)
    assert waiting.wake(4.0).woken == ("m1",)


def test_a_search_that_was_cut_begins_again_when_fewer_members_are_needed() -> None:
    members = ("m1", "m2", "m3")
    cluster = cluster_with_members(*members, free=2)
    waiting = WaitingPods(cluster.decisions)
    group = GroupReference(key=KEY, min_count=3)
    request = replace(members_of(cluster, members), group=group)
    assert not ask_group(cluster.decisions, request, 0.0, lambda: True).complete
    for uid in members:
        waiting.note_answer(uid, [], 0.0, complete=False)
    show_bound(cluster)
    assert waiting.wake(2.0).woken == ("m1", "m2")
