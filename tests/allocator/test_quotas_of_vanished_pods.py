"""Device quotas and pods that vanish: what is kept for their containers stays charged."""

from collections.abc import Callable

import pytest

from allocator.decisions.waiting import WaitingPods
from allocator.state.caches import without_unused_parts
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import Pod
from tests.allocator.clusters import (
    Cluster,
    allocation_on,
    as_claim,
    claim,
    codes,
    gpu_slice,
    pod,
)
from tests.allocator.test_quotas import BIG, DEVICES, MEMORY, limit, used
from tests.tables import every_row

SECONDS = 30.0
GRACE = 600


def running(uid: str, phase: str = "Running", namespace: str = "default") -> Pod:
    spec = {"terminationGracePeriodSeconds": GRACE}
    plain = pod(uid, f"c-{uid}", node="n1", phase=phase, spec=spec, namespace=namespace)
    return without_unused_parts(plain)


def run_and_vanish(cluster: Cluster, uid: str, count: int = 1) -> None:
    """Start a pod and delete it with force: its claim is deleted with it."""
    assert cluster.schedule(uid, claim(f"c-{uid}", count)) == "n1"
    cluster.write(uid)
    cluster.state.apply(None, running(uid))
    cluster.state.apply(running(uid), None)
    cluster.delete_claim(f"c-{uid}")
    cluster.state.vanished.observe_time(cluster.now)


def end_in_time(cluster: Cluster) -> None:
    cluster.state.vanished.observe_time(cluster.now + GRACE + SECONDS)


def confirm_the_end(cluster: Cluster) -> None:
    cluster.state.apply(None, running("a", "Succeeded"))


def delete_the_node(cluster: Cluster) -> None:
    cluster.state.apply(Node("n1", {"name": "n1"}), None)
    cluster.state.vanished.observe_time(cluster.now)


@every_row("end", [end_in_time, confirm_the_end, delete_the_node])
def test_a_pod_beyond_the_quota_waits_until_a_vanished_pod_has_ended(
    end: Callable[[Cluster], None],
) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], vanished_seconds=SECONDS, n1=4, n2=4)
    run_and_vanish(cluster, "a")
    assert used(cluster) == ["1/1"]
    waiting = WaitingPods(cluster.decisions)
    reply = cluster.prefilter("b", claim("c-b"))
    assert codes(reply) == ["DeviceQuotaUsedUp"]
    assert reply.message == (
        "quota q: namespace default uses 1 of 1 device of class gpu, of these 1 until containers "
        "of vanished pods have ended, and the pod needs 1"
    )
    waiting.note_answer("b", [], cluster.now, complete=reply.complete)
    cluster.state.vanished.observe_time(cluster.now + GRACE + SECONDS - 1)
    assert waiting.wake(1.0).woken == ()
    end(cluster)
    assert used(cluster) == ["0/1"]
    assert waiting.wake(2.0).woken == ("b",)


def test_a_device_counts_its_memory_also_if_its_driver_was_away_when_the_pod_vanished() -> None:
    of_node, other = gpu_slice("n1", 1, capacity=BIG), gpu_slice("n2", 1, capacity=BIG)
    quotas = [limit({MEMORY: "100Gi", DEVICES: "9"})]
    cluster = Cluster(of_node, other, quotas=quotas, vanished_seconds=SECONDS, n1=0, n2=0)
    assert cluster.schedule("a", claim("c-a")) == "n1"
    cluster.write("a")
    cluster.state.apply(None, running("a"))
    cluster.state.apply(of_node, None)
    cluster.state.apply(running("a"), None)
    cluster.delete_claim("c-a")
    cluster.state.vanished.observe_time(cluster.now)
    assert used(cluster) == ["80Gi/100Gi", "1/9"]
    assert cluster.nodes("b", claim("c-b")) == []
    cluster.state.apply(None, of_node)
    assert used(cluster) == ["80Gi/100Gi", "1/9"]
    end_in_time(cluster)
    assert used(cluster) == ["0/100Gi", "0/9"]


def test_forced_deletions_hold_no_more_devices_than_the_quota() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "3"})], vanished_seconds=SECONDS, n1=8)
    run_and_vanish(cluster, "a", 2)
    cluster.schedule("b", claim("c-b"))
    assert used(cluster) == ["3/3"]
    assert codes(cluster.prefilter("c", claim("c-c"))) == ["DeviceQuotaUsedUp"]
    assert cluster.nodes("d", claim("c-d", namespace="other"), namespace="other") == ["n1"]


