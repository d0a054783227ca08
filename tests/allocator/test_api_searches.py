"""Explanations and simulations: what they say, and that they change nothing."""

from typing import Any

import pytest

from allocator.api import calls
from allocator.api.reviews import Caller
from allocator.api.searches import ApiSearches
from allocator.decisions.waiting import WaitingPods
from allocator.state.records import key_of
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import Taint
from drawbridge.ledger.holdings import Hold
from drawbridge.process.forked import ForkLimits
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import (
    DRIVER,
    Cluster,
    allocation_on,
    claim,
    gpu_slice,
    pod,
)

pytestmark = pytest.mark.asyncio
Plain = dict[str, Any]
FULL = [("held-0", 0), ("held-1", 1)]


def full(*extra: str) -> Cluster:
    """Two nodes; n1 has two held GPUs, and the `extra` nodes have one free GPU each."""
    cluster = Cluster(n1=2, **dict.fromkeys(extra, 1))
    for name, number in FULL:
        cluster.add_claim(claim(name, allocation=allocation_on("n1", number), pods=[name]))
        cluster.add(pod(name, name, node="n1"))
    return cluster


async def explain(served: ServedApi, name: str, token: str | None = None) -> Plain:
    body = {"namespace": "default", "name": name}
    status, reply, _ = await served.send("POST /v1/explain", token, body)
    assert status == 200, reply
    return dict(reply)


async def simulate(served: ServedApi, *pods: Plain, **more: Any) -> list[Plain]:  # noqa: ANN401
    status, reply, _ = await served.send("POST /v1/simulate", None, {"pods": pods, **more})
    assert status == 200, reply
    return list(reply["pods"])


def local(cluster: Cluster, **options: Any) -> Any:  # noqa: ANN401  # an async context manager
    return serving_api(cluster, ReviewServer({}, {}), is_local=True, **options)


def wants(name: str, claim_name: str, **spec: object) -> Plain:
    claims = [{"name": "gpu", "resourceClaimName": claim_name}]
    return {"metadata": {"name": name}, "spec": {"resourceClaims": claims, **spec}}


# --- explain ---


async def test_a_pod_that_waits_is_told_why_on_each_node() -> None:
    async with local(full()) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("p", "new"))
        told = await explain(served, "p")
    assert (told["state"], told["fitting"], told["claims"]) == (
        "Waiting",
        0,
        [{"name": "new", "claim": "new", "state": "Waiting"}],
    )
    assert told["message"]
    assert [each["nodes"] for each in told["reasons"]] == [1]
    assert [each["node"] for each in told["nodes"]] == ["n1"]
    assert told["nodes"][0]["reasons"][0]["code"] == told["reasons"][0]["code"]


async def test_a_pod_that_waits_is_told_what_happened_to_it_and_how_long_ago() -> None:
    async with local(full()) as served:
        cluster, times = served.cluster, iter((100.0, 101.5, 130.0))
        cluster.state.records.clock = lambda: next(times)
        waiting = WaitingPods(cluster.decisions)
        served.add_pod(pod("p", "new"))
        cluster.prefilter("p", claim("new"))
        waiting.note_answer("p", (), cluster.now)
        told = await explain(served, "p")
    assert told["transitions"] == [
        {"secondsAgo": 30.0, "event": "is asked about", "state": "seen"},
        {"secondsAgo": 28.5, "event": "is answered", "state": "waiting"},
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deviceclass.resource.kubernetes.io/gpu", "ClassNameUnserved"),
        ("example.com/gpu", "ServedByNobody"),
    ],
)
async def test_a_pod_is_told_that_no_claim_is_made_for_the_name_of_a_class(
    name: str, expected: str
) -> None:
    containers = [{"name": "c", "resources": {"limits": {name: "1"}}}]
    async with local(full("n2")) as served:
        served.cluster.add_claim(claim("new"))
        [told] = await simulate(served, wants("p", "new", containers=containers))
    assert [each["code"] for each in told["reasons"]] == [expected]


