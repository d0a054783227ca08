"""Reservations: what they hold, who shares them, when they end and what is written."""

import msgspec
import pytest
from msgspec.structs import replace

from allocator.decisions.shortlist import FittingNode
from allocator.scheduler.protocol import GroupReference, PreFilterReply
from allocator.state.reserved_pods import (
    ANSWERED_SECONDS,
    PROMISE_SECONDS,
    RESERVATION_SECONDS,
)
from drawbridge.dra.allocation import Allocation, to_json
from drawbridge.dra.decode import decode_quantity
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.audit import audit
from drawbridge.ledger.ledger import ReservationRefusal
from drawbridge.solver.answers import Solution
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    Plain,
    allocation_on,
    as_claim,
    claim,
    gpu_slice,
    pod,
)

# --- reservations ---


def test_reserved_devices_are_not_free_for_others() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.schedule("p", claim("c"))
    assert cluster.held() == ["n1/gpu-0"]
    assert cluster.nodes("q", claim("d")) == ["n2"]


def test_a_reservation_is_what_the_write_path_writes() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    reservation = cluster.decisions.reservations.find("p")
    assert reservation is not None
    (reserved,) = reservation.claims
    assert (reservation.node, reserved.name, reserved.uid) == ("n1", "c", "c")
    assert reserved.allocation is not None
    assert to_json(reserved.allocation) == allocation_on("n1", 0)
    assert reserved.mark.startswith('{"allocator":"drawbridge"')


def test_an_allocated_claim_needs_only_a_consumer() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c", allocation=allocation_on("n1", 0)))
    reservation = cluster.decisions.reservations.find("p")
    assert reservation is not None
    assert reservation.claims[0].allocation is None


def test_reserve_twice_is_one_reservation() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    first = cluster.decisions.reservations.find("p")
    assert not cluster.reserve("p", "n1")
    assert cluster.decisions.reservations.find("p") is first


def test_reserve_on_another_node_moves_the_reservation() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.schedule("p", claim("c"))
    assert not cluster.reserve("p", "n2")
    assert cluster.held() == ["n2/gpu-0"]


def test_reserve_is_refused_if_the_devices_are_gone_meanwhile() -> None:
    cluster = Cluster(n1=1)
    cluster.prefilter("p", claim("c"))
    cluster.schedule("q", claim("d"))
    assert "node n1 are not free any more" in cluster.reserve("p", "n1")
    assert cluster.decisions.reservations.find("p") is None


def test_reserve_of_an_unknown_pod_is_refused() -> None:
    assert "restarted" in Cluster(n1=1).reserve("p", "n1")


def test_reserve_is_refused_if_a_claim_is_deleted_meanwhile() -> None:
    cluster = Cluster(n1=1)
    cluster.prefilter("p", claim("c"))
    cluster.delete_claim("c")
    assert "deleted" in cluster.reserve("p", "n1")


def test_unreserve_frees_the_devices() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.decisions.unreserve("p")
    cluster.decisions.unreserve("p")
    assert cluster.held() == []


def test_a_reservation_expires() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    assert cluster.decisions.expire(RESERVATION_SECONDS - 1) == ()
    assert cluster.decisions.expire(RESERVATION_SECONDS) == ("p",)
    assert cluster.held() == []


def test_the_same_pod_can_ask_again_and_gets_its_devices() -> None:
    cluster = Cluster(n1=1, n2=1)
    node = cluster.schedule("p", claim("c"))
    assert cluster.prefilter("p", claim("c"), limit=1).fit[0].node == node
    assert cluster.held() == [f"{node}/gpu-0"]
    assert cluster.decisions.expire(PROMISE_SECONDS) == ("p",)


def test_a_promise_is_short_and_kept_while_the_pod_asks() -> None:
    cluster = Cluster(n1=1)
    cluster.prefilter("p", claim("c"))
    assert cluster.decisions.promises.make("p", 0.0).node == "n1"
    assert cluster.nodes("q", claim("d")) == []
    assert cluster.nodes("p", claim("c")) == ["n1"]
    assert cluster.nodes("q", claim("d")) == []
    assert cluster.decisions.expire(PROMISE_SECONDS) == ("p",)
    assert cluster.nodes("q", claim("d")) == ["n1"]


# --- shared claims ---


def test_pods_that_share_a_claim_get_one_reservation_on_one_node() -> None:
    cluster = Cluster(n1=1, n2=1)
    node = cluster.schedule("p", claim("c"))
    assert cluster.nodes("q", claim("c")) == [node]
    assert not cluster.reserve("q", node)
    reservations = [cluster.decisions.reservations.find(uid) for uid in ("p", "q")]
    first, second = (each.claims[0].allocation for each in reservations if each is not None)
    assert first is not None
    assert first == second
    assert to_json(first) == allocation_on(node, 0)
    assert len(cluster.held()) == 1


