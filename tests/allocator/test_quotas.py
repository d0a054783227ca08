"""Device quotas in the decisions of the allocator: who waits, who is woken, and who is not."""

from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from allocator.decisions.waiting import WaitingPods
from allocator.scheduler.protocol import (
    GroupMember,
    GroupReference,
    PotentialVictim,
    PreemptionNode,
    PreemptRequest,
    PreFilterGroupRequest,
)
from allocator.state.cluster_state import MAX_SLICES
from drawbridge.dra.device_quotas import Charge, DeviceQuota, QuotaKey
from drawbridge.dra.quantity import Quantity, from_json
from drawbridge.ledger.quota_use import QuotaUse
from tests.allocator.clusters import (
    Cluster,
    allocation_on,
    ask_group,
    claim,
    codes,
    gpu_class,
    gpu_slice,
    owns_all,
    pod,
)

Plain = dict[str, Any]
DEVICES = QuotaKey("gpu", "devices")
MEMORY = QuotaKey("gpu", "memory")


def limit(
    total: dict[QuotaKey, str], single: dict[QuotaKey, str] | None = None, *, together: bool = False
) -> DeviceQuota:
    """The quota `q` of all namespaces."""
    totals, singles = (
        {key: from_json(value) for key, value in (of or {}).items()} for of in (total, single)
    )
    return DeviceQuota("q", lambda _name, _labels: True, singles, totals, together)


def used(cluster: Cluster, namespace: str = "default") -> list[str]:
    """What a namespace has of each total."""
    return [f"{each.used}/{each.limit}" for each in cluster.state.ledger.quotas.lines(namespace)]


def test_of_200_pods_as_many_get_devices_as_the_quota_allows() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "37"})], n1=100, n2=100)
    nodes = [cluster.prefilter(f"p{number}", claim(f"c{number}")).fit for number in range(200)]
    # All are answered before the first one is reserved.
    assert all(nodes)
    reserved = [
        number for number in range(200) if not cluster.reserve(f"p{number}", nodes[number][0].node)
    ]
    assert reserved == list(range(37))
    assert used(cluster) == ["37/37"]
    for number in range(37):
        cluster.write(f"p{number}")
    assert used(cluster) == ["37/37"]


def test_a_pod_over_quota_is_told_the_quota_and_what_is_left() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "3"})], n1=4)
    cluster.schedule("a", claim("ca", 2))
    reply = cluster.prefilter("b", claim("cb", 2))
    assert codes(reply) == ["DeviceQuotaUsedUp"]
    assert reply.message == (
        "quota q: namespace default uses 2 of 3 devices of class gpu, and the pod needs 2"
    )
    assert reply.complete
    assert not reply.preemptible
    assert cluster.nodes("c", claim("cc", 1)) == ["n1"]


def test_a_pod_that_never_fits_is_told_so() -> None:
    cluster = Cluster(quotas=[limit({}, {DEVICES: "2"})], n1=4)
    assert codes(cluster.prefilter("a", claim("ca"), claim("cb", 2))) == ["DeviceQuotaTooSmall"]
    assert cluster.nodes("b", claim("cb", 2)) == ["n1"]


def test_what_a_claim_got_elsewhere_counts() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=4)
    foreign = allocation_on("elsewhere", 0)
    cluster.add_claim(claim("by hand", allocation=foreign, pods=["x"]))
    assert used(cluster) == ["1/2"]
    assert codes(cluster.prefilter("a", claim("c", 2))) == ["DeviceQuotaUsedUp"]


def test_a_claim_of_two_pods_is_charged_once() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=4)
    shared = claim("shared")
    assert cluster.schedule("a", shared) == "n1"
    assert cluster.schedule("b", shared) == "n1"
    assert used(cluster) == ["1/1"]


def test_other_namespaces_have_their_own_total() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=4)
    cluster.schedule("a", claim("c"))
    cluster.schedule("b", claim("d", namespace="other"), namespace="other")
    assert used(cluster) == ["1/1"]
    assert used(cluster, "other") == ["1/1"]


