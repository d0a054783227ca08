"""The decisions: which nodes fit, or why none does."""

from collections.abc import Collection, Iterable
from itertools import chain

import pytest
from msgspec.structs import replace

from allocator.decisions.node_searches import NodeSearches
from allocator.decisions.shortlist import MAX_FAILING_NODES, NodeSearch
from allocator.scheduler.protocol import ProtocolError
from allocator.state.releases import NODES_PER_SEARCH
from drawbridge.dra.device import Taint
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import Ledger
from drawbridge.solver.world import View
from tests.allocator.clusters import (
    Cluster,
    allocation_on,
    as_claim,
    claim,
    codes,
    device,
    gpu_class,
    gpu_slice,
    pod,
)

# --- which nodes ---


def test_only_nodes_with_enough_free_devices_fit() -> None:
    cluster = Cluster(n1=1, n2=2, n3=4)
    assert cluster.nodes("p", claim("c", 2)) == ["n2", "n3"]


def test_two_claims_of_one_pod_get_different_devices() -> None:
    cluster = Cluster(n1=1, n2=2)
    assert cluster.nodes("p", claim("c"), claim("d")) == ["n2"]


def test_a_claim_that_is_named_twice_is_allocated_once() -> None:
    cluster = Cluster(n1=1)
    assert cluster.nodes("p", claim("c"), claim("c")) == ["n1"]


def test_the_reply_is_limited_and_says_that_more_nodes_fit() -> None:
    cluster = Cluster(n1=1, n2=1, n3=1)
    reply = cluster.prefilter("p", claim("c"), limit=2)
    assert (len(reply.fit), reply.complete) == (2, False)
    assert cluster.prefilter("p", claim("c"), limit=3).complete


def test_the_search_starts_at_another_node_each_time() -> None:
    cluster = Cluster(n1=1, n2=1, n3=1)
    chosen = [cluster.nodes(f"p{i}", claim(f"c{i}"), limit=1) for i in range(3)]
    assert sorted(chosen) == [["n1"], ["n2"], ["n3"]]


def test_a_search_that_stays_begins_with_the_node_of_the_last_one() -> None:
    cluster = Cluster(n1=1, n2=1, n3=1)
    cluster.add_claim(plain := claim("c"))
    search = NodeSearch(pod=cluster.pod("p"), claims=(as_claim(plain),), limit=1)
    searches = NodeSearches(cluster.state)

    def choose(*, stays: bool) -> list[str]:
        return [each.name for each in searches.run(replace(search, stays=stays), 0.0).fitting]

    chosen = [choose(stays=stays) for stays in (True, True, False, False)]
    assert chosen == [["n1"], ["n1"], ["n1"], ["n2"]]


@pytest.mark.parametrize(
    ("pod_fields", "expected"),
    [
        ({"nodeSelector": {"name": "n2"}}, ["n2"]),
        ({"nodeName": "n1"}, ["n1"]),
        ({"tolerations": [{"key": "t", "operator": "Exists"}]}, ["n1", "n2", "tainted"]),
        (
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            ["cordoned", "n1", "n2"],
        ),
        ({}, ["n1", "n2"]),
    ],
)
def test_nodes_that_the_scheduler_rejects_are_skipped(
    pod_fields: dict[str, object], expected: list[str]
) -> None:
    tainted = Node("tainted", taints=(Taint("t", "NoSchedule"), Taint("x", "PreferNoSchedule")))
    cordoned = Node("cordoned", unschedulable=True)
    others = (gpu_slice("tainted", 1), gpu_slice("cordoned", 1))
    cluster = Cluster(tainted, cordoned, *others, n1=1, n2=1)
    assert cluster.nodes("p", claim("c"), **pod_fields) == expected


def test_required_affinity_that_names_a_node_selects_it() -> None:
    cluster = Cluster(n1=1, n2=1)
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    assert cluster.nodes("p", claim("c"), nodeAffinity=required) == ["n2"]


