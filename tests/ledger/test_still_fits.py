"""Whether running pods still fit after a migration, where they are and packed anew."""

import random
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import slice_reader
from drawbridge.ledger.extended_resources import ServingClass
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.ledger.still_fits import Fit, nodes_after, still_fits
from drawbridge.solver.deviations import Allocator
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "still_fits.yaml")
PLUGIN = "nvidia.com/gpu"
BY_CLASS = "example.com/gpu"


def read(reader: Reader[YamlValue], value: YamlValue) -> YamlValue:
    read = reader.read(value)
    assert not isinstance(read, tuple), read
    return read


class Cluster:
    """The cluster of a case, in which kube-scheduler places all pods."""

    def __init__(self, case: YamlValue) -> None:
        self.nodes_of_case = [node_of(name, each) for name, each in case["nodes"].items()]
        self._planner = Planner(allocator=Allocator.UPSTREAM)
        for name, node in case["nodes"].items():
            if node.get("gpu"):
                self._planner.update(read(slice_reader(), slice_of(name, node["gpu"])))
        self._planner.update(gpu_class())
        for node in self.nodes_of_case:
            self._planner.update(node)
        self.pods = [pod for name, each in case["pods"].items() for pod in pods_of(name, each)]
        self.claims = [*claims_of(case)]

    def choose(self, pod: Pod) -> Allocator:
        """Return the only allocator."""
        assert pod in self.pods
        return Allocator.UPSTREAM

    def planner(self, allocator: Allocator) -> Planner:
        """Return the planner of the case."""
        assert allocator is Allocator.UPSTREAM
        return self._planner

    def nodes(self, allocator: Allocator, nodes: ClusterNodes) -> ClusterNodes:
        """Return all nodes."""
        assert allocator is Allocator.UPSTREAM
        return nodes

    def answer(self) -> Mapping[str, Fit]:
        """Place the pods of the case."""
        advertised = {
            each.name: frozenset({PLUGIN} & each.allocatable.keys()) for each in self.nodes_of_case
        }
        nodes = ClusterNodes(
            nodes=tuple(self.nodes_of_case),
            advertised=advertised,
            classes={BY_CLASS: ServingClass("gpu")},
        )
        fit = still_fits(self.pods, nodes, self, self.claims, templates_of(self.pods))
        return {"in_place": fit.in_place, "packed": fit.packed}


def node_of(name: str, case: YamlValue) -> Node:
    allocatable = {"cpu": case["cpu"], "pods": "110"}
    if "plugin" in case:
        allocatable[PLUGIN] = case["plugin"]
    value = {
        "metadata": {"name": name, "labels": case.get("labels", {})},
        "spec": {"unschedulable": case.get("cordoned", False), "taints": case.get("taints", [])},
        "status": {"allocatable": allocatable},
    }
    node: Node = read(node_reader(), value)
    return node


def slice_of(node: str, devices: int) -> YamlValue:
    return {
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"{node}-{number}", "attributes": {"kind": {"string": f"kind-{node}"}}}
                for number in range(devices)
            ],
        },
    }


def gpu_class() -> DeviceClass:
    device_class: DeviceClass = read(class_reader(), {"metadata": {"name": "gpu"}, "spec": {}})
    return device_class


def request(devices: int, kind: str = "") -> YamlValue:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
    if kind:
        expression = f"device.attributes['gpu.example.com'].kind == '{kind}'"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def templates_of(pods: Iterable[Pod]) -> list[Template]:
    names = {
        each.resource_claim_template_name or "" for pod in pods for each in pod.spec.resource_claims
    }
    return [
        read(
            template_reader(),
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"spec": request(int(number), kind)},
            },
        )
        for name in names
        for _, number, kind in [name.split("-", 2)]
    ]


