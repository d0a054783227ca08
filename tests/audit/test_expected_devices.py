"""Drivers are expected to publish what the claims select by that replace requests to plugins."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.translate.manifests.workloads import find_places
from tests.audit.follow import audit
from tests.audit.test_cases import node_objects
from tests.tables import every_row, read_yaml_documents

LEGACY = Path(__file__).parents[2] / "examples" / "legacy"
NVIDIA = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/cuda.driver-version.major": "570",
    "nvidia.com/cuda.driver-version.minor": "86",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "8",
}
AMD = {
    "amd.com/gpu.product-name": "Instinct",
    "amd.com/gpu.family": "AI",
    "amd.com/gpu.vram": "192G",
}
INTEL = {"gpu.intel.com/product": "Flex_170", "gpu.intel.com/family": "Flex_Series"}
LIST = [{"id": f"GPU-{n}", "devmem": 81920, "type": "NVIDIA-A100"} for n in range(8)]
GOES = frozenset({"toTranslate", "byClass"})
ANY = GOES | {"stays", "refused"}
HAMI = {"hami.io/node-nvidia-register": json.dumps(LIST)}


def _examples() -> Iterator[Any]:
    """Yield the pods of the examples that a plugin on the node can serve, and its annotations."""
    for file in sorted(LEGACY.glob("*.yaml")):
        for document in filter(None, read_yaml_documents(file.read_text())):
            for number, place in enumerate(find_places(document)):
                notes = HAMI if file.stem == "hami" else {}
                yield pytest.param(place.pod, notes, ANY, id=f"{file.stem} {number}")


def _asks() -> Iterator[Any]:
    """Yield pods that ask for several shares, and pods that select nodes by what their GPUs are."""
    two = _pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192})
    uuids = {"annotations": {"nvidia.com/use-gpuuuid": "GPU-3,GPU-5"}}
    yield pytest.param(two, HAMI, GOES, id="two of hami")
    yield pytest.param({**two, "metadata": uuids}, HAMI, GOES, id="these of hami")
    two = _pod({"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 8192})
    yield pytest.param(two, {}, GOES, id="two of volcano")
    yield pytest.param(_pod({"amd.com/cpx_nps4": 1}), {}, GOES, id="a partition")
    names = {"nvidia.com/gpu": NVIDIA, "amd.com/gpu": AMD, "gpu.intel.com/xe": INTEL}
    for name, labels in names.items():
        for key, value in labels.items():
            yield pytest.param(_pod({name: 1}, {key: value}), {}, GOES, id=f"{name} of {key}")


def _pod(limits: dict[str, int], selector: dict[str, str] | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"spec": {"containers": [container], "nodeSelector": selector or {}}}


@every_row("pod, notes, fates", [*_examples(), *_asks()])
def test_what_is_translated_finds_devices_where_the_plugin_was(
    pod: dict[str, Any], notes: dict[str, str], fates: frozenset[str], tmp_path: Path
) -> None:
    spec = {**pod["spec"], "nodeName": "node-1"}
    metadata = {**pod.get("metadata", {}), "name": "pod", "namespace": "a"}
    asked = {name for each in spec["containers"] for name in _names(each)}
    node = {
        "name": "node-1",
        "plugin": "nvidia",
        "units": dict.fromkeys(asked, 800_000),
        "labels": {**NVIDIA, **AMD, **INTEL, **spec.get("nodeSelector", {})},
        "annotations": notes,
    }
    kinds = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}
    told = audit([*node_objects(node), {**kinds, "metadata": metadata, "spec": spec}], tmp_path)
    assert told["fit"]["notInPlace"] == []
    assert fates.issuperset(e["fate"] for space in told["namespaces"] for e in space["workloads"])


def _names(container: dict[str, Any]) -> Iterator[str]:
    for amounts in container.get("resources", {}).values():
        yield from (name for name in amounts if "/" in name)
