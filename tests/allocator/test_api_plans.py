"""The calls that plan: which pods would have to move for a pod, and whether a claim could grow."""

import shlex
import time
from typing import Any

import pytest

from allocator.api.plan_messages import DefragRequest
from allocator.api.planning import ending_in, plan_for_pod
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import from_json
from drawbridge.ledger.disruption_budgets import DisruptionBudget, disruption_budget_reader
from drawbridge.ledger.node_holds import NodeHold, read_node_hold
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.removals import OutOfTriesError, Tries
from drawbridge.names import HOLD_ANNOTATION
from drawbridge.pod_groups import COSCHEDULING_LABEL
from drawbridge.process.forked import ForkLimits
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import (
    START,
    Cluster,
    allocation_on,
    claim,
    gpu_slice,
    pod,
    pod_fields,
)
from tests.allocator.test_api_searches import local

pytestmark = pytest.mark.asyncio
Plain = dict[str, Any]


def add_running(
    served: ServedApi, name: str, node: str, *numbers: int, space: str = "default", **spec: object
) -> None:
    """Add a pod of a ReplicaSet that has devices of a node."""
    allocation = allocation_on(node, *numbers)
    count = len(numbers)
    served.cluster.add_claim(
        claim(name, count, allocation=allocation, pods=[name], namespace=space)
    )
    owners = [{"kind": "ReplicaSet", "name": "o", "controller": True}]
    fields = pod_fields(
        name,
        name,
        node=node,
        namespace=space,
        spec=spec,
        ownerReferences=owners,
        labels={"app": name},
    )
    read = pod_reader().read(fields)
    assert isinstance(read, Pod)
    served.add_pod(read)


def add_waiting(served: ServedApi, count: int, **fields: Any) -> None:  # noqa: ANN401  # of pods
    served.cluster.add_claim(claim("big", count))
    served.add_pod(pod("big", "big", **fields))


async def defrag(served: ServedApi, **more: object) -> Plain:
    body = {"namespace": "default", "name": "big", **more}
    status, reply, _ = await served.send("POST /v1/defrag", None, body)
    assert status == 200, reply
    return dict(reply)


async def adjust(served: ServedApi, name: str, **more: object) -> Plain:
    body = {"namespace": "default", "name": name, **more}
    status, reply, _ = await served.send("POST /v1/adjust", None, body)
    assert status == 200, reply
    return dict(reply)


# --- moves ----------------------------------------------------------------------------------------


async def test_the_fewest_pods_move_and_nothing_is_changed() -> None:
    async with local(Cluster(n1=3, n2=3, n3=1)) as served:
        add_running(served, "a", "n1", 0)
        add_running(served, "b", "n2", 0)
        add_running(served, "c", "n2", 1)
        add_waiting(served, 3)
        before = served.cluster.held()
        told = await defrag(served)
        assert served.cluster.held() == before
    assert (told["node"], told["proven"], told["reasons"]) == ("n1", True, [])
    (move,) = told["moves"]
    assert (move["pod"], move["owner"], move["toNode"]) == ("a", "ReplicaSet", "n2")
    assert [each["device"] for each in move["claims"][0]["devices"]] == ["gpu-2"]
    assert shlex.split(told["commands"][0]) == ["kubectl", "cordon", "n1"]
    assert not any(HOLD_ANNOTATION in each for each in told["commands"])