def test_a_shared_reservation_ends_with_its_last_pod() -> None:
    cluster = Cluster(n1=1)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("c"))
    cluster.decisions.unreserve("p")
    assert len(cluster.held()) == 1
    cluster.decisions.unreserve("q")
    assert cluster.held() == []


def test_a_shared_claim_that_one_pod_wrote_needs_only_a_consumer_for_the_next() -> None:
    cluster = Cluster(n1=1)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("c"))
    cluster.write("p")
    cluster.decisions.unreserve("q")
    assert len(cluster.held()) == 1
    cluster.schedule("q", claim("c", version=1))
    reservation = cluster.decisions.reservations.find("q")
    assert reservation is not None
    assert reservation.claims[0].allocation is None


def test_a_shared_claim_that_is_deallocated_meanwhile_is_not_written_again() -> None:
    cluster = Cluster(n1=1)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("shared"))
    cluster.write("p")
    cluster.add_claim(claim("shared", version=3))
    cluster.schedule("other", claim("c"))
    assert "are not reserved any more" in cluster.decisions.reservations.begin_write("q")
    assert cluster.decisions.reservations.find("q") is None


def test_a_shared_claim_that_is_reserved_again_with_other_devices_is_not_written() -> None:
    cluster = Cluster(n1=2)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("shared"))
    cluster.write("p")
    cluster.add_claim(claim("shared", version=3))
    cluster.schedule("other", claim("c"))
    cluster.schedule("r", claim("shared", version=3))
    assert "are not reserved any more" in cluster.decisions.reservations.begin_write("q")
    assert not cluster.decisions.reservations.begin_write("r")


def allocate_and_take_back(cluster: Cluster) -> None:
    """Allocate the shared claim for a pod that cannot be bound then, beside one that waits."""
    reservations = cluster.decisions.reservations
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("shared"))
    assert not reservations.begin_write("p")
    reservation = reservations.find("p")
    assert reservation is not None
    allocation = to_json(reservation.claims[0].allocation)
    cluster.add_claim(claim("shared", version=2, allocation=allocation, pods=["p"]))
    reservations.end_write("p", written=False)
    cluster.add_claim(claim("shared", version=3))


def test_a_share_whose_allocation_was_taken_back_is_not_reserved_again_beside_another() -> None:
    cluster = cluster_with_shares()
    allocate_and_take_back(cluster)
    cluster.schedule("other", claim("c"))
    assert cluster.nodes("r", claim("shared", version=3)) == []
    assert [*cluster.state.ledger.reservations] == ["c"]


def cluster_with_shares() -> Cluster:
    """Return a device of 4Gi that claims share; one that does not say how much gets all of it."""
    cluster, memory = Cluster(n1=1), {"memory": {"value": "4Gi"}}
    cluster.add(gpu_slice("n1", 1, generation=2, capacity=memory, allowMultipleAllocations=True))
    return cluster


def share_of(amount: str) -> Plain:
    """Return the allocation of a share."""
    allocation = allocation_on("n1", 0)
    share = {"shareID": f"share-of-{amount}", "consumedCapacity": {"memory": amount}}
    allocation["devices"]["results"][0] |= share
    return allocation


def test_a_share_that_was_found_before_another_one_was_reserved_is_not_reserved() -> None:
    cluster = cluster_with_shares()
    reservations, ledger = cluster.decisions.reservations, cluster.state.ledger
    shares = {"p": "3Gi", "q": "2Gi", "r": "1Gi"}
    for uid in shares:
        assert cluster.nodes(uid, claim(f"of-{uid}")) == ["n1"]
    refusals = []
    for uid, amount in shares.items():
        request = cluster.decisions.requests.find(uid)
        assert request is not None
        share = msgspec.convert(share_of(amount), Allocation, dec_hook=decode_quantity)
        fitting = FittingNode("n1", (0, 0), Solution("n1", (share,)))
        search = cluster.decisions.requests.search(request)
        refusals.append(reservations.reserve(request, fitting, search, 0.0, promised=False))
    assert refusals == [None, ReservationRefusal.HELD, None]
    assert [*ledger.reservations] == ["of-p", "of-r"]
    assert reservations.find("q") is None


def test_a_share_that_exceeds_the_device_beside_one_of_others_is_not_written() -> None:
    cluster = cluster_with_shares()
    cluster.schedule("p", claim("c"))
    cluster.add_claim(claim("theirs", allocation=share_of("1Gi"), pods=["other"]))
    problem = cluster.decisions.reservations.begin_write("p")
    assert problem == (
        "cannot write the allocation: claims consume 5Gi of memory, but the device has 4Gi"
    )
    assert cluster.decisions.reservations.find("p") is None


