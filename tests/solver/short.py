"""Expands the short form of the case tables to plain Kubernetes objects.

By default the driver is gpu.example.com, class `gpu` selects its devices, and a pool has the name
of its node.
"""

import json
from collections.abc import Iterable
from typing import Any

from drawbridge.dra.allocation import Allocation
from drawbridge.names import API_VERSION, RULES_ANNOTATION

Json = dict[str, Any]

DRIVER = "gpu.example.com"
CLASSES: Json = {
    "gpu": [f'device.driver == "{DRIVER}"'],
    "nic": ['device.driver == "nic.example.com"'],
    "any": [],
}


def scenario(case: Json) -> Json:
    """Expand a case to a scenario."""
    classes = CLASSES | case.get("classes", {})
    claims = case.get("claims") or [{"requests": case["requests"], **case.get("claim", {})}]
    nodes = case.get("nodes", ["n1"])
    ours = ("compatibility", "unsetGroups", "partitions")
    extras = {key: case[key] for key in ours if key in case}
    return {
        "name": case["name"],
        "version": str(case.get("version", "1.37")),
        "gates": case.get("gates", {}),
        "nodes": [_node(each) for each in nodes],
        "slices": [_slice(each, i) for i, each in enumerate(case["slices"])],
        "classes": [_class(name, each) for name, each in classes.items()],
        "claims": [_claim(each, f"c{i}") for i, each in enumerate(claims)],
        "allocated": [_held(each, i) for i, each in enumerate(case.get("allocated", []))],
        "seed": None,
        **extras,
    }


def _node(short: Any) -> Json:  # noqa: ANN401  # a name or a mapping
    if isinstance(short, str):
        short = {"name": short}
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": short["name"], "labels": short.get("labels", {})},
    }
    if "features" in short:
        node["status"] = {"declaredFeatures": short["features"]}
    return node


def _slice(short: Json, number: int) -> Json:
    short = dict(short)
    node = short.pop("node", None)
    driver = short.pop("driver", DRIVER)
    pool = {
        "name": short.pop("pool", node or "p"),
        "generation": short.pop("generation", 1),
        "resourceSliceCount": short.pop("count", 1),
    }
    name = short.pop("name", f"slice-{number:02}")
    spec: Json = {"driver": driver, "pool": pool}
    forms = {"allNodes", "nodeSelector", "perDeviceNodeSelection"}
    if node:
        spec["nodeName"] = node
    elif not forms & short.keys():
        spec["allNodes"] = True
    devices = short.pop("devices", [])
    if devices:
        spec["devices"] = [_device(each) for each in devices]
    if "counters" in short:
        spec["sharedCounters"] = [
            {"name": counter_set, "counters": {k: {"value": str(v)} for k, v in amounts.items()}}
            for counter_set, amounts in short.pop("counters").items()
        ]
    metadata: Json = {"name": name}
    if "annotations" in short:
        metadata["annotations"] = short.pop("annotations")
    return _object("ResourceSlice", metadata, spec | short)


def _object(kind: str, metadata: Json, spec: Json) -> Json:
    version = "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _device(short: Any) -> Json:  # noqa: ANN401  # a name or a mapping
    if isinstance(short, str):
        return {"name": short}
    device = dict(short)
    if "attributes" in device:
        device["attributes"] = {k: _attribute(v) for k, v in device["attributes"].items()}
    if "capacity" in device:
        device["capacity"] = {
            k: v if isinstance(v, dict) else {"value": str(v)}
            for k, v in device["capacity"].items()
        }
    groups = device.pop("groups", [])
    if "draws" in device:
        device["consumesCounters"] = [
            {
                "counterSet": name,
                "counters": {k: {"value": str(v)} for k, v in amounts.items()},
                **({"compatibilityGroups": groups} if groups else {}),
            }
            for name, amounts in device.pop("draws").items()
        ]
    if device.pop("shared", False):
        device["allowMultipleAllocations"] = True
    if "taints" in device:
        device["taints"] = [_taint(each) for each in device["taints"]]
    if "onlyWith" in device:
        device["compatibleOnlyWith"] = {"expression": device.pop("onlyWith")}
    return device