async def test_the_commands_of_a_plan_with_a_hold_hold_what_it_frees() -> None:
    async with local(Cluster(n1=2, n2=1)) as served:
        add_running(served, "a", "n1", 0)
        add_waiting(served, 2)
        told = await defrag(served, holdSeconds=600)
        words = shlex.split(told["commands"][0])
        hold = read_node_hold(words[-1].removeprefix(f"{HOLD_ANNOTATION}="))
        assert isinstance(hold, NodeHold)
        assert hold.evicted == ("a",)
        # The allocator compares it with the time of the API server.
        assert hold.until.timestamp() == START + 600
    assert words[:4] == ["kubectl", "annotate", "node", "n1"]
    assert told["commands"][-1] == f"kubectl annotate node n1 {HOLD_ANNOTATION}-"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node": "n1"}, "does not wait for a node"),
        ({"spec": {"schedulerName": "x"}}, "has scheduler x, which asks another allocator"),
        ({"labels": {COSCHEDULING_LABEL: "g"}}, "is a member of a gang"),
    ],
)
async def test_a_pod_that_gets_no_plan_is_refused(fields: Plain, message: str) -> None:
    async with local(Cluster(n1=2)) as served:
        add_waiting(served, 1, **fields)
        body = {"namespace": "default", "name": "big", "holdSeconds": 1}
        status, reply, _ = await served.send("POST /v1/defrag", None, body)
    assert (status, reply["path"]) == (400, "name")
    assert message in reply["message"]


async def test_pods_that_may_not_move_stay() -> None:
    async with local(Cluster(n1=2, n2=1)) as served:
        add_running(served, "a", "n1", 0)
        add_waiting(served, 2)
        guard = disruption_budget_reader().read(
            {
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "a"}}},
                "status": {"disruptionsAllowed": 0},
            }
        )
        assert isinstance(guard, DisruptionBudget)
        served.disruption_budgets = [guard]
        told = await defrag(served)
    assert (told["node"], told["moves"], told["commands"]) == ("", [], [])
    assert any("protected by a PodDisruptionBudget" in each for each in told["reasons"])


async def test_cpu_counts_where_a_pod_would_move_to() -> None:
    cpu = {"cpu": from_json("1")}
    async with local(Cluster(n1=2, n2=1)) as served:
        served.cluster.add(Node("n2", {"name": "n2"}, allocatable=cpu))
        add_running(served, "a", "n1", 0, resources={"requests": {"cpu": "2"}})
        add_waiting(served, 2)
        told = await defrag(served)
    assert told["node"] == ""


async def test_what_is_kept_for_others_is_not_a_place_to_move_to() -> None:
    async with local(Cluster(n1=2, n2=1)) as served:
        add_running(served, "a", "n1", 0)
        add_waiting(served, 2)
        view = served.cluster.state.ledger
        view.keep("kept for somebody", next(iter(view.claims.values())).holds)
        assert (await defrag(served))["node"] == ""
        view.keep("kept for somebody", ())
        view.keep("kept for big", next(iter(view.claims.values())).holds)
        assert (await defrag(served))["node"] == "n1"


async def test_a_plan_whose_search_is_cut_says_so() -> None:
    cut = lambda: Tries(0)  # noqa: E731
    async with local(Cluster(n1=2, n2=1)) as served:
        add_running(served, "a", "n1", 0)
        add_waiting(served, 2)
        request = DefragRequest(namespace="default", name="big")
        told = plan_for_pod(served.decisions, served.pods["default", "big"], served, request, cut)
    assert told.reasons == ("the search ended before all sets of pods were tried",)
    assert ending_in(-1.0).left > 0


async def test_a_plan_has_more_time_than_other_searches() -> None:
    async with local(Cluster(n1=2, n2=1), limits=ForkLimits(seconds=0.0)) as served:
        add_running(served, "a", "n1", 0)
        add_waiting(served, 2)
        assert (await defrag(served))["node"] == "n1"


