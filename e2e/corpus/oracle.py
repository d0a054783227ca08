"""Reads which devices a YAML or JSON file names, without Drawbridge's tables.

The names of vendors are from their device plugins. A request is an amount beside such a name; what
is 0 or empty requests nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_DOMAINS: Final = (
    "nvidia.com", "amd.com", "gpu.intel.com", "habana.ai", "intel.com", "aws.amazon.com",
    "vpc.amazonaws.com", "google.com", "huawei.com", "cambricon.com", "hygon.com", "iluvatar.ai",
    "iluvatar.com", "metax-tech.com", "mthreads.com", "enflame.com", "kunlunxin.com",
    "birentech.com", "furiosa.ai", "aliyun.com", "volcano.sh", "koordinator.sh", "tensor-fusion.ai",
    "nos.nebuly.com", "run.ai", "rdma", "mellanox.com", "openshift.io", "xilinx.com", "4pd.io",
)  # fmt: skip
_NAME: Final = re.compile(rf"(?:{'|'.join(map(re.escape, _DOMAINS))})/[A-Za-z0-9][A-Za-z0-9._-]*")
# Names in these domains that are no devices: labels of nodes, and other fields of the projects.
_NO_DEVICE: Final = re.compile(
    r"(aws\.amazon|google)\.com/(?!neuron|tpu).*"
    r"|aliyun\.com/(?!gpu|ppu).*|volcano\.sh/(?!v?gpu|vnpu).*|koordinator\.sh/(?!gpu|rdma|fpga).*"
    r"|tensor-fusion\.ai/(?!vram|tflops|vgpu|index).*|openshift\.io/(?!sriov|mlnx).*"
    r"|run\.ai/.*|intel\.com/(power|cpu).*"
)
_PARTS: Final = ("limits", "requests")
_ANNOTATIONS: Final = re.compile(
    r"gpu-fraction(\..+)?|gpu-memory(\..+)?|.*/(use|nouse)-gpu(type|uuid)"
    r"|scheduling\.koordinator\.sh/device-.+"
)


class Request(NamedTuple):
    """A device that one document requests, and the keys above its name."""

    document: int
    path: tuple[object, ...]
    name: str


def read_file(path: Path) -> list[Any]:
    """Read the documents of a file; none if it is not YAML."""
    try:
        return list(yaml.load_all(path.read_text("utf-8"), yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return []


def names_devices(path: Path) -> bool:
    """Whether a line of a file names a device, outside comments."""
    text = path.read_bytes().decode(errors="replace")
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(is_device(match[0]) for line in lines for match in _NAME.finditer(line))


def is_device(name: str) -> bool:
    """Whether a name is that of a device."""
    return bool(_NAME.fullmatch(name)) and not _NO_DEVICE.fullmatch(name)


def find_requests(documents: list[Any]) -> list[Request]:
    """Find the requests of documents: resources, annotations of pods, and amounts of operators."""
    return [
        Request(number, path, name)
        for number, document in enumerate(documents)
        for path, name in _find(document, ())
    ]


def holds(documents: list[Any], request: Request) -> bool:
    """Whether documents have the key of a request at its place."""
    if request.document >= len(documents):
        return False
    value = documents[request.document]
    for step in request.path:
        listed = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(listed, dict) or step not in listed:
            return False
        value = listed[step]
    return not isinstance(value, dict) or request.name in value


def _find(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:  # noqa: ANN401  # any document
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find(item, (*path, number))
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key in _PARTS and isinstance(inner, dict):
            for name, amount in inner.items():
                if is_device(f"{name}") and f"{amount}" not in {"0", "", "None"}:
                    yield (*path, key, name), f"{name}"
        elif path and path[-1] == "annotations" and _ANNOTATIONS.fullmatch(f"{key}"):
            yield (*path, key), f"{key}"
        elif isinstance(inner, str) and is_device(inner) and _counts(value):
            yield (*path, key), inner
        else:
            yield from _find(inner, (*path, key))


def _counts(value: dict[Any, Any]) -> bool:
    """Whether an object has an amount beside the name of a resource."""
    return not {"quantity", "amount", "count"}.isdisjoint(value)