def test_a_claim_whose_allocation_was_taken_back_gets_other_devices() -> None:
    cluster = Cluster(n1=2)
    allocate_and_take_back(cluster)
    cluster.schedule("other", claim("c"))
    cluster.schedule("r", claim("shared", version=3))
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1"]
    cluster.decisions.unreserve("r")
    assert cluster.held() == ["n1/gpu-0"]
    cluster.decisions.unreserve("q")
    assert cluster.held() == ["n1/gpu-0"]


def test_a_claim_that_gets_the_same_devices_again_keeps_them_while_one_pod_is_bound() -> None:
    cluster = Cluster(n1=1)
    allocate_and_take_back(cluster)
    cluster.schedule("r", claim("shared", version=3))
    assert not cluster.decisions.reservations.begin_write("q")
    cluster.decisions.unreserve("r")
    assert cluster.nodes("other", claim("c")) == []


def test_a_shared_claim_that_is_released_during_a_write_gets_devices_that_are_free() -> None:
    cluster = Cluster(n1=2)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("shared"))
        assert not cluster.decisions.reservations.begin_write(uid)
    written = claim("shared", version=2, allocation=allocation_on("n1", 0), pods=["p"])
    cluster.state.observe_claim(as_claim(written))
    cluster.add_claim(claim("shared", version=3))
    cluster.schedule("other", claim("c", allocation=allocation_on("n1", 0)))
    cluster.schedule("r", claim("shared", version=3))
    assert cluster.held() == ["n1/gpu-0", "n1/gpu-1"]
    reservation = cluster.decisions.reservations.find("q")
    assert reservation is not None
    assert not cluster.decisions.reservations.keeps(reservation.claims[0])
    cluster.decisions.unreserve("r")
    assert cluster.held() == ["n1/gpu-0"]


def test_a_failed_write_keeps_the_claim_for_the_other_pod() -> None:
    cluster = Cluster(n1=1)
    for uid in ("p", "q"):
        cluster.schedule(uid, claim("c"))
    assert not cluster.decisions.reservations.begin_write("p")
    cluster.decisions.reservations.end_write("p", written=False)
    assert len(cluster.held()) == 1
    assert not cluster.decisions.reservations.begin_write("q")
    cluster.decisions.reservations.end_write("q", written=False)
    assert cluster.held() == []


# --- writing ---


def test_a_written_allocation_stays_until_the_claim_is_deallocated() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.write("p")
    assert cluster.decisions.reservations.find("p") is None
    assert cluster.decisions.expire(1e9) == ()
    assert cluster.held() == ["n1/gpu-0"]
    assert audit(cluster.state.ledger, cluster.state.planner.world()) == ()


def test_a_reservation_that_is_being_written_is_not_taken_back() -> None:
    cluster = Cluster(n1=1, n2=1)
    node = cluster.schedule("p", claim("c"))
    assert not cluster.decisions.reservations.begin_write("p")
    cluster.decisions.unreserve("p")
    assert cluster.decisions.expire(1e9) == ()
    assert cluster.nodes("p", claim("c")) == [node]
    other = ({"n1", "n2"} - {node}).pop()
    assert "being bound" in cluster.reserve("p", other)
    assert not cluster.decisions.reservations.begin_write("p")


def test_a_failed_write_frees_the_devices() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    assert not cluster.decisions.reservations.begin_write("p")
    cluster.decisions.reservations.end_write("p", written=False)
    assert cluster.held() == []


def test_a_failed_write_that_is_undone_late_leaves_a_later_reservation_alone() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    assert not cluster.decisions.reservations.begin_write("p")
    cluster.decisions.reservations.end_write("p", written=False)
    cluster.schedule("p", claim("c"))
    cluster.decisions.reservations.end_write("p", written=False)
    assert cluster.held() == ["n1/gpu-0"]


def test_a_write_without_a_reservation_is_refused() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.decisions.expire(RESERVATION_SECONDS)
    assert "expired" in cluster.decisions.reservations.begin_write("p")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (gpu_slice("n1", 0, generation=2), "no longer published"),
        (gpu_slice("n1", 1, taints=[{"key": "sick", "effect": "NoSchedule"}]), "taint sick"),
    ],
)
def test_a_device_that_is_lost_or_tainted_is_not_written(change: object, message: str) -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.state.apply(gpu_slice("n1", 1), change)  # type: ignore[arg-type]  # a slice
    assert message in cluster.decisions.reservations.begin_write("p")
    assert cluster.held() == []


