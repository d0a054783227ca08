"""Reads pods of any size in a short time.

A pod has as many containers and requests as fit into 1.5 MiB, and each change of its labels brings
all of them again. Nobody waits while they are counted: of a large pod, the allocator leaves CPU and
memory out, which only strategies compare, and keeps the names that can be of device plugins.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from drawbridge.dra.decode import Reader
from drawbridge.dra.quantity import Quantity
from drawbridge.finding import Finding
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.ledger.extended_resources import is_extended
from drawbridge.ledger.pods import ContainerResources, Pod

# Such a pod is read whole within a few milliseconds. Others have a tenth of it.
MAX_WHOLE: Final = 64 << 10
# The fields of a spec and of a status with amounts, or with a part for each container.
_COUNTED: Final = (
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "overhead",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
    "allocatedResources",
)
# No node has so many extended resources, so no kubelet runs a pod that requests more of them.
_MAX_NAMES: Final = 256
_ZERO: Final = re.compile(rb'"?[+-]?[0.]+(?![0-9.])')


class _Resources(msgspec.Struct, gc=False):
    requests: dict[str, msgspec.Raw] = {}
    limits: dict[str, msgspec.Raw] = {}


class _Container(msgspec.Struct, gc=False):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(msgspec.Struct, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Part(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PARTS: Final = msgspec.json.Decoder(_Part)


class PodReader(Reader[Pod]):
    """Reads pods; of a large one, the names that its containers request are those of the pod."""

    def __init__(self) -> None:
        super().__init__("Pod", {"v1": Pod})

    def read(
        self, raw: object, *, version: str = "", ordinal: int | None = None
    ) -> Pod | tuple[Finding, ...]:
        """Read one pod."""
        if not isinstance(raw, bytes) or len(raw) <= MAX_WHOLE:
            return super().read(raw, version=version, ordinal=ordinal)
        try:
            left, names = _without_counted(raw), [*islice(_find_names(raw), _MAX_NAMES)]
        except UNDECODABLE:
            return super().read(raw, version=version, ordinal=ordinal)  # says why
        pod = super().read(left, version=version, ordinal=ordinal)
        if not isinstance(pod, Pod) or not pod.is_running:
            return pod
        requests = dict.fromkeys(names, Quantity.of(1))
        spec = msgspec.structs.replace(pod.spec, resources=ContainerResources(requests))
        return msgspec.structs.replace(pod, spec=spec)


def _without_counted(raw: bytes) -> bytes:
    fields: dict[str, Any] = _FIELDS.decode(raw)
    for part in ("spec", "status"):
        if part in fields and bytes(fields[part]) != b"null":
            left = _FIELDS.decode(fields[part])
            fields[part] = {name: each for name, each in left.items() if name not in _COUNTED}
    return msgspec.json.encode(fields)


def _find_names(raw: bytes) -> Iterator[str]:
    """Yield the extended resources of which a container requests more than nothing."""
    spec, seen = _PARTS.decode(raw).spec, set[str]()
    for container in (*spec.init_containers, *spec.containers):
        resources = container.resources
        for name, amount in (resources.limits | resources.requests).items():
            if name not in seen and not _ZERO.match(bytes(amount)):
                seen.add(name)
                if is_extended(name):
                    yield name