def test_an_alternative_that_the_quota_has_room_for_is_taken() -> None:
    requests = [
        {
            "name": "r",
            "firstAvailable": [
                {"name": "many", "deviceClassName": "gpu", "count": 2},
                {"name": "one", "deviceClassName": "gpu", "count": 1},
            ],
        }
    ]
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=4)
    cluster.schedule("a", claim("c", requests=requests))
    assert used(cluster) == ["1/1"]


def one_of(name: str, *alternatives: tuple[str, int]) -> Plain:
    """A request for alternatives: so many devices of a class."""
    choices = [
        {"name": f"{name}{at}", "deviceClassName": device_class, "count": count}
        for at, (device_class, count) in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": choices}


TWO_OR_ONE, ANY_CLASS = (("gpu", 2), ("gpu", 1)), (("gpu", 1), ("other", 1))


@pytest.mark.parametrize(
    ("claims", "totals", "result"),
    [
        pytest.param([[TWO_OR_ONE, TWO_OR_ONE]], {"gpu": "3"}, ["3/3"], id="of one claim"),
        pytest.param([[TWO_OR_ONE], [TWO_OR_ONE]], {"gpu": "3"}, ["3/3"], id="of two claims"),
        pytest.param([[TWO_OR_ONE, TWO_OR_ONE]], {"gpu": "2"}, ["2/2"], id="the smallest"),
        pytest.param([[TWO_OR_ONE, TWO_OR_ONE]], {"gpu": "4"}, ["4/4"], id="the first ones"),
        pytest.param(
            [[ANY_CLASS, ANY_CLASS]], {"gpu": "1", "other": "1"}, ["1/1", "1/1"], id="of classes"
        ),
    ],
)
def test_alternatives_that_have_room_together_are_taken(
    claims: list[list[tuple[tuple[str, int], ...]]], totals: dict[str, str], result: list[str]
) -> None:
    total = {QuotaKey(name, "devices"): most for name, most in totals.items()}
    cluster = Cluster(gpu_class("other"), quotas=[limit(total)], n1=8)
    plain = [
        claim(f"c{at}", requests=[one_of(f"r{n}", *each) for n, each in enumerate(requests)])
        for at, requests in enumerate(claims)
    ]
    cluster.schedule("p", *plain)
    assert used(cluster) == result


def test_the_memory_of_whole_devices_counts() -> None:
    gpus = gpu_slice("n1", 4, capacity={"memory": {"value": "80Gi"}})
    cluster = Cluster(gpus, quotas=[limit({MEMORY: "100Gi"})], n1=0)
    cluster.schedule("a", claim("ca"))
    reply = cluster.prefilter("b", claim("cb"))
    assert codes(reply)[0] == "DeviceQuotaUsedUp"
    assert reply.complete
    assert used(cluster) == ["80Gi/100Gi"]


def test_a_pod_over_quota_evicts_nobody() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=1)
    cluster.add(pod("low", "c-low", node="n1"))
    cluster.schedule("low", claim("c-low"))
    cluster.write("low")
    cluster.prefilter("high", claim("c-high"), priority=9)
    reply = cluster.decisions.preempt(
        PreemptRequest(pod_uid="high", nodes=(PreemptionNode(node="n1"),)), cluster.now
    )
    assert not reply.node
    assert reply.message.startswith("quota q: ")


# --- pods of which only found devices show that they have too much ---

BIG = {"memory": {"value": "80Gi"}}
ALL = [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]


class Excess(NamedTuple):
    """A pod whose request has room in the quota `q` of its namespace, and its devices have none."""

    id: str
    total: dict[QuotaKey, str]
    requests: list[Plain] | None = None


EXCESSES = [
    Excess("the memory of whole devices", {MEMORY: "50Gi"}),
    Excess("all devices", {DEVICES: "1"}, ALL),
]