async def test_nodes_are_named_only_to_those_who_may_list_them() -> None:
    rights = ["get pods in default", "create pods in default"]
    reviews = ReviewServer(
        {"dev": "dev", "op": "op"}, {"dev": rights, "op": [*rights, "list nodes in *"]}
    )
    async with serving_api(full(), reviews) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("p", "new"))
        dev, op = await explain(served, "p", "dev"), await explain(served, "p", "op")
        body = {"pods": [wants("q", "new")]}
        simulated = [
            (await served.send("POST /v1/simulate", each, body))[1] for each in ("dev", "op")
        ]
    assert "n1" not in str(dev)
    assert "n1" in str(op)
    assert dev["message"] == op["message"]
    assert ["n1" in str(each) for each in simulated] == [False, True]


async def test_a_pod_whose_devices_are_free_fits() -> None:
    async with local(full("n2")) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("p", "new"))
        told = await explain(served, "p")
    assert (told["state"], told["fitting"], told["nodes"]) == ("Fits", 1, [])


async def test_a_pod_is_told_of_devices_that_are_being_released() -> None:
    cluster = full()
    cluster.state.apply(pod("held-1", "held-1", node="n1"), pod("held-1", "held-1", phase="Failed"))
    reviews = ReviewServer({"t": "dev"}, {"dev": ["get pods in default"]})
    async with local(cluster) as served, serving_api(cluster, reviews) as other:
        cluster.add_claim(claim("new"))
        for server in (served, other):
            server.add_pod(pod("p", "new"))
        told, others = await explain(served, "p"), await explain(other, "p", "t")
    assert told["reasons"][0]["code"] == "DevicesBeingReleased"
    assert told["reasons"][0]["example"] == "n1"
    assert "on a node" in told["message"] == others["message"]
    assert "n1" not in str(others)


async def test_devices_that_are_kept_for_a_preempting_pod_fit_it_only() -> None:
    cluster = full("n2")
    cluster.state.ledger.keep(key_of("p"), [Hold(PoolID(DRIVER, "n2"), "gpu-0")])
    async with local(cluster) as served:
        for name in ("p", "q"):
            cluster.add_claim(claim(f"of-{name}"))
            served.add_pod(pod(name, f"of-{name}"))
        states = [(await explain(served, name))["state"] for name in ("p", "q")]
        (placed,) = await simulate(served, wants("r", "c"), claims=[claim("c")])
    assert (states, placed["node"]) == (["Fits", "Waiting"], "")


async def test_a_pod_with_devices_is_told_which() -> None:
    async with local(full()) as served:
        served.add_pod(pod("held-0", "held-0", node="n1"))
        told = await explain(served, "held-0")
    (held,) = told["claims"]
    assert (told["state"], told["node"], held["state"]) == ("Bound", "n1", "Allocated")
    assert [each["device"] for each in held["devices"]] == ["gpu-0"]


async def test_a_pod_without_its_claim_is_told_so() -> None:
    async with local(full("n2")) as served:
        served.add_pod(pod("p", "absent"))
        told = await explain(served, "p")
    assert told["claims"] == [{"name": "absent", "claim": "absent", "state": "Missing"}]
    assert told["state"] == "Waiting"


async def test_an_ended_and_a_terminating_pod_are_not_searched_for() -> None:
    async with local(full()) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("ended", "new", phase="Failed"))
        served.add_pod(pod("leaving", "new", deletionTimestamp="2026-01-01T00:00:00Z"))
        states = [(await explain(served, each))["state"] for each in ("ended", "leaving")]
    assert states == ["Ended", "Terminating"]


# --- simulate ---


async def test_pods_are_placed_in_order_and_nothing_is_reserved() -> None:
    cluster = full("n2")
    before = (dict(cluster.state.ledger.reservations), len(cluster.state.ledger.claims))
    async with local(cluster) as served:
        claims = [claim(each) for each in ("a", "b")]
        for _ in range(2):
            first, second = await simulate(served, wants("p", "a"), wants("q", "b"), claims=claims)
            assert first["node"] == "n2"
            assert [each["device"] for each in first["claims"][0]["devices"]] == ["gpu-0"]
            assert (second["node"], bool(second["reasons"])) == ("", True)
            assert second["claims"] == [{"claim": "b", "devices": []}]
    assert before == (dict(cluster.state.ledger.reservations), len(cluster.state.ledger.claims))


