"""Members of a gang that are deleted while they wait, or whose claims are."""

import pytest
from msgspec import Raw, json
from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import GroupMember, GroupReference, PreFilterGroupRequest
from drawbridge.agreement import allocator_codes
from tests.allocator.clusters import Cluster, ask_group, claim, codes, members_of, pod

KEY, MEMBERS = "default/g", ("m0", "m1", "m2")


def cluster_with_members() -> Cluster:
    """Return a cluster with devices for two of three members."""
    cluster = Cluster(n1=2)
    cluster.add(*(pod(uid, f"c-{uid}") for uid in MEMBERS))
    return cluster


def delete(cluster: Cluster, uid: str) -> None:
    """Delete a pod that waits, which changes no device."""
    epoch = cluster.state.epoch()
    cluster.state.apply(cluster.pods["default", uid], None)
    assert cluster.state.epoch() == epoch


@pytest.mark.parametrize(("minimum", "woken"), [(0, ("m0", "m1")), (3, ())])
def test_the_others_are_woken_if_all_that_exist_must_run(
    minimum: int, woken: tuple[str, ...]
) -> None:
    cluster = cluster_with_members()
    waiting = WaitingPods(cluster.decisions)
    assert not cluster.ask_group(KEY, *MEMBERS, min_count=minimum).fit
    for uid in MEMBERS:
        waiting.note_answer(uid, [], 0.0)
    assert waiting.wake(2.0).woken == ()
    delete(cluster, "m2")
    assert waiting.wake(4.0).woken == woken


def test_a_search_that_was_cut_begins_again_when_a_member_is_deleted() -> None:
    cluster = cluster_with_members()
    waiting = WaitingPods(cluster.decisions)
    request = replace(members_of(cluster, MEMBERS), group=GroupReference(key=KEY))
    assert not ask_group(cluster.decisions, request, 0.0, lambda: True).complete
    for uid in MEMBERS:
        waiting.note_answer(uid, [], 0.0, complete=False)
    delete(cluster, "m2")
    assert waiting.wake(2.0).woken == ("m0", "m1")


def test_a_claim_of_the_asked_member_that_was_deleted_is_named() -> None:
    cluster = Cluster(n1=2)
    cluster.add_claim(claim("c-m0"))
    cluster.delete_claim("c-m0")
    group = GroupReference(key=KEY, min_count=2)
    members = tuple(
        GroupMember(pod=cluster.pod(uid), claims=(Raw(json.encode(claim(f"c-{uid}"))),))
        for uid in ("m0", "m1")
    )
    request = PreFilterGroupRequest(pod_uid="m0", group=group, members=members)
    reply = ask_group(cluster.decisions, request, 0.0)
    assert (reply.fit, codes(reply)) == ((), [allocator_codes.CLAIM_DELETED.name])
    assert reply.message == "ResourceClaim default/c-m0 was deleted"
    assert cluster.held() == []
