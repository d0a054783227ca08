"""The dialect of nos: MPS slices with the size in the resource name, `nvidia.com/gpu-10gb`."""

import re
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Kind, PodRequests
from drawbridge.translate.legacy.codes import MEANING_CHANGES
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import PodView

NAME: Final = "nos"
PROJECT: Final = "nos"
TRIGGERS: Final = frozenset({"nvidia.com"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
_SIZE: Final = re.compile(r"nvidia\.com/gpu-([1-9]\d{0,3})gb")


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        for resource in container.resources.values():
            match = _SIZE.fullmatch(resource.name)
            if match is None:
                continue
            share = DeviceShare(memory=Bytes(int(match[1]) << 30), isolation=Isolation.MPS)
            ask = Ask(
                kind=Kind.GPU,
                row="memory",
                vendor="nvidia",
                count=builder.read_count(resource),
                share=share,
                users=(container.user,),
            )
            builder.add_ask(ask, (resource,))
            builder.findings.append(
                MEANING_CHANGES.at(
                    resource.where,
                    f"{resource.original_name} was a slice of a GPU made by MPS; now the DRA "
                    "driver decides how slices are isolated",
                )
            )
    return builder.build()
