"""What pods request of nodes, and what nodes have left."""

from operator import itemgetter
from pathlib import Path

from drawbridge.dra.nodes import Node, node_reader
from drawbridge.ledger.node_resources import (
    NodeResources,
    count_running,
    held_amounts,
    requested_amounts,
)
from drawbridge.ledger.pods import Pod, pod_reader
from tests.tables import YamlValue, every_row, load_cases

CASES = Path(__file__).parent / "cases"


def pod_of(spec: YamlValue, status: YamlValue = None) -> Pod:
    pod = pod_reader().read({"metadata": {"name": "a"}, "spec": spec, "status": status or {}})
    assert isinstance(pod, Pod), pod
    return pod


def pod_with(requests: YamlValue, phase: str = "Running") -> Pod:
    container = {"resources": {"requests": requests}}
    return pod_of({"nodeName": "n", "containers": [container]}, {"phase": phase})


def node_with(allocatable: YamlValue, name: str = "n") -> Node:
    node = node_reader().read({"metadata": {"name": name}, "status": {"allocatable": allocatable}})
    assert isinstance(node, Node), node
    return node


@every_row("case", load_cases(CASES / "node_resources.yaml"), ids=itemgetter("name"))
def test_requests_count_as_in_the_scheduler(case: YamlValue) -> None:
    pod = pod_of(case["spec"], case.get("status"))
    assert requested_amounts(pod) == {"pods": 1, **case["requested"]}
    assert held_amounts(pod) == {"pods": 1, **case.get("held", case["requested"])}


@every_row("case", load_cases(CASES / "free_resources.yaml"), ids=itemgetter("name"))
def test_a_pod_fits_beside_those_that_run(case: YamlValue) -> None:
    node = node_with(case["allocatable"])
    running = [pod_with(each) for each in case.get("running", ())]
    ended = [pod_with(each, phase) for each in case.get("ended", ()) for phase in ("Failed",)]
    left = count_running([node], [*running, *ended])
    requested = requested_amounts(pod_with(case["pod"]))
    assert left.lacking("n", requested) == tuple(case.get("lacking", ()))
    fitting, reasons = left.fitting(requested, [node])
    assert [each.name for each in fitting] == ([] if "lacking" in case else ["n"])
    assert [each.message for each in reasons] == ([case["reason"]] if "reason" in case else [])


def test_a_pod_that_ends_leaves_what_it_held() -> None:
    left = NodeResources([node_with({"cpu": "2", "nvidia.com/gpu": "1", "pods": "1"})])
    before = dict(left.left("n"))
    amounts = requested_amounts(pod_with({"cpu": "1", "nvidia.com/gpu": "1"}))
    left.add("n", amounts)
    assert left.left("n") == {"cpu": 1000, "nvidia.com/gpu": 0, "pods": 0}
    left.remove("n", amounts)
    assert left.left("n") == before


@every_row("amount", ["-1e400", "-1", "1n"])
def test_the_nearest_node_is_found_whatever_amount_another_kubelet_reports(amount: str) -> None:
    nodes = [node_with({"nvidia.com/gpu": each}, each) for each in (amount, "5")]
    _, (reason,) = NodeResources(nodes).fitting({"nvidia.com/gpu": 8}, nodes)
    assert reason.example == "5"


@every_row(("amount", "most"), [("1e400", 2**63 - 1), ("-1e400", 1 - 2**63), ("1n", 1), ("7", 7)])
def test_an_amount_of_a_kubelet_is_an_int64(amount: str, most: int) -> None:
    left = NodeResources([node_with({"cpu": amount, "nvidia.com/gpu": amount})]).left("n")
    assert left["nvidia.com/gpu"] == most
    assert abs(left["cpu"]) < 2**63


def test_nodes_that_lack_the_same_share_a_reason_that_names_the_nearest() -> None:
    nodes = [node_with({"cpu": cpu}, name) for name, cpu in (("a", "1"), ("b", "3"), ("c", "2"))]
    fitting, reasons = NodeResources(nodes).fitting({"cpu": 4000}, nodes)
    assert not fitting
    (reason,) = reasons
    assert (reason.before, reason.after, reason.nodes, reason.example) == (3, 0, 3, "b")
    assert reason.message == "insufficient cpu: 4 of cpu requested, at most 3 left"


def test_an_unknown_node_is_not_counted() -> None:
    left = NodeResources(())
    left.add("gone", {"cpu": 1000})
    assert not left.lacking("gone", {"cpu": 1000})
    assert not left.counts("gone", {"cpu": 1000})
