"""Which resources of device plugins pods hold on their nodes."""

from typing import Any

from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.ledger.plugin_holders import find_held_names, find_held_on, find_held_on_nodes
from drawbridge.ledger.pods import Pod, pod_reader
from tests.tables import every_row

GPU = "nvidia.com/gpu"
EARLY, LATE, LAST = (f"2026-01-01T00:00:0{second}Z" for second in range(3))
MAPPED = {"requestMappings": [{"resourceName": GPU, "containerName": "main"}]}


def pod(name: str = "p", node: str = "n", **more: Any) -> Pod:  # noqa: ANN401  # as pods are
    """Return a pod with a container; `limits` and `init` are requests, the others its status."""
    limits, init = more.pop("limits", {GPU: "1"}), more.pop("init", {})
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    spec |= {"nodeName": node, "initContainers": [{"name": "i", "resources": {"limits": init}}]}
    metadata = {"name": name, "creationTimestamp": more.pop("created", EARLY)}
    status = {"phase": "Running", **more}
    read = pod_reader().read({"metadata": metadata, "spec": spec, "status": status})
    assert isinstance(read, Pod)
    return read


CASES = {
    "a running pod": (pod(), {GPU}),
    "a pod that is about to start": (pod(phase="Pending"), {GPU}),
    "a pod of a node that is lost": (pod(phase="Unknown"), {GPU}),
    "an init container": (pod(limits={}, init={"amd.com/gpu": 1}), {"amd.com/gpu"}),
    "several names": (pod(limits={GPU: "1", "rdma/hca": 1}), {GPU, "rdma/hca"}),
    "a pod that waits": (pod(node=""), set()),
    "a pod that has succeeded": (pod(phase="Succeeded"), set()),
    "a pod that has failed": (pod(phase="Failed"), set()),
    "an amount of none": (pod(limits={GPU: "0"}), set()),
    "other resources": (pod(limits={"cpu": "1", "hugepages-2Mi": "2Mi"}), set()),
    "a claim of the scheduler": (pod(extendedResourceClaimStatus=MAPPED), set()),
    "a claim for one of two names": (
        pod(limits={GPU: "1", "rdma/hca": 1}, extendedResourceClaimStatus=MAPPED),
        {"rdma/hca"},
    ),
}


@every_row("case", CASES)
def test_a_pod_holds_what_a_plugin_gave_it_until_it_ends(case: str) -> None:
    given, held = CASES[case]
    assert find_held_names(given) == held


def test_the_names_of_all_pods_of_a_node_are_held() -> None:
    pods = (pod(), pod("q", limits={"amd.com/gpu": 2}), pod("r", "m", phase="Failed"))
    assert find_held_on_nodes(pods, [Node("n", created=EARLY)]) == {"n": {GPU, "amd.com/gpu"}}


# What a node says, when it was registered, when a pod was created, and whether it can hold a GPU.
EMPTIED = Node("n", allocatable={GPU: parse("0")}, created=EARLY)
NODES = {
    "a plugin serves": (Node("n", allocatable={GPU: parse("8")}, created=EARLY), LATE, True),
    "a plugin stops": (Node("n", stopped=(GPU,), created=EARLY), LATE, True),
    "a plugin is gone": (EMPTIED, LATE, True),
    "there was no plugin": (Node("n", created=EARLY), LATE, False),
    "another name": (Node("n", allocatable={"a/b": parse("1")}, created=EARLY), LATE, False),
    "the node is registered again": (Node("n", created=LATE), EARLY, True),
    "in the same second": (Node("n", created=EARLY), EARLY, True),
}


@every_row("case", NODES)
def test_a_pod_holds_only_what_its_node_names_or_can_have_named(case: str) -> None:
    node, created, holds = NODES[case]
    assert find_held_on(node, pod(created=created)) == ({GPU} if holds else set())


STOPPED = Node("n", allocatable={GPU: parse("0")}, stopped=(GPU,), created=EARLY)
SERVED = Node("n", allocatable={GPU: parse("8")}, created=EARLY)
PENDING: dict[str, Any] = {"phase": "Pending", "created": LATE}
BOUND = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
UNBOUND = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
# What a node says, what a pod says, and whether it can hold a GPU.
ACCEPTED = {
    "a plugin serves": (SERVED, PENDING, True),
    "a plugin stops": (STOPPED, PENDING, True),
    "a plugin is gone": (EMPTIED, PENDING, False),
    "a pod that is older than the node": (EMPTIED, {**PENDING, "created": EARLY}, False),
    "a scheduler has bound the pod": (EMPTIED, {**PENDING, **BOUND}, True),
    "a scheduler has found no node": (EMPTIED, {**PENDING, **UNBOUND}, False),
    "the kubelet has admitted the pod": (EMPTIED, {**PENDING, "startTime": LATE}, True),
    "a container runs": (EMPTIED, {"created": LATE}, True),
    "a node that does not name it": (Node("n", created=LATE), {**PENDING, "created": EARLY}, True),
}


@every_row("case", ACCEPTED)
def test_a_pod_that_its_kubelet_will_refuse_holds_nothing(case: str) -> None:
    node, fields, holds = ACCEPTED[case]
    assert find_held_on(node, pod(**fields)) == ({GPU} if holds else set())
