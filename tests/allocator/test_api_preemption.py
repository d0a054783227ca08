"""Simulations with preemption: who would go, and who is told of it."""

import pytest

from drawbridge.dra.nodes import Node
from drawbridge.dra.taints import Taint
from drawbridge.ledger.disruption_budgets import DisruptionBudget, disruption_budget_reader
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.priorities import PriorityClass, priority_class_reader
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import Cluster, allocation_on, claim, pod_fields
from tests.allocator.test_api_searches import local, simulate, wants

pytestmark = pytest.mark.asyncio


def running_pod(name: str, priority: int, namespace: str = "default", **labels: str) -> Pod:
    """A pod that holds the claim of its name on n1."""
    fields = pod_fields(name, name, node="n1", namespace=namespace, labels=labels)
    fields["spec"]["priority"] = priority
    read = pod_reader().read(fields)
    assert isinstance(read, Pod)
    return read


def add_running(served: ServedApi, name: str, number: int, priority: int, **more: str) -> None:
    space = more.get("namespace", "default")
    allocation = allocation_on("n1", number)
    served.cluster.add_claim(claim(name, allocation=allocation, pods=[name], namespace=space))
    served.add_pod(running_pod(name, priority, **more))


async def test_victims_are_the_least_important_pods_and_stay_as_they_are() -> None:
    async with local(Cluster(n1=2)) as served:
        add_running(served, "low", 0, 1)
        add_running(served, "high", 1, 5)
        made = [claim("c")]
        (alone,) = await simulate(served, wants("p", "c", priority=9), claims=made)
        (placed,) = await simulate(served, wants("p", "c", priority=9), claims=made, preempt=True)
        (equal,) = await simulate(served, wants("p", "c", priority=1), claims=made, preempt=True)
    assert (alone["node"], alone["preempted"]) == ("", [])
    assert (placed["node"], placed["preempted"]) == ("n1", ["default/low"])
    assert [each["device"] for each in placed["claims"][0]["devices"]] == ["gpu-0"]
    assert (equal["node"], equal["preempted"]) == ("", [])
    assert "no preemption" in str(equal["reasons"])
    assert served.cluster.state.claims["low"].status.allocation is not None


async def test_victims_in_namespaces_of_others_are_counted() -> None:
    rights = ["create pods in default", "list resourceclaims in default"]
    async with serving_api(Cluster(n1=2), ReviewServer({"t": "dev"}, {"dev": rights})) as served:
        add_running(served, "mine", 0, 1)
        add_running(served, "theirs", 1, 1, namespace="blue")
        body = {"pods": [wants("p", "c", priority=9)], "claims": [claim("c", 2)], "preempt": True}
        _, reply, _ = await served.send("POST /v1/simulate", "t", body)
    (placed,) = reply["pods"]
    assert (placed["node"], placed["preempted"], placed["otherPreempted"]) == (
        "n1",
        ["default/mine"],
        1,
    )
    assert "theirs" not in str(reply)


async def test_priority_classes_budgets_and_taints_count() -> None:
    async with local(Cluster(n1=2)) as served:
        add_running(served, "guarded", 0, 1, app="a")
        add_running(served, "free", 1, 1, app="b")
        read = priority_class_reader().read({"metadata": {"name": "urgent"}, "value": 9})
        guard = disruption_budget_reader().read(
            {
                "metadata": {"name": "b", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "a"}}},
                "status": {"disruptionsAllowed": 0},
            }
        )
        assert isinstance(read, PriorityClass)
        assert isinstance(guard, DisruptionBudget)
        served.priority_classes, served.disruption_budgets = [read], [guard]
        urgent = wants("p", "c", priorityClassName="urgent")
        made = [claim("c")]
        (placed,) = await simulate(served, urgent, claims=made, preempt=True)
        (unknown,) = await simulate(
            served, wants("p", "c", priorityClassName="none"), claims=made, preempt=True
        )
        taint = Taint("dedicated", "NoSchedule")
        served.cluster.add(Node("n1", {"name": "n1"}, taints=(taint,)))
        (tainted,) = await simulate(served, urgent, claims=made, preempt=True)
    assert placed["preempted"] == ["default/free"]
    assert "PriorityClass none does not exist" in str(unknown["reasons"])
    assert (tainted["node"], tainted["preempted"]) == ("", [])


async def test_without_priorities_nothing_is_preempted() -> None:
    async with local(Cluster(n1=1)) as served:
        served.priority_classes = None
        body = {"pods": [wants("p", "c")], "preempt": True}
        status, reply, _ = await served.send("POST /v1/simulate", None, body)
    assert (status, reply["code"], reply["path"]) == (503, "NotReady", "preempt")