def test_a_pool_that_goes_to_others_is_not_written_before_the_planner_knows() -> None:
    given_back = set[PoolID]()
    cluster = Cluster(n1=1, owns=lambda pool, *_: pool not in given_back)
    cluster.schedule("p", claim("c"))
    given_back.add(PoolID(DRIVER, "n1"))
    assert "another scheduler owns it" in cluster.decisions.reservations.begin_write("p")
    assert cluster.held() == []


def test_a_pool_that_is_published_in_halves_is_not_written() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    half = gpu_slice("n1", 1, generation=2)
    half = type(half)(
        **{name: getattr(half, name) for name in half.__struct_fields__} | {"slice_count": 2}
    )
    cluster.state.apply(gpu_slice("n1", 1), half)
    assert "updating the pool" in cluster.decisions.reservations.begin_write("p")


def test_a_claim_that_is_deleted_before_the_write_is_not_written() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    cluster.delete_claim("c")
    assert cluster.decisions.reservations.begin_write("p") == "claim default/c was deleted"
    assert cluster.held() == []


def test_a_new_term_forgets_all_reservations() -> None:
    cluster = Cluster(n1=2)
    cluster.schedule("p", claim("c"))
    cluster.schedule("q", claim("d"))
    assert not cluster.decisions.reservations.begin_write("q")
    cluster.decisions.begin_term()
    assert cluster.held() == []
    assert not cluster.decisions.reservations.is_reserved("c")


def test_claims_of_a_pod_are_known_after_a_restart() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["p"]))
    cluster.add(pod("p", "c"))
    assert [each.metadata.uid for each in cluster.decisions.requests.claims_of("p")] == ["c"]


def test_a_claim_that_its_pod_does_not_name_any_more_is_one_of_its_claims() -> None:
    """It was allocated before the pod got another name from the controller that makes claims."""
    cluster = Cluster(n1=2)
    cluster.schedule("p", claim("first"))
    cluster.write("p")
    cluster.add(pod("p", "second"))
    cluster.schedule("p", claim("second"))
    uids = [each.metadata.uid for each in cluster.decisions.requests.claims_of("p")]
    assert uids == ["second", "first"]


def test_a_newer_claim_of_another_scheduler_takes_its_devices() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    foreign = claim("x", version=9, allocation=allocation_on("n1", 0), pods=["other"])
    cluster.state.observe_claim(as_claim(foreign))
    assert "another claim holds" in cluster.decisions.reservations.begin_write("p")


# --- reservations with the answer ---


def ask(cluster: Cluster, uid: str) -> PreFilterReply:
    request = replace(cluster.request(uid, claim(f"of-{uid}")), reserve=True)
    return cluster.decisions.prefilter(request, cluster.now)


def test_devices_of_the_best_node_are_reserved_with_the_answer() -> None:
    cluster = Cluster(n1=1, n2=1)
    reply = ask(cluster, "p")
    assert reply.reserved_on == reply.fit[0].node
    assert cluster.held() == [f"{reply.reserved_on}/gpu-0"]
    (other,) = {"n1", "n2"} - {reply.reserved_on}
    assert cluster.nodes("q", claim("of-q")) == [other]


def test_a_reservation_with_the_answer_moves_to_the_node_that_is_selected() -> None:
    cluster = Cluster(n1=1, n2=1)
    (other,) = {"n1", "n2"} - {ask(cluster, "p").reserved_on}
    assert not cluster.reserve("p", other)
    assert cluster.held() == [f"{other}/gpu-0"]


def test_a_reservation_with_the_answer_ends_soon_unless_the_pod_is_held() -> None:
    cluster = Cluster(n1=1, n2=1)
    for uid in ("p", "q"):
        assert ask(cluster, uid).reserved_on
    cluster.decisions.reservations.renew(("q",), ANSWERED_SECONDS / 2)
    assert cluster.decisions.expire(ANSWERED_SECONDS) == ("p",)


def test_a_woken_pod_that_asks_again_has_its_promised_devices_reserved() -> None:
    cluster = Cluster(n1=1)
    cluster.prefilter("p", claim("of-p"))
    assert cluster.decisions.promises.make("p", cluster.now).node == "n1"
    assert cluster.decisions.reservations.is_promised("p")
    assert ask(cluster, "p").reserved_on == "n1"
    assert not cluster.decisions.reservations.is_promised("p")


def test_nothing_is_reserved_for_a_plugin_that_does_not_ask_for_it() -> None:
    cluster = Cluster(n1=1)
    assert not cluster.prefilter("p", claim("of-p")).reserved_on
    assert cluster.held() == []


def test_nothing_is_reserved_with_the_answer_for_a_member_of_a_group() -> None:
    cluster = Cluster(n1=1)
    group = GroupReference(key="default/g", min_count=1)
    request = replace(cluster.request("p", claim("of-p")), reserve=True, group=group)
    assert not cluster.decisions.prefilter(request, cluster.now).reserved_on