def contested(excess: Excess) -> Cluster:
    """A node with two devices, and the quota of the namespace `default`."""
    own = DeviceQuota("q", lambda name, _: name == "default", {}, limit(excess.total).total)
    return Cluster(gpu_slice("n1", 2, capacity=BIG), quotas=[own], n1=0)


@pytest.mark.parametrize("excess", EXCESSES, ids=lambda each: each.id)
def test_a_pod_whose_devices_have_too_much_evicts_nobody(excess: Excess) -> None:
    cluster = contested(excess)
    victims = ("v0", "v1")
    for number, uid in enumerate(victims):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c-{uid}", allocation=held, pods=[uid], namespace="other"))
        cluster.add(pod(uid, f"c-{uid}", node="n1", namespace="other"))
    cluster.prefilter("high", claim("c", requests=excess.requests), priority=9)
    listed = tuple(PotentialVictim(uid=uid, priority=0) for uid in victims)
    node = PreemptionNode(node="n1", pods=listed, running=victims)
    reply = cluster.decisions.preempt(PreemptRequest(pod_uid="high", nodes=(node,)), cluster.now)
    assert (reply.node, reply.victims, reply.waiting) == ("", (), False)
    assert "quota q" in reply.message


@pytest.mark.parametrize("excess", EXCESSES, ids=lambda each: each.id)
def test_a_pod_whose_devices_have_too_much_takes_no_promise_over(excess: Excess) -> None:
    cluster = contested(excess)
    for uid in ("low0", "low1"):
        cluster.prefilter(uid, claim(f"c-{uid}", namespace="other"), namespace="other")
        assert cluster.decisions.promises.make(uid, cluster.now).node
    reply = cluster.prefilter("high", claim("c", requests=excess.requests), priority=9)
    assert not reply.fit
    assert all(map(cluster.decisions.reservations.find, ("low0", "low1")))


def test_others_get_what_is_kept_for_a_pod_that_is_over_quota_now() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(1)})
    cluster = Cluster(quotas=[own], n1=1, n2=1)
    victim = pod("v", "c-v", node="n1", namespace="other")
    for name, on in (("c-v", "n1"), ("c-w", "n2")):
        held = allocation_on(on, 0)
        cluster.add_claim(claim(name, allocation=held, pods=["v"], namespace="other"))
    cluster.add(victim)
    cluster.prefilter("high", claim("c-high"), priority=9)
    listed = (PotentialVictim(uid="v", priority=0),)
    node = PreemptionNode(node="n1", pods=listed, running=("v",))
    request = PreemptRequest(pod_uid="high", nodes=(node,))
    assert cluster.decisions.preempt(request, cluster.now).victims == ("v",)
    for each in ("c-v", "c-w"):
        cluster.delete_claim(each)
    cluster.state.apply(victim, None)
    # Others of the namespace do not get the room of its quota; who allocates elsewhere can.
    assert codes(cluster.prefilter("own", claim("c-own"))) == ["DeviceQuotaUsedUp"]
    cluster.add_claim(claim("c-native", allocation=allocation_on("n2", 0), pods=["native"]))
    assert codes(cluster.prefilter("high", claim("c-high"), priority=9)) == ["DeviceQuotaUsedUp"]
    assert cluster.nodes("new", claim("c-new", namespace="other"), namespace="other") == ["n1"]


def test_two_pods_do_not_preempt_for_the_room_of_one() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(1)})
    cluster = Cluster(quotas=[own], n1=1, n2=1)
    for name, on in (("v", "n1"), ("w", "n2")):
        held = allocation_on(on, 0)
        cluster.add_claim(claim(f"c-{name}", allocation=held, pods=[name], namespace="other"))
        cluster.add(pod(name, f"c-{name}", node=on, namespace="other"))
    victims = []
    for uid, node, victim in (("high", "n1", "v"), ("higher", "n2", "w")):
        cluster.prefilter(uid, claim(f"c-{uid}"), priority=9)
        listed = (PotentialVictim(uid=victim, priority=0),)
        on = PreemptionNode(node=node, pods=listed, running=(victim,))
        request = PreemptRequest(pod_uid=uid, nodes=(on,))
        victims.append(cluster.decisions.preempt(request, cluster.now).victims)
    assert victims == [("v",), ()]
    cluster.delete_claim("c-v")
    assert cluster.schedule("high", claim("c-high"), priority=9) == "n1"