async def test_claims_come_from_templates_and_from_the_cluster() -> None:
    cluster = full("n2")
    # As after a bookmark, claims without a version are older than what was seen.
    cluster.state.ledger.observe_bookmark("100")
    async with local(cluster) as served:
        template = {
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": claim("x")["spec"]},
        }
        reference = {"name": "gpu", "resourceClaimTemplateName": "t"}
        made = {"metadata": {"name": "p"}, "spec": {"resourceClaims": [reference]}}
        (placed,) = await simulate(served, made, templates=[template])
        (shared,) = await simulate(served, wants("q", "held-0"))
    assert placed["node"] == "n2"
    assert shared["node"] == "n1"


async def test_reserved_devices_are_not_free_for_a_simulation() -> None:
    cluster = Cluster(n1=1)
    cluster.add_claim(claim("new"))
    cluster.schedule("p", claim("new"))
    async with local(cluster) as served:
        (placed,) = await simulate(served, wants("q", "c"), claims=[claim("c")])
    assert placed["node"] == ""


async def test_a_simulated_status_and_identity_have_no_effect() -> None:
    cluster = full("n2")
    forged = claim("held-0", allocation=allocation_on("n2", 0), version=10**9)
    async with local(cluster) as served:
        (placed,) = await simulate(served, wants("q", "held-0"), claims=[forged])
    assert placed["node"] == "n2"
    assert cluster.state.claims["held-0"].status.allocation is not None


async def test_taints_and_selectors_of_nodes_count() -> None:
    cluster = full()
    taint = Taint("dedicated", "NoSchedule", value="ml")
    cluster.add(Node("n2", {"name": "n2"}, taints=(taint,)), gpu_slice("n2", 1))
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    async with local(cluster) as served:
        made = [claim("c")]
        (no,) = await simulate(served, wants("p", "c"), claims=made)
        (yes,) = await simulate(served, wants("p", "c", tolerations=tolerations), claims=made)
        (other,) = await simulate(
            served,
            wants("p", "c", tolerations=tolerations, nodeSelector={"name": "n1"}),
            claims=made,
        )
    assert (no["node"], yes["node"], other["node"]) == ("", "n2", "")
    assert any("taint dedicated:NoSchedule" in each["message"] for each in no["reasons"])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[" * 100_000, ""),
        (b'{"pods": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", ""),
        (b"\xff", ""),
        ({}, ""),
        ({"pods": []}, "pods"),
        ({"pods": [{}] * 101}, "pods"),
        ({"pods": [{}], "extra": 1}, ""),
        ({"pods": [3]}, "pods[0]"),
        ({"pods": [{"metadata": {"name": 3}}]}, "pods[0].metadata.name"),
        ({"pods": [{"metadata": {"name": "a/b"}}]}, "pods[0].metadata.name"),
        ({"pods": [{"metadata": {"name": "a", "namespace": "x/y"}}]}, "pods[0].metadata.namespace"),
        ({"pods": [{"metadata": {"name": "a"}}], "claims": ["x"]}, "claims[0]"),
        (
            {"pods": [{"metadata": {"name": "a", "namespace": f"n{i}"}} for i in range(11)]},
            "",
        ),
    ],
)
async def test_a_body_that_is_not_valid_is_refused_with_its_path(body: object, path: str) -> None:
    async with local(Cluster(n1=1)) as served:
        status, reply, _ = await served.send("POST /v1/simulate", None, body)
    assert (status, reply.get("path", "")) == (400, path), reply


