"""Builds contexts and claims from the short forms of the case tables."""

from pathlib import Path
from typing import TypeVar

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.judge.context import JudgeContext, build_context
from drawbridge.solver.world import World
from tests.tables import YamlValue, load_cases

FLEETS = {case["name"]: case for case in load_cases(Path(__file__).parent / "cases/fleets.yaml")}
CLASSES = ("gpu", "nic")
T = TypeVar("T")
GATES = Gates(device_compatibility_groups=True, optional_node_operations=True)


def context(fleet: YamlValue, /, **changes: YamlValue) -> JudgeContext:
    """The context of a fleet in the short form."""
    slices = [
        slice_
        for node, classes in fleet["nodes"].items()
        for name, devices in classes.items()
        for slice_ in published(node, name, devices)
    ]
    for name, devices in fleet.get("all_nodes", {}).items():
        slices += published("", name, devices)
    world = World(build_inventory(slices, gates=GATES), device_classes()).as_upstream()
    provider = "aws:///i-1" if fleet.get("autoscaled") else ""
    plugins = fleet.get("allocatable", {})
    nodes = [
        Node(
            name,
            allocatable={key: parse(each) for key, each in plugins.get(name, {}).items()},
            provider_id=provider,
            ready=name not in fleet.get("not_ready", ()),
        )
        for name in fleet["nodes"]
    ]
    return build_context(world, nodes, **changes)


def device_classes() -> dict[str, DeviceClass]:
    """The classes, one for each driver."""
    return {
        name: sure(
            read_class(
                {
                    "metadata": {"name": name},
                    "spec": {
                        "extendedResourceName": f"example.com/{name}",
                        "selectors": [
                            {"cel": {"expression": f'device.driver == "{name}.example.com"'}}
                        ],
                    },
                }
            ),
            DeviceClass,
        )
        for name in CLASSES
    }


def published(node: str, name: str, short: YamlValue) -> list[Slice]:
    """The slices of a node for one driver; of all nodes together if it is empty."""
    selection: YamlValue = {"nodeName": node} if node else {"allNodes": True}
    driver = f"{name}.example.com"
    devices = [device(name, number, short) for number in range(short["count"])]
    contents: list[YamlValue] = [{"devices": devices}]
    if short.get("skipped"):
        contents[0]["skipNodeOperations"] = ["*"]
    if "sets" in short:
        sets = [
            {"name": counter_set, "counters": quantities(amounts)}
            for counter_set, amounts in short["sets"].items()
        ]
        contents.append({"sharedCounters": sets})
    pool = {
        "name": node or "all",
        "generation": 1,
        "resourceSliceCount": short.get("slices", len(contents)),
    }
    return [
        sure(
            read_slice(
                {
                    "metadata": {"name": f"{pool['name']}-{name}-{number}"},
                    "spec": {"driver": driver, "pool": pool, **selection, **content},
                }
            ),
            Slice,
        )
        for number, content in enumerate(contents)
    ]


def device(name: str, number: int, short: YamlValue) -> YamlValue:
    """One device in the form of the API."""
    attributes = short.get("attributes", {})
    if isinstance(attributes, list):
        attributes = attributes[number]
    plain: YamlValue = {
        "name": f"{name}-{number}",
        "attributes": {
            key: {"int" if isinstance(value, int) else "string": value}
            for key, value in attributes.items()
        },
        "capacity": quantities(short.get("capacity", {})),
        "allowMultipleAllocations": short.get("shared", False),
    }
    if roots := short.get("roots"):
        root = {"string": roots[number % len(roots)]}
        plain["attributes"]["resource.kubernetes.io/pcieRoot"] = root
    for key, policy in short.get("policy", {}).items():
        plain["capacity"][key]["requestPolicy"] = policy
    if draws := short.get("draws"):
        counters = quantities(draws[number])
        plain["consumesCounters"] = [
            {"counterSet": next(iter(short["sets"])), "counters": counters}
        ]
    if taint := short.get("taint"):
        plain["taints"] = [taint]
    return plain


def quantities(amounts: YamlValue) -> YamlValue:
    """Amounts by name in the form of the API."""
    return {name: {"value": f"{amount}"} for name, amount in amounts.items()}


def claim(short: YamlValue, name: str = "c") -> Claim:
    """A claim from its devices in the short form."""
    requests = []
    for number, asked in enumerate(short["requests"]):
        if alternatives := asked.get("firstAvailable"):
            several = [{"name": f"s{i}"} | request(one) for i, one in enumerate(alternatives)]
            requests.append({"name": f"r{number}", "firstAvailable": several})
        else:
            requests.append({"name": f"r{number}", "exactly": request(asked)})
    devices = {"requests": requests, "constraints": short.get("constraints", [])}
    plain = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": devices}}
    return sure(read_claim(plain), Claim)


def request(short: YamlValue) -> YamlValue:
    """What `exactly` or an alternative holds."""
    plain: YamlValue = {"deviceClassName": short["class"]}
    plain |= {key: short[key] for key in ("count", "tolerations", "adminAccess") if key in short}
    if "where" in short:
        plain["selectors"] = [{"cel": {"expression": short["where"]}}]
    if "capacity" in short:
        plain["capacity"] = {"requests": short["capacity"]}
    if short.get("all"):
        plain["allocationMode"] = "All"
    return plain


def sure(read: object, kind: type[T]) -> T:
    """What was read, if it could be read."""
    assert isinstance(read, kind), read
    return read