def test_a_quota_of_several_namespaces_together_counts_vanished_pods_of_all() -> None:
    quota = limit({DEVICES: "1"}, together=True)
    cluster = Cluster(quotas=[quota], vanished_seconds=SECONDS, n1=4)
    run_and_vanish(cluster, "a")
    reply = cluster.prefilter("b", claim("c-b", namespace="other"), namespace="other")
    assert reply.message == (
        "quota q: the selected namespaces use 1 of 1 device of class gpu, of these 1 until "
        "containers of vanished pods have ended, and the pod needs 1"
    )


def test_the_memory_of_whole_devices_stays_charged_as_they_publish_it() -> None:
    gpus = gpu_slice("n1", 4, capacity=BIG)
    cluster = Cluster(gpus, quotas=[limit({MEMORY: "100Gi"})], vanished_seconds=SECONDS, n1=0)
    run_and_vanish(cluster, "a")
    assert used(cluster) == ["80Gi/100Gi"]
    later = gpu_slice("n1", 4, generation=2, capacity={"memory": {"value": "40Gi"}})
    cluster.state.apply(gpus, later)
    assert used(cluster) == ["40Gi/100Gi"]


def test_a_claim_that_pods_use_one_after_the_other_is_charged_for_each_that_vanished() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], vanished_seconds=SECONDS, n1=4)
    for number in range(2):
        uid, version = f"p{number}", 10 * number + 1
        held = claim("c", version=version, allocation=allocation_on("n1", number), pods=[uid])
        cluster.state.apply(None, running(uid))
        cluster.add_claim(held)
        cluster.state.apply(running(uid), None)
        cluster.add_claim(claim("c", version=version + 1))
    assert used(cluster) == ["2/2"]
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1"]
    assert codes(cluster.prefilter("b", claim("c-b"))) == ["DeviceQuotaUsedUp"]
    end_in_time(cluster)
    assert used(cluster) == ["2/2"]  # the time of what is still kept begins now
    cluster.state.vanished.observe_time(2 * (GRACE + SECONDS))
    assert (used(cluster), cluster.held()) == (["0/2"], [])


def test_a_claim_of_others_too_is_charged_once_before_and_after_its_release() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], vanished_seconds=SECONDS, n1=4)
    both = claim("c", version=1, allocation=allocation_on("n1", 0), pods=["a", "b"])
    for each in (running("a"), running("b"), as_claim(both)):
        cluster.state.apply(None, each)
    cluster.state.apply(running("a"), None)
    cluster.add_claim(claim("c", version=2, allocation=allocation_on("n1", 0), pods=["b"]))
    assert used(cluster) == ["1/2"]
    cluster.state.apply(running("b"), running("b", "Succeeded"))
    cluster.add_claim(claim("c", version=3))
    assert used(cluster) == ["1/2"]


@pytest.mark.parametrize("quota", ["1", "4"])
def test_new_decisions_charge_what_the_former_ones_kept_by_their_quotas(quota: str) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], vanished_seconds=SECONDS, n1=4)
    run_and_vanish(cluster, "a")
    again = Cluster(quotas=[limit({DEVICES: quota})], vanished_seconds=SECONDS, n1=4)
    again.state.vanished.take_over(cluster.state.vanished)
    assert used(again) == [f"1/{quota}"]
    end_in_time(again)
    assert used(again) == [f"0/{quota}"]


def test_a_new_process_charges_what_it_keeps_for_a_pod_that_it_has_never_seen() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], vanished_seconds=SECONDS, n1=4)
    cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["unseen"]))
    cluster.delete_claim("c")
    assert used(cluster) == ["1/1"]
    assert codes(cluster.prefilter("b", claim("c-b"))) == ["DeviceQuotaUsedUp"]


def test_a_plan_counts_what_is_kept_for_vanished_pods() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], vanished_seconds=SECONDS, n1=4)
    run_and_vanish(cluster, "a")
    copy = cluster.state.ledger.without_claims()
    assert [f"{each.used}" for each in copy.quotas.lines("default")] == ["1"]


def test_a_pod_whose_end_was_seen_is_charged_nothing() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], vanished_seconds=SECONDS, n1=4)
    cluster.schedule("a", claim("c-a"))
    cluster.write("a")
    cluster.state.apply(None, running("a"))
    cluster.state.apply(running("a"), running("a", "Succeeded"))
    cluster.delete_claim("c-a")
    assert used(cluster) == ["0/1"]
    assert cluster.nodes("b", claim("c-b")) == ["n1"]