async def test_the_time_of_a_search_begins_with_the_first_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a large cluster, what is read before takes longer than the search may."""
    tries, now = ending_in(2.0), 100.0
    monkeypatch.setattr(time, "process_time", lambda: now)
    tries.take()
    now = 101.9
    tries.take()
    now = 102.0
    with pytest.raises(OutOfTriesError):
        tries.take()


async def test_without_budgets_there_is_no_plan() -> None:
    async with local(Cluster(n1=2)) as served:
        served.priority_classes = None
        add_waiting(served, 1)
        status, reply, _ = await served.send(
            "POST /v1/defrag", None, {"namespace": "default", "name": "big"}
        )
    assert (status, reply["code"]) == (503, "NotReady")


# --- more for a claim -----------------------------------------------------------------------------


async def test_a_claim_that_can_grow_keeps_its_devices() -> None:
    async with local(Cluster(n1=3)) as served:
        add_running(served, "a", "n1", 1)
        told = await adjust(served, "a", count=3)
    assert (told["fits"], told["node"], told["keepsDevices"]) == (True, "n1", True)
    assert sorted(each["device"] for each in told["devices"]) == ["gpu-0", "gpu-1", "gpu-2"]


async def test_what_stops_a_claim_from_growing_is_told() -> None:
    async with local(Cluster(n1=3, n2=3)) as served:
        add_running(served, "a", "n1", 0)
        add_running(served, "b", "n1", 1)
        told = await adjust(served, "a", count=3)
    assert (told["fits"], told["most"], told["helps"]) == (False, "2", True)
    assert (told["without"], told["otherWithout"]) == (["default/b"], 0)
    assert (told["elsewhere"], told["elsewhereNodes"], told["cut"]) == (1, ["n2"], False)
    assert told["reasons"]


async def test_pods_and_nodes_of_others_are_counted() -> None:
    rights = ["get resourceclaims in default", "list resourceclaims in default"]
    async with serving_api(
        Cluster(n1=2, n2=2), ReviewServer({"t": "dev"}, {"dev": rights})
    ) as served:
        add_running(served, "a", "n1", 0)
        add_running(served, "secret", "n1", 1, space="blue")
        body = {"namespace": "default", "name": "a", "count": 2}
        status, told, _ = await served.send("POST /v1/adjust", "t", body)
    assert status == 200
    assert (told["without"], told["otherWithout"]) == ([], 1)
    assert (told["node"], told["elsewhere"], told["elsewhereNodes"]) == ("", 1, [])
    assert not any(each in str(told) for each in ("secret", "n1", "n2", "blue"))


async def test_more_of_a_capacity_is_looked_for_on_the_device() -> None:
    memory = {"memory": {"value": "80Gi"}}
    shared = gpu_slice("n1", 1, generation=2, capacity=memory, allowMultipleAllocations=True)
    async with local(Cluster(n1=1)) as served:
        served.cluster.add(shared)
        allocation = allocation_on("n1", 0)
        allocation["devices"]["results"][0] |= {
            "shareID": "11111111-1111-4111-8111-111111111111",
            "consumedCapacity": {"memory": "20Gi"},
        }
        served.cluster.add_claim(claim("a", allocation=allocation, pods=["a"]))
        more = await adjust(served, "a", capacity="memory", amount="60Gi")
        most = await adjust(served, "a", capacity="memory", amount="100Gi")
    assert more["fits"]
    assert (most["fits"], most["most"]) == (False, "80Gi")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "count"),
        ({"count": 1, "capacity": "memory", "amount": "1"}, "count"),
        ({"capacity": "memory", "amount": "much"}, "amount"),
        ({"capacity": "memory"}, "amount"),
        ({"amount": "1"}, "capacity"),
        ({"capacity": "memory", "amount": "-1"}, "amount"),
        ({"count": 2, "request": "other"}, "name"),
        ({"count": -1}, "count"),
    ],
)
async def test_a_question_that_is_none_is_refused(body: Plain, path: str) -> None:
    async with local(Cluster(n1=1)) as served:
        add_running(served, "a", "n1", 0)
        asked = {"namespace": "default", "name": "a", **body}
        status, reply, _ = await served.send("POST /v1/adjust", None, asked)
    assert (status, reply["path"]) == (400, path)


async def test_a_claim_without_devices_cannot_grow() -> None:
    async with local(Cluster(n1=1)) as served:
        served.cluster.add_claim(claim("a"))
        asked = {"namespace": "default", "name": "a", "count": 2}
        status, reply, _ = await served.send("POST /v1/adjust", None, asked)
    assert (status, reply["message"]) == (400, "ResourceClaim default/a has no allocation")