async def test_objects_are_decoded_on_a_copy_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here: list[object] = []
    read = calls.read_simulation
    monkeypatch.setattr(calls, "read_simulation", lambda sent: here.append(sent) or read(sent))
    # Errors are the slowest: each container is examined again for its path.
    containers = [{}] * 1000 + [3]
    sent = {"pods": [{"metadata": {"name": "p"}, "spec": {"containers": containers}}]}
    async with local(Cluster(n1=1)) as served:
        status, reply, _ = await served.send("POST /v1/simulate", None, sent)
    assert (status, reply["path"]) == (400, "pods[0].spec.containers[1000]")
    assert here == []


async def test_objects_are_decoded_only_for_callers_with_rights() -> None:
    reviews = ReviewServer({"dev": "dev"}, {"dev": ["create pods in red"]})
    pods = [{"metadata": {"name": "p", "namespace": each}, "spec": 3} for each in ("red", "blue")]
    async with serving_api(Cluster(n1=1), reviews) as served:
        own, other = [
            await served.send("POST /v1/simulate", "dev", {"pods": [pod]}) for pod in pods
        ]
    assert (own[0], own[1]["path"]) == (400, "pods[0].spec")
    assert other[0] == 403


async def test_a_body_above_the_limit_or_of_another_type_is_refused() -> None:
    async with local(Cluster(n1=1)) as served:
        large = await served.send("POST /v1/simulate", None, b" " * ((1 << 20) + 1))
        plain = await served.send("POST /v1/explain", None, b"{}", **{"Content-Type": "text/plain"})
    assert (large[0], large[1]["code"]) == (413, "TooLarge")
    assert (plain[0], plain[1]["code"]) == (415, "UnsupportedMediaType")


async def test_a_search_without_an_end_is_stopped() -> None:
    limits = ForkLimits(seconds=0.0)  # as if it was endless
    async with local(Cluster(n1=1), limits=limits) as served:
        served.cluster.add_claim(claim("new", 2))
        served.add_pod(pod("p", "new"))
        body = {"namespace": "default", "name": "p"}
        status, reply, _ = await served.send("POST /v1/explain", None, body)
    assert (status, reply["code"]) == (422, "TooMuchWork")


async def test_the_process_that_searches_is_a_copy() -> None:
    state = {"changed": False}

    def search() -> str:
        state["changed"] = True
        return "done"

    assert await ApiSearches().run(Caller("a"), search, str) == "done"
    assert not state["changed"]


# --- stage by stage ---


def left(stages: Any) -> dict[str, int]:  # noqa: ANN401  # JSON
    return {each["name"]: each["after"] for each in stages}


async def test_stages_are_told_of_a_pod_that_waits_and_of_a_simulated_one() -> None:
    async with local(full()) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("p", "new"))
        body = {"namespace": "default", "name": "p", "stages": True}
        _, told, _ = await served.send("POST /v1/explain", None, body)
        (placed,) = await simulate(served, wants("q", "new"), stages=True)
        plain = await explain(served, "p")
    assert told["stages"]["nodes"] == placed["stages"]["nodes"]
    assert left(told["stages"]["nodes"])["devices"] == 0
    assert left(told["stages"]["requests"][0]["stages"])["in use"] == 0
    assert told["stages"]["nodes"][-1]["rejected"] == ["n1"]
    assert plain["stages"] is None


async def test_stages_name_nodes_only_to_those_who_may_list_them() -> None:
    rights = ["get pods in default", "create pods in default"]
    async with serving_api(full(), ReviewServer({"t": "dev"}, {"dev": rights})) as served:
        served.cluster.add_claim(claim("new"))
        served.add_pod(pod("p", "new"))
        body = {"namespace": "default", "name": "p", "stages": True}
        _, told, _ = await served.send("POST /v1/explain", "t", body)
        sent = {"pods": [wants("q", "new", nodeName="n1")], "stages": True}
        _, simulated, _ = await served.send("POST /v1/simulate", "t", sent)
    assert left(told["stages"]["nodes"])["devices"] == 0
    assert told["stages"]["nodes"][-1]["rejected"] == []
    assert simulated["pods"][0]["stages"]["nodes"][-1]["rejected"] == []