def test_two_pods_do_not_wait_for_the_room_of_one() -> None:
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {DEVICES: Quantity.of(1)})
    cluster = Cluster(quotas=[own], n1=2)
    large = claim("c-v", 2, allocation=allocation_on("n1", 0, 1), pods=["v"], namespace="other")
    cluster.add_claim(large)
    times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    cluster.add(pod("v", "c-v", node="n1", namespace="other", **times))
    assert codes(cluster.prefilter("a", claim("c-a")))[0] == "DevicesBeingReleased"
    revision = cluster.state.ledger.quotas.revision
    assert codes(cluster.prefilter("a", claim("c-a")))[0] == "DevicesBeingReleased"
    assert cluster.state.ledger.quotas.revision == revision  # nobody else has room meanwhile
    assert codes(cluster.prefilter("b", claim("c-b"))) == ["DeviceQuotaUsedUp"]
    # Who has another quota waits for the rest.
    reply = cluster.prefilter("c", claim("c-c", namespace="third"), namespace="third")
    assert codes(reply)[0] == "DevicesBeingReleased"
    cluster.delete_claim("c-v")
    assert codes(cluster.prefilter("b", claim("c-b"))) == ["DeviceQuotaUsedUp"]
    assert cluster.schedule("a", claim("c-a")) == "n1"
    assert used(cluster) == ["1/1"]


@pytest.mark.parametrize("ending", ["the pod is deleted", "another process decides"])
def test_the_room_of_a_pod_that_waits_is_given_back(ending: str) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=1)
    cluster.add_claim(claim("c-v", allocation=allocation_on("n1", 0), pods=["v"]))
    cluster.add(pod("v", "c-v", node="n1", phase="Failed"))
    assert codes(cluster.prefilter("a", claim("c-a")))[0] == "DevicesBeingReleased"
    assert used(cluster) == ["2/2"]
    if ending == "the pod is deleted":
        cluster.decisions.end("a")
    else:
        cluster.decisions.end_term()
    assert used(cluster) == ["1/2"]


def test_a_pod_that_is_over_quota_when_it_is_reserved_is_told_the_quota() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=2)
    for uid in ("a", "b"):
        assert cluster.nodes(uid, claim(f"c-{uid}")) == ["n1"]
    assert not cluster.reserve("a", "n1")
    assert cluster.reserve("b", "n1").startswith("quota q: ")


@pytest.mark.parametrize("excess", EXCESSES, ids=lambda each: each.id)
def test_a_pod_whose_devices_have_too_much_is_told_the_quota(excess: Excess) -> None:
    reply = contested(excess).prefilter("p", claim("c", requests=excess.requests))
    # Other devices can have less: the pod is not told that it never fits.
    assert codes(reply) == ["DeviceQuotaUsedUp"]
    assert reply.complete
    assert not reply.preemptible


def test_a_node_with_devices_that_have_less_is_found_behind_others() -> None:
    nodes = [f"n{number}" for number in range(8)]
    gpus = [gpu_slice(name, 1, capacity=BIG) for name in nodes[:-1]]
    small = gpu_slice(nodes[-1], 1, capacity={"memory": {"value": "40Gi"}})
    none = dict.fromkeys(nodes, 0)
    cluster = Cluster(*gpus, small, quotas=[limit({MEMORY: "50Gi"})], nodes_per_call=3, **none)
    replies = [cluster.prefilter("p", claim("c"), limit=1) for _ in range(3)]
    assert [each.complete for each in replies[:2]] == [False, False]
    assert [each.node for each in replies[-1].fit] == [nodes[-1]]