def _attribute(value: Any) -> Json:  # noqa: ANN401  # of any kind
    match value:
        case dict():
            return value
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case [int(), *_]:
            return {"ints": value}
        case list():
            return {"strings": value}
        case _:
            return {"string": value}


def _taint(short: str) -> Json:
    rest, _, effect = short.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _class(name: str, short: Any) -> Json:  # noqa: ANN401  # selectors, or a mapping
    given = {"selectors": short} if isinstance(short, list) else dict(short)
    spec: Json = {"selectors": [{"cel": {"expression": each}} for each in given["selectors"]]}
    if "config" in given:
        spec["config"] = [{"opaque": each} for each in given["config"]]
    return _object("DeviceClass", {"name": name}, spec)


def _claim(short: Json, name: str) -> Json:
    devices: Json = {"requests": [_request(k, v) for k, v in short["requests"].items()]}
    constraints = [
        {f"{kind}Attribute": constraint} if isinstance(constraint, str)
        else {f"{kind}Attribute": constraint["attribute"], "requests": constraint["requests"]}
        for kind in ("match", "distinct")
        for constraint in short.get(kind, [])
    ] + short.get("constraints", [])  # fmt: skip
    if constraints:
        devices["constraints"] = constraints
    if "config" in short:
        devices["config"] = short["config"]
    metadata: Json = {"name": name, "namespace": "default", "uid": name}
    if "rules" in short:
        metadata["annotations"] = {RULES_ANNOTATION: _rules(short["rules"])}
    return _object("ResourceClaim", metadata, {"devices": devices})


def _rules(short: Any) -> str:  # noqa: ANN401  # rules without header, or the plain text
    if isinstance(short, str):
        return short
    return json.dumps({"apiVersion": API_VERSION, "kind": "Rules", **short})


def _request(name: str, short: Any) -> Json:  # noqa: ANN401  # a count, alternatives or a mapping
    if isinstance(short, list):
        subs = [{"name": f"s{i}"} | _wanted(each) for i, each in enumerate(short)]
        return {"name": name, "firstAvailable": subs}
    return {"name": name, "exactly": _wanted(short)}


def _wanted(short: Any) -> Json:  # noqa: ANN401  # a count or a mapping
    if not isinstance(short, dict):
        short = {"count": short} if isinstance(short, int) else {"all": True}
    wanted: Json = {"deviceClassName": short.get("class", "gpu")}
    if short.get("all"):
        wanted["allocationMode"] = "All"
    else:
        wanted |= {"allocationMode": "ExactCount", "count": short.get("count", 1)}
    if "if" in short:
        given = short["if"] if isinstance(short["if"], list) else [short["if"]]
        wanted["selectors"] = [{"cel": {"expression": each}} for each in given]
    if "admin" in short:
        wanted["adminAccess"] = short["admin"]
    if "tolerate" in short:
        wanted["tolerations"] = [{"operator": "Equal"} | each for each in short["tolerate"]]
    if "capacity" in short:
        wanted["capacity"] = {"requests": {k: str(v) for k, v in short["capacity"].items()}}
    if "derive" in short:
        wanted["derivedAttributes"] = [
            {"name": k, "expression": v} for k, v in short["derive"].items()
        ]
    return wanted


def _held(short: Any, number: int) -> Json:  # noqa: ANN401  # a device, or a mapping
    given = {"device": short} if isinstance(short, str) else short
    *driver, pool, device = given["device"].split("/")
    result: Json = {
        "request": "r",
        "driver": driver[0] if driver else DRIVER,
        "pool": pool,
        "device": device,
    }
    if given.get("admin"):
        result["adminAccess"] = True
    if "share" in given:
        result["shareID"] = f"00000000-0000-4000-8000-{number:012}"
        if given["share"]:
            result["consumedCapacity"] = {k: str(v) for k, v in given["share"].items()}
    claim = _claim({"requests": {"r": 1}}, f"held-{number}")
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    return claim


def picked(allocations: Iterable[Allocation]) -> list[str]:
    """Write a solution like a case: `request=device`, claim by claim."""
    return [
        f"{result.request}={result.device}"
        for allocation in allocations
        for result in allocation.devices.results
    ]
