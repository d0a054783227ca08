"""What a tenant and the driver of a node write, by the numbers of its parts."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench._hostile_claims import Shape, claim, plain_slice
from bench._hostile_shapes import SHAPES
from tests.climbing.climb import Input

Plain = dict[str, Any]
BOTH: Final = (0, 1)
# Of claims, by field of `bench._hostile_claims.Shape`.
_CLAIMS: Final[Mapping[str, Sequence[int]]] = {
    "requests": (1, 2, 4, 8, 16, 32),
    "alternatives": (0, 2, 4, 8),
    "count": (1, 2, 8),
    "all_mode": (0, 1, 4, 16),
    "selectors": (0, 1, 4, 8, 32),
    "equal_selectors": BOTH,
    "match": (0, 1, 4, 8, 32),
    "distinct": (0, 1, 4, 8, 32),
    "near": (0, 1, 4, 8, 32),
    "joint": (0, 1, 4, 8, 32),
    "required": BOTH,
    "attributes": (1, 2, 4, 8),
    "varied": BOTH,
    "configs": (0, 1, 8, 32),
    "admin": BOTH,
    "shared": BOTH,
}
# Of the devices of one node, which its driver publishes.
_DEVICES: Final[Mapping[str, Sequence[int]]] = {
    "devices": (1, 4, 8, 32, 128),
    "groups": (1, 2, 8, 64, 128),
    "partitions": (0, 1, 3, 7),
    "declarations": (0, 1, 4, 20, 60, 1000),
    "rounds": (0, 2, 4, 8, 17),
    "excludes": BOTH,
}
SCHEDULED: Final[Mapping[str, Sequence[int]]] = {
    **_CLAIMS,
    **_DEVICES,
    "claims": (1, 2, 4, 16, 32, 64, 120),
    "members": (1, 2, 8, 32, 128, 1024, 8192),
    "pods": (1, 2, 4),
    "victims": (0, 1, 4, 16, 64),
    "tolerations": (0, 10, 1000, 20_000),
    "values": (0, 10, 1000, 20_000),
    "nodes": (1, 2, 8, 32),
}
JUDGED: Final[Mapping[str, Sequence[int]]] = {
    **_CLAIMS,
    **_DEVICES,
    "nodes": (1, 4, 20, 100),
    "pattern": (0, 1, 2, 3, 4, 5, 6),
    "length": (1, 4, 16, 64, 256, 1024),
}
_NAMES: Final = sorted(SHAPES)
REVIEWED: Final[Mapping[str, Sequence[int]]] = {
    "shape": range(len(_NAMES)),
    "parts": (1, 4, 16, 64, 200, 400, 1000, 4000),
    "other": range(len(_NAMES)),
    "other_parts": (0, 1, 4, 16, 64, 200, 400, 1000),
    "containers": (0, 1, 4, 16, 64, 200),
    "undoes": BOTH,
}
PUBLISHED: Final[Mapping[str, Sequence[int]]] = {
    "slices": (1, 4, 16, 60),
    "devices": (1, 8, 32, 128),
    "attributes": (1, 4, 16, 32),
    "products": (1, 8, 64, 7680),
    "length": (1, 8, 64),
    "capacities": (0, 1, 8),
    "names": (0, 1, 100, 500),
    "nodes": (1, 20, 200),
}
LARGEST_BODY: Final = 3 << 20
# Of the nodes of an allocator.
TAINT: Final = "owned"
# Of a claim.
MOST_DEVICES: Final = 32


def shape_of(given: Input) -> Shape:
    """Return the claims and the devices of an input."""
    numbers = {name: given[name] for name in (*_CLAIMS, *_DEVICES)}
    numbers["count"] = max(1, min(given["count"], MOST_DEVICES // given["requests"]))
    flags = ("equal_selectors", "required", "varied", "admin", "shared", "excludes")
    return Shape(
        claims=given.get("claims", 1),
        devices_first="packed" if given["near"] or given["joint"] else "",
        **numbers | {name: bool(given[name]) for name in flags},  # type: ignore[arg-type]  # by name
    )


def claims_of(shape: Shape, pod: str) -> list[Plain]:
    """Return the claims of a pod."""
    drawn = random.Random(1)
    made = [claim(shape, number, drawn) for number in range(shape.claims)]
    for number, plain in enumerate(made):
        name = f"{pod}-c{number}"
        plain["metadata"] |= {"name": name, "uid": name, "resourceVersion": "1"}
    return made


def slices_of(shape: Shape, nodes: int) -> list[Plain]:
    """Return the slices of nodes. The last one declares with what its devices do not go."""
    plain = Shape(devices=shape.devices, groups=shape.groups, partitions=shape.partitions)
    return [
        plain_slice(shape if number == nodes - 1 else plain, f"n{number}")
        for number in range(nodes)
    ]


def nodes_selected_by(given: Input) -> Plain:
    """Return what selects nodes for a pod: all of them."""
    values = [f"zone-{number}" for number in range(given["values"])]
    expressions = [{"key": "name", "operator": "NotIn", "values": values}] if values else []
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    tolerations: list[Plain] = [
        {"key": f"key-{number}", "operator": "Exists"} for number in range(given["tolerations"])
    ]
    selected: Plain = {"tolerations": [*tolerations, {"key": TAINT, "operator": "Exists"}]}
    if values:
        selected["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return selected


def selector_of(given: Input) -> str:
    """Return a selector that grows in one of several ways."""
    uuid, length = 'device.attributes["gpu.example.com"].uuid', given["length"]
    return (
        "",
        " && ".join(f'{uuid} != "{each}"' for each in range(length)),
        f'{uuid}.matches("{"(a|b)?" * min(length, 400)}c")',
        f'"{"x" * min(8 * length, 8000)}".contains({uuid})',
        f"[{','.join(map(str, range(min(length, 300))))}].exists(a, string(a) == {uuid})",
        f'{uuid}.split("").exists(a, a == "{"y" * length}")',
        f'{"(" * min(length, 40)}{uuid} == "z"{")" * min(length, 40)}',
    )[given["pattern"]]


def pod_of(given: Input) -> Plain:
    """Return a pod with the parts of two shapes."""
    made: Plain = {"metadata": {"annotations": {}}, "spec": {}}
    for name, parts in (("shape", "parts"), ("other", "other_parts")):
        if given[parts]:
            _merge(made, SHAPES[_NAMES[given[name]]](given[parts]))
    more = [
        {"name": f"more-{number}", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        for number in range(given["containers"])
    ]
    _merge(made, {"spec": {"containers": more}})
    if not given["undoes"]:
        made["metadata"]["annotations"].pop("drawbridge.dev/original", None)
    return {"apiVersion": "v1", "kind": "Pod", **made}


def _merge(into: Plain, other: Mapping[str, Any]) -> None:
    """Merge objects, and put lists one behind the other."""
    for key, value in other.items():
        before = into.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            into[key] = [*before, *value]
        else:
            into[key] = value


def published_by(given: Input, node: str, *, hostile: bool) -> list[Plain]:
    """Return the slices of a node; a hostile driver publishes other products for each device."""
    count = given["slices"] if hostile else 1
    slices = []
    for at in range(count):
        devices = [
            _published_device(given, at * given["devices"] + number, hostile=hostile)
            for number in range(given["devices"])
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": count}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
        slices.append({"metadata": {"name": f"{node}-{at}"}, "spec": spec})
    return slices


def _published_device(given: Input, number: int, *, hostile: bool) -> Plain:
    product = number % given["products"] if hostile else 0
    attributes: Plain = {
        f"{'a' * given['length']}{each}"[-32:]: {"string": f"{number}"}
        for each in range(given["attributes"] if hostile else 1)
    }
    attributes |= {"productName": {"string": f"GPU {product}"}, "type": {"string": "gpu"}}
    capacity = {
        f"c{each}": {"value": f"{number + each + 1}Gi"} for each in range(given["capacities"])
    }
    capacity["memory"] = {"value": f"{product % 200 + 1}Gi"}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": capacity}


def encode(value: object) -> bytes:
    """Return the JSON of an object."""
    return json.dumps(value, separators=(",", ":")).encode()