def test_a_pod_whose_devices_had_too_much_is_woken_though_no_node_changed() -> None:
    nodes = [f"n{number}" for number in range(6)]
    quota = DeviceQuota(
        "q", lambda _, labels: "left" not in labels, {}, {MEMORY: from_json("100Gi")}, together=True
    )
    gpus = [gpu_slice(name, 1, capacity=BIG) for name in nodes]
    cluster = Cluster(*gpus, quotas=[quota], **dict.fromkeys(nodes, 0))
    cluster.schedule("a", claim("ca", namespace="other"), namespace="other")
    waiting = WaitingPods(cluster.decisions)
    waiting.note_answer("b", [], cluster.now, complete=cluster.prefilter("b", claim("cb")).complete)
    assert waiting.wake(1.0).woken == ()
    cluster.state.ledger.quotas.set_labels("other", {"left": ""})
    assert waiting.wake(2.0).woken == ("b",)


def test_the_keys_of_waiting_pods_are_short() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=4)
    large = claim("c", 2)
    parameters = {"driver": "gpu.example.com", "parameters": {"x": "x" * 10000}}
    large["spec"]["devices"]["config"] = [{"opaque": parameters}]
    cluster.prefilter("p", large)
    key = cluster.decisions.promises.request_key("p")
    assert key is not None
    assert len(key) <= 64
    assert cluster.decisions.promises.is_refused(key)


# --- groups ---


@pytest.mark.parametrize(("members", "placed"), [(4, ["n1"]), (5, [])])
def test_a_gang_counts_as_a_whole(members: int, placed: list[str]) -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "4"})], n1=8)
    uids = [f"m{number}" for number in range(members)]
    reply = cluster.ask_group("default/g", *uids)
    assert [each.node for each in reply.fit] == placed
    assert codes(reply) == ([] if placed else ["DeviceQuotaUsedUp"])
    assert used(cluster) == [f"{4 if placed else 0}/4"]


def test_a_gang_gets_as_many_members_as_the_quota_allows_and_not_fewer_than_it_needs() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "6"})], n1=8)
    reply = cluster.ask_group("default/g", *(f"m{number}" for number in range(8)), min_count=4)
    assert reply.fit
    assert used(cluster) == ["6/6"]


def test_the_members_of_a_gang_are_counted_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    charge_of = QuotaUse.charge_of

    def look(self: QuotaUse, uid: str) -> Charge:
        looked.append(uid)
        return charge_of(self, uid)

    monkeypatch.setattr(QuotaUse, "charge_of", look)
    cluster = Cluster(quotas=[limit({DEVICES: "200"})], n1=4)
    cluster.ask_group("default/g", *(f"m{number}" for number in range(100)))
    assert len(looked) <= 10 * 100


def test_a_new_state_counts_what_exists() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "2"})], n1=4)
    cluster.schedule("a", claim("ca"))
    cluster.write("a")
    cluster.schedule("b", claim("cb"))
    again = Cluster(gpu_class(), quotas=[limit({DEVICES: "2"})], n1=4)
    for each in cluster.state.claims.values():
        again.add(each)
    # What was reserved only is not remembered.
    assert used(again) == ["1/2"]


def contested_memory(*free: str) -> tuple[Cluster, PreemptionNode]:
    """A node with two devices that pods of another namespace have, and free ones; 160Gi."""
    own = DeviceQuota("q", lambda name, _: name == "default", {}, {MEMORY: from_json("160Gi")})
    gpus = [gpu_slice("n1", 2, capacity=BIG), *(gpu_slice(each, 1, capacity=BIG) for each in free)]
    cluster = Cluster(*gpus, quotas=[own], **dict.fromkeys(("n1", *free), 0))
    for number, uid in enumerate(("v0", "v1")):
        held = allocation_on("n1", number)
        cluster.add_claim(claim(f"c-{uid}", allocation=held, pods=[uid], namespace="other"))
        cluster.add(pod(uid, f"c-{uid}", node="n1", namespace="other"))
    listed = tuple(PotentialVictim(uid=uid, priority=0) for uid in ("v0", "v1"))
    return cluster, PreemptionNode(node="n1", pods=listed, running=("v0", "v1"))


