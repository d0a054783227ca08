"""Devices that become free without the end of a pod: who waits can have victims beside them."""

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import PotentialVictim, PreemptionNode, PreemptRequest
from tests.allocator.clusters import Cluster, allocation_on, as_claim, claim, pod
from tests.allocator.test_quotas_of_vanished_pods import SECONDS, end_in_time, run_and_vanish


def test_a_pod_that_was_refused_victims_asks_again_when_somebody_releases_a_claim() -> None:
    """It needs a device of a claim that no pod uses, and one that it can get by an eviction."""
    cluster = Cluster(n1=2)
    held = claim("others", allocation=allocation_on("n1", 0), version=5)
    cluster.add_claim(held)
    cluster.add_claim(claim("c-low", allocation=allocation_on("n1", 1), pods=["low"]))
    cluster.add(pod("low", "c-low", node="n1"), pod("high", "c-high"))
    waiting = WaitingPods(cluster.decisions)
    waiting.wake(0.1)
    reply = cluster.prefilter("high", claim("c-high", 2), priority=9)
    waiting.note_answer("high", [], cluster.now, complete=reply.complete)
    node = PreemptionNode(node="n1", pods=(PotentialVictim(uid="low", priority=0),))
    asked = PreemptRequest(pod_uid="high", nodes=(node,))
    assert cluster.decisions.preempt(asked, cluster.now).victims == ()
    waiting.note_preemption("high", refused=True)
    assert waiting.wake(1.0).woken == ()
    cluster.state.apply(as_claim(held), as_claim(claim("others", version=6)))
    assert waiting.wake(2.0).woken == ("high",)
    assert cluster.decisions.preempt(asked, cluster.now).victims == ("low",)


def test_what_is_kept_for_a_vanished_pod_becomes_free_at_its_end() -> None:
    """The pods that can be evicted can have devices of other pools."""
    cluster = Cluster(vanished_seconds=SECONDS, n1=1)
    run_and_vanish(cluster, "a")
    assert [*cluster.state.take_users_beside()] == []
    assert cluster.state.take_freed()  # its claim was released
    assert not cluster.state.take_freed()
    end_in_time(cluster)
    assert [*cluster.state.take_users_beside()] == []
    assert cluster.state.take_freed()