def test_a_malformed_term_selects_nothing_and_the_others_count() -> None:
    cluster = Cluster(n1=1)
    terms = [{"matchExpressions": [{"key": "name", "operator": "Gt", "values": ["40Gi"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert codes(cluster.prefilter("p", claim("c"), nodeAffinity=required)) == ["NodeRefused"]
    terms.append({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]})
    assert cluster.nodes("p", claim("c"), nodeAffinity=required) == ["n1"]


@pytest.mark.parametrize(("terms", "nodes"), [(256, ["n1"]), (257, [])])
def test_an_affinity_that_is_too_long_is_compared_with_no_node(
    terms: int, nodes: list[str]
) -> None:
    cluster = Cluster(n1=1)
    term = {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * terms}
    }
    reply = cluster.prefilter("p", claim("c"), nodeAffinity=required)
    assert [each.node for each in reply.fit] == nodes
    assert ("more than 256 expressions" in reply.message) is not bool(nodes)


def test_an_allocated_claim_decides_the_node() -> None:
    cluster = Cluster(n1=2, n2=2)
    allocated = claim("c", allocation=allocation_on("n2", 0))
    assert cluster.nodes("p", allocated, claim("d")) == ["n2"]


def test_a_pod_whose_claims_are_allocated_everywhere_fits_every_node() -> None:
    cluster = Cluster(Node("bare"), n1=1)
    everywhere = {"devices": {"results": []}}
    assert cluster.nodes("p", claim("c", allocation=everywhere)) == ["bare", "n1"]


def test_an_earlier_alternative_has_the_better_score() -> None:
    cluster = Cluster(
        gpu_class("big", "device.attributes['gpu.example.com'].size == 'big'"), Node("n2"), n1=1
    )
    cluster.add(gpu_slice("n2", 1, attributes={"size": {"string": "big"}}))
    cluster.state.apply(
        gpu_slice("n1", 1), gpu_slice("n1", 1, attributes={"size": {"string": "s"}})
    )
    alternatives = [
        {"name": "best", "deviceClassName": "big"},
        {"name": "any", "deviceClassName": "gpu"},
    ]
    reply = cluster.prefilter(
        "p", claim("c", requests=[{"name": "r", "firstAvailable": alternatives}])
    )
    assert [(each.node, each.score) for each in reply.fit] == [("n2", 100), ("n1", 0)]


@pytest.mark.parametrize(("strategy", "best"), [("packed", "n2"), ("spread", "n1")])
def test_the_strategy_orders_nodes_by_use(strategy: str, best: str) -> None:
    cluster = Cluster(strategy=strategy, n1=4, n2=4)
    cluster.add_claim(claim("held", allocation=allocation_on("n2", 0), pods=["x"]))
    reply = cluster.prefilter("p", claim("c"))
    assert reply.fit[0].node == best
    assert {each.score for each in reply.fit} == {0, 100}


def test_the_best_node_leads_by_half_of_the_scores() -> None:
    reply = Cluster(strategy="packed", n1=4, n2=4, n3=4).prefilter("p", claim("c"))
    assert [each.score for each in reply.fit] == [100, 25, 0]


def test_without_a_strategy_equal_nodes_have_equal_scores() -> None:
    reply = Cluster(n1=4, n2=2).prefilter("p", claim("c"))
    assert {each.score for each in reply.fit} == {100}


# --- why not ---


def test_a_refusal_counts_the_nodes_of_each_reason() -> None:
    cluster = Cluster(Node("bare"), n1=1, n2=1, n3=2)
    cluster.add_claim(claim("held", 2, allocation=allocation_on("n3", 0, 1), pods=["x"]))
    reply = cluster.prefilter("p", claim("c", 2))
    assert not reply.fit
    assert reply.complete
    assert {(each.code, each.nodes) for each in reply.reasons} == {
        ("NoDeviceOfClass", 2),
        ("NoDeviceFree", 1),
        ("NoOwnedPool", 1),
    }
    assert "2 nodes: " in reply.message


def test_a_search_that_reaches_its_limit_says_so_and_continues_elsewhere() -> None:
    cluster = Cluster(nodes_per_call=2, n1=1, n2=1, n3=1, n4=2)
    first = cluster.prefilter("p", claim("c", 2), limit=1)
    assert codes(first)[0] == "SearchContinues"
    assert not first.complete
    assert cluster.nodes("p", claim("c", 2), limit=1) == ["n4"]


def test_a_search_in_parts_ends_with_the_reasons_of_all_nodes() -> None:
    cluster = Cluster(nodes_per_call=2, n1=1, n2=1, n3=1, n4=2, n5=1)
    replies = [cluster.prefilter(f"p{i}", claim(f"c{i}", 3), limit=1) for i in range(4)]
    assert [each.complete for each in replies] == [False, False, True, True]
    assert sorted((each.message[:8], each.nodes) for each in replies[3].reasons) == [
        ("the node", 1),
        ("the node", 4),
    ]


SMALL = claim(
    "c",
    requests=[
        {
            "name": "r",
            "exactly": {
                "deviceClassName": "gpu",
                "selectors": [{"cel": {"expression": "device.attributes['x.io'].size == 1"}}],
            },
        }
    ],
)


def sized(name: str, size: int | None) -> tuple[Node, Slice]:
    """A node with one device of a size, or without that attribute."""
    attributes = {} if size is None else {"x.io/size": {"int": size}}
    return Node(name, {"name": name}), gpu_slice(name, 1, attributes=attributes)


@pytest.mark.parametrize("limit", [0, 1])
def test_an_error_on_one_node_leaves_the_others(limit: int) -> None:
    cluster = Cluster(*sized("bad", None), *sized("good", 1), *sized("large", 2))
    for _ in range(3):  # another node is examined first each time
        assert cluster.nodes("p", SMALL, limit=limit) == ["good"]


def test_an_error_on_one_node_is_told_before_the_reasons_of_the_others() -> None:
    cluster = Cluster(*sized("bad", None), *sized("large", 2))
    assert codes(cluster.prefilter("p", SMALL)) == ["SelectorFails", "NoDeviceMatches"]


def test_an_expression_that_fails_on_many_nodes_ends_the_search() -> None:
    names = [f"n{number:02}" for number in range(3 * MAX_FAILING_NODES)]
    cluster = Cluster(*chain.from_iterable(sized(name, None) for name in names))
    cluster.add(*sized("zz", 1))
    assert not cluster.nodes("p", SMALL, limit=1)


def test_an_error_on_every_node_stops_the_pod() -> None:
    cluster = Cluster(gpu_class("bad", "device.attributes['x.io'].missing == 1"), n1=1)
    reply = cluster.prefilter(
        "p", claim("c", requests=[{"name": "r", "exactly": {"deviceClassName": "bad"}}])
    )
    assert codes(reply) == ["SelectorFails"]


@pytest.mark.parametrize(
    ("plain", "code"),
    [
        (claim("c", deletionTimestamp="2026-01-01T00:00:00Z"), "ClaimBeingDeleted"),
        (
            claim("c", allocation=allocation_on("n1", 0), pods=[f"u{i}" for i in range(256)]),
            "ClaimHasMaxConsumers",
        ),
        (
            claim(
                "c", ownerReferences=[{"kind": "Pod", "name": "p", "uid": "q", "controller": True}]
            ),
            "ClaimOfAnotherPod",
        ),
    ],
)
def test_a_claim_that_the_pod_cannot_use_is_refused(plain: dict[str, object], code: str) -> None:
    assert codes(Cluster(n1=1).prefilter("p", plain)) == [code]


def test_a_pod_that_already_uses_a_full_claim_keeps_it() -> None:
    pods = [f"u{i}" for i in range(256)]
    full = claim("c", allocation=allocation_on("n1", 0), pods=pods)
    assert Cluster(n1=1).nodes("u7", full) == ["n1"]


def test_a_claim_whose_deletion_was_seen_is_refused_although_the_scheduler_has_it() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("c"))
    cluster.delete_claim("c")
    assert codes(cluster.prefilter("p", claim("c"))) == ["ClaimDeleted"]


def test_a_pod_whose_deletion_was_seen_is_refused() -> None:
    cluster = Cluster(n1=1)
    cluster.state.apply(pod("p", "c"), None)
    assert codes(cluster.prefilter("p", claim("c"))) == ["PodDeleted"]


def test_a_claim_that_is_not_readable_is_a_bad_request() -> None:
    with pytest.raises(ProtocolError, match=r"claims\[1\]"):
        Cluster(n1=1).prefilter("p", claim("c"), {"metadata": {"name": "x"}, "spec": 1})


def test_only_the_api_server_says_that_a_claim_has_no_devices_any_more() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.add_claim(claim("c", version=5, allocation=allocation_on("n2", 0), pods=["q"]))
    assert cluster.nodes("p", claim("c", version=4)) == ["n2"]
    # That can be of a history that the API server does not have.
    later = claim("c", version=6)
    assert cluster.nodes("p", later) == ["n2"]
    cluster.add_claim(later)
    assert cluster.nodes("p", later) == ["n1", "n2"]


@pytest.mark.parametrize("version", [7, 9])
def test_what_the_api_server_tells_replaces_what_a_scheduler_tells(version: int) -> None:
    """A restored cluster uses the versions again that a scheduler has seen."""
    cluster = Cluster(n1=1, n2=1)
    cluster.add_claim(claim("c", version=5))
    assert cluster.nodes("p", claim("c", version=9)) == ["n1", "n2"]
    written = claim("c", version=version, allocation=allocation_on("n2", 0), pods=["p"])
    cluster.add_claim(written)
    assert cluster.held() == ["n2/gpu-0"]
    assert cluster.nodes("p", claim("c", version=9)) == ["n2"]
    assert cluster.nodes("q", claim("d")) == ["n1"]


def test_what_a_scheduler_tells_ends_no_reservation() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.prefilter("p", claim("c", version=5))
    assert not cluster.reserve("p", "n1")
    told = claim("c", version=9, allocation=allocation_on("n2", 0), pods=["p"])
    cluster.prefilter("p", told)
    assert "n1/gpu-0" in cluster.held()


# --- penalties ---


def test_a_penalised_device_is_used_last() -> None:
    cluster = Cluster(n1=2, n2=1)
    cluster.state.penalise(device("n1", 0), until=60.0)
    cluster.state.penalise(device("n2", 0), until=60.0)
    assert cluster.nodes("p", claim("c")) == ["n1"]
    assert not cluster.reserve("p", "n1")
    assert cluster.held() == ["n1/gpu-1"]
    assert cluster.nodes("q", claim("d")) == ["n1", "n2"]


def test_a_reply_without_the_nodes_of_penalised_devices_says_that_more_nodes_fit() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.state.penalise(device("n2"), until=60.0)
    reply = cluster.prefilter("p", claim("c"))
    assert ([each.node for each in reply.fit], reply.complete) == (["n1"], False)


def test_a_penalty_ends() -> None:
    cluster = Cluster(n1=1, n2=1)
    cluster.state.penalise(device("n1"), until=60.0)
    cluster.now = 60.0
    assert cluster.nodes("p", claim("c")) == ["n1", "n2"]


# --- devices that are being released ---


def holders(cluster: Cluster, *uids: str) -> None:
    """Each pod holds one GPU of n1 with a claim of its own."""
    for number, uid in enumerate(uids):
        allocation = allocation_on("n1", number)
        cluster.add_claim(claim(f"of-{uid}", allocation=allocation, pods=[uid]))
        cluster.add(pod(uid, f"of-{uid}", node="n1"))


def test_a_pod_waits_for_devices_of_a_terminating_pod() -> None:
    cluster = Cluster(n1=2)
    holders(cluster, "a", "b")
    assert "released" not in cluster.prefilter("p", claim("c")).message
    cluster.add(pod("a", "of-a", node="n1", deletionTimestamp="2026-01-01T00:00:00Z"))
    reply = cluster.prefilter("p", claim("c"))
    assert reply.fit == ()
    assert codes(reply)[0] == "DevicesBeingReleased"
    assert reply.message.startswith("waits for 1 device that is being released on a node (n1)")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_waits_for_devices_of_an_ended_pod(phase: str) -> None:
    cluster = Cluster(n1=1)
    holders(cluster, "a")
    cluster.add(pod("a", "of-a", node="n1", phase=phase))
    assert codes(cluster.prefilter("p", claim("c")))[0] == "DevicesBeingReleased"


def test_released_devices_are_kept_for_one_pod_each() -> None:
    cluster = Cluster(n1=2)
    holders(cluster, "a", "b")
    for uid in ("a", "b"):
        cluster.state.apply(pod(uid, f"of-{uid}", node="n1"), None)
    waiting = [codes(cluster.prefilter(f"p{i}", claim(f"c{i}")))[0] for i in range(3)]
    assert waiting == ["DevicesBeingReleased"] * 2 + ["NoDeviceFree"]
    cluster.decisions.end("p0")
    assert codes(cluster.prefilter("p2", claim("c2")))[0] == "DevicesBeingReleased"


def released_by(cluster: Cluster, node: str) -> None:
    """A pod that held the GPU of a node is gone."""
    allocation = allocation_on(node, 0)
    cluster.add_claim(claim(f"of-{node}", allocation=allocation, pods=[node]))
    cluster.add(pod(node, f"of-{node}", node=node))
    cluster.state.apply(pod(node, f"of-{node}", node=node), None)


def test_only_some_of_many_released_devices_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(100)]
    cluster = Cluster(**dict.fromkeys(names, 1))
    for name in names:
        released_by(cluster, name)
    freed = []
    view_without = Ledger.view_without

    def free(self: Ledger, uids: Collection[str], held: Iterable[Hold]) -> View:
        freed.append(len(uids))
        return view_without(self, uids, held)

    monkeypatch.setattr(Ledger, "view_without", free)
    assert codes(cluster.prefilter("p", claim("c")))[0] == "DevicesBeingReleased"
    assert freed == [NODES_PER_SEARCH]
    # None of the nodes has two devices, so all of them are searched.
    assert codes(cluster.prefilter("q", claim("d", 2)))[0] == "NoDeviceFree"
    assert sum(freed[1:]) == len(names) - 1


def test_devices_that_a_released_claim_no_longer_has_are_not_waited_for() -> None:
    cluster = Cluster(n1=1, n2=1)
    released_by(cluster, "n1")
    cluster.add_claim(claim("held", allocation=allocation_on("n2", 0), pods=["x"]))
    assert "on a node (n1)" in cluster.prefilter("p", claim("c")).message
    cluster.add_claim(claim("of-n1", version=2, allocation=allocation_on("n2", 0), pods=["n1"]))
    cluster.add_claim(claim("other", allocation=allocation_on("n1", 0), pods=["y"]))
    assert codes(cluster.prefilter("p", claim("c"))) == ["NoDeviceFree"]
    cluster.add_claim(claim("held", version=2))
    assert "on a node (n2)" in cluster.prefilter("p", claim("c")).message


def test_a_pod_that_is_only_missing_from_the_cache_keeps_its_devices() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("of-a", allocation=allocation_on("n1", 0), pods=["a"]))
    assert codes(cluster.prefilter("p", claim("c"))) == ["NoDeviceFree"]