def test_a_gang_whose_devices_have_too_much_evicts_nobody() -> None:
    cluster, node = contested_memory("n2")
    members = ("m0", "m1", "m2")
    assert codes(cluster.ask_group("default/g", *members, priority=9)) == ["GangTooLarge"]
    request = PreemptRequest(pod_uid="m0", nodes=(node,))
    reply = cluster.decisions.preempt(request, cluster.now)
    assert (reply.evictions, reply.waiting) == ((), False)
    assert reply.message == (
        "quota q: namespace default uses 0 of 160Gi memory of devices of class gpu, pods before it "
        "get 160Gi, and the pod needs 80Gi"
    )


def test_a_gang_over_quota_after_evictions_evicts_nobody_else_for_a_time() -> None:
    cluster, node = contested_memory("n2")
    cluster.schedule("elsewhere", claim("c-elsewhere", namespace="other"), namespace="other")
    cluster.ask_group("default/g", "m0", "m1", priority=9)
    request = PreemptRequest(pod_uid="m0", nodes=(node,))
    assert cluster.decisions.preempt(request, cluster.now).evictions
    for uid in ("v0", "v1"):
        cluster.delete_claim(f"c-{uid}")
        cluster.state.apply(pod(uid, f"c-{uid}", node="n1", namespace="other"), None)
    cluster.decisions.end("elsewhere")
    # The room is kept for the gang; who allocates elsewhere can take it.
    cluster.add_claim(claim("c-native", allocation=allocation_on("n2", 0), pods=["native"]))
    cluster.now = 2.0
    reply = cluster.ask_group("default/g", "m0", "m1", priority=9)
    assert codes(reply) == ["DeviceQuotaUsedUp"]
    message = cluster.decisions.preempt(request, cluster.now).message
    assert message.startswith("evicts no pod for another ")


@pytest.mark.parametrize(("needed", "placed"), [(2, "160Gi"), (3, "0")])
def test_a_gang_gets_as_many_whole_devices_as_its_memory_allows(needed: int, placed: str) -> None:
    gpus = gpu_slice("n1", 8, capacity=BIG)
    cluster = Cluster(gpus, quotas=[limit({MEMORY: "160Gi"})], n1=0)
    before = cluster.state.epoch()
    reply = cluster.ask_group("default/g", "m0", "m1", "m2", "m3", min_count=needed)
    assert used(cluster) == [f"{placed}/160Gi"]
    assert codes(reply) == ([] if reply.fit else ["DeviceQuotaUsedUp"])
    # A refusal changes nothing for others.
    assert bool(reply.fit) == (cluster.state.epoch() != before)


def test_a_claim_of_two_members_counts_once() -> None:
    cluster = Cluster(quotas=[limit({DEVICES: "1"})], n1=4)
    shared = (msgspec.Raw(msgspec.json.encode(claim("shared"))),)
    members = tuple(GroupMember(pod=cluster.pod(uid), claims=shared) for uid in ("m0", "m1"))
    request = PreFilterGroupRequest(
        pod_uid="m0", group=GroupReference(key="default/g", min_count=2), members=members
    )
    assert [each.node for each in ask_group(cluster.decisions, request, cluster.now).fit] == ["n1"]


def test_a_large_pool_counts_as_soon_as_its_devices_are_known() -> None:
    first = replace(gpu_slice("n1", 1, capacity=BIG), slice_count=MAX_SLICES + 1)
    others = [replace(first, name=f"s{number}", devices=()) for number in range(MAX_SLICES)]
    cluster = Cluster(first, *others, quotas=[limit({MEMORY: "100Gi"})], n1=0)
    cluster.state.decide_owners(lambda *_: False)
    cluster.add_claim(claim("c", allocation=allocation_on("n1", 0), pods=["p"]))
    assert used(cluster) == ["0/100Gi"]
    cluster.state.decide_owners(owns_all)
    assert used(cluster) == ["80Gi/100Gi"]