def pods_of(name: str, case: YamlValue) -> Iterator[Pod]:
    requests = {"cpu": case["cpu"]}
    if "plugin" in case:
        requests[PLUGIN] = case["plugin"]
    if "by class" in case:
        requests[BY_CLASS] = case["by class"]
    spec: YamlValue = {
        "nodeName": case["node"],
        "nodeSelector": case.get("selector", {}),
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    if "gpu" in case:
        template = {
            "name": "gpu",
            "resourceClaimTemplateName": f"gpu-{case['gpu']}-{case.get('kind', '')}",
        }
        spec["resourceClaims"] = [template]
    if "daemon" in case:
        field = {"key": "metadata.name", "operator": "In", "values": [case["node"]]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    static = {"kubernetes.io/config.mirror": "x"} if "static" in case else {}
    status: YamlValue = {"phase": "Running"}
    if "by class" in case:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": f"{name}-claim"}
    elif "holds" in case:
        of_claim = {"name": "gpu", "resourceClaimName": f"{name}-claim"}
        status["resourceClaimStatuses"] = [of_claim]
    for number in range(case.get("of", 1)):
        full = f"{name}-{number}" if "of" in case else name
        value = {
            "metadata": {"name": full, "namespace": "default", "annotations": static},
            "spec": spec,
            "status": status,
        }
        yield read(pod_reader(), value)


def claims_of(case: YamlValue) -> Iterator[Claim]:
    for name, pod in case["pods"].items():
        if "holds" in pod:
            user = {"resource": "pods", "name": name, "uid": ""}
            yield claim_of(f"{name}-claim", pod["node"], pod["holds"], user)
    for node, device in case.get("others", {}).items():
        user = {"resource": "pods", "name": "of-somebody-else", "uid": "1"}
        yield claim_of(f"of-{device}", node, device, user)


def claim_of(name: str, node: str, device: str, user: YamlValue) -> Claim:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    value = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": request(1),
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [user],
        },
    }
    claim: Claim = read(claim_reader(), value)
    return claim


def named(pod: str) -> str:
    return pod.removeprefix("default/")


@every_row("case", CASES, ids=itemgetter("name"))
def test_running_pods_still_fit_or_say_why_not(case: YamlValue) -> None:
    cluster = Cluster(case)
    for way, fit in cluster.answer().items():
        expected = case.get("refused", {}).get(way, {})
        refused = {named(each.pod): [r.code for r in each.reasons] for each in fit.refused}
        assert refused == expected, way
        assert fit.pods == len(cluster.pods) == len(fit.nodes) + len(fit.refused)
        on = {named(each): node for each, node in fit.nodes.items()}
        if way == "in_place":
            runs = {each.metadata.name: each.spec.node_name for each in cluster.pods}
            assert on == {name: node for name, node in runs.items() if name not in expected}
        else:
            assert {name: on.get(name) for name in case.get("packed", {})} == case.get("packed", {})


@every_row("case", CASES, ids=itemgetter("name"))
def test_the_order_of_the_input_does_not_matter(case: YamlValue) -> None:
    straight, mixed = Cluster(case), Cluster(case)
    for each in (mixed.pods, mixed.claims):
        random.Random(3).shuffle(each)
    assert straight.answer() == mixed.answer()


def test_progress_ends_with_both_placements_of_all_pods() -> None:
    cluster, told = Cluster(CASES[0]), list[tuple[int, int]]()
    nodes = ClusterNodes(nodes=tuple(cluster.nodes_of_case))

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    still_fits(cluster.pods, nodes, cluster, (), templates_of(cluster.pods), progress=tell)
    assert told == sorted(told)
    assert told[-1] == (4, 4)


def test_a_plugin_goes_where_a_node_does_not_keep_it() -> None:
    label = "drawbridge.dev/dual"
    plugin = {"cpu": 4, "plugin": 1, "labels": {label: "true"}}
    free, needed = node_of("a", plugin), node_of("b", {**plugin, "labels": {}})
    other = node_of("c", {"cpu": 4})
    first, second, third = nodes_after((free, needed, other), {"b"}, {PLUGIN}, label)
    assert (PLUGIN in first.allocatable, label in first.labels) == (False, False)
    assert (PLUGIN in second.allocatable, second.labels[label]) == (True, "true")
    assert third is other