# --- what is remembered ---


def test_a_refusal_is_remembered_for_all_pods_that_ask_the_same() -> None:
    cluster = Cluster(n1=1)
    first = cluster.prefilter("p", claim("c", 2))
    assert cluster.prefilter("q", claim("d", 2)) == first
    key = cluster.decisions.promises.request_key("q")
    assert key is not None
    assert cluster.decisions.promises.is_refused(key)
    cluster.state.apply(gpu_slice("n1", 1), gpu_slice("n1", 2, generation=2))
    assert not cluster.decisions.promises.is_refused(key)
    assert cluster.nodes("q", claim("d", 2)) == ["n1"]


def test_a_refusal_ends_with_a_change_of_use() -> None:
    cluster = Cluster(n1=1)
    cluster.schedule("p", claim("c"))
    assert cluster.nodes("q", claim("d")) == []
    cluster.decisions.unreserve("p")
    assert cluster.nodes("q", claim("d")) == ["n1"]


def test_a_node_that_changed_is_not_the_only_one_while_others_were_not_examined() -> None:
    cluster = Cluster(nodes_per_call=1, **{f"n{number}": 1 for number in range(6)})
    allocation = allocation_on("n0", 0)
    cluster.add_claim(claim("held", allocation=allocation, pods=["x"]))
    assert not cluster.prefilter("p", claim("c")).complete
    cluster.add_claim(claim("held", version=2))
    reply = cluster.prefilter("p", claim("c"))
    assert [each.node for each in reply.fit] == ["n0"]
    assert not reply.complete


def test_a_decision_after_one_with_a_bug_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(n1=1)
    request = cluster.request("p", claim("c"))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(cluster.decisions, "_prefilter", fail)
        with pytest.raises(ZeroDivisionError):
            cluster.decisions.prefilter(request, cluster.now, lambda: True)
    assert not cluster.decisions._basis.out_of_time()  # noqa: SLF001
