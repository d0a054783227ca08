"""AMD's device plugin: whole GPUs, and partitions by compute and memory mode.

Shares by memory and cores belong to HAMi, and no driver serves them.
"""

import re
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import Ask, Kind, PodRequests
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import PodView
from drawbridge.translate.legacy.selectors import PartitionProfile

NAME: Final = "amd"
PROJECT: Final = ""
TRIGGERS: Final = frozenset({"amd.com"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
_GPU: Final = "amd.com/gpu"
_PARTS: Final = ("amd.com/gpumem", "amd.com/gpumem-percentage", "amd.com/gpucores")
_PARTITION: Final = re.compile(r"amd\.com/([sdtqc]px_nps[0-9])")


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        if any(name in container.resources for name in _PARTS):
            continue
        for resource in container.resources.values():
            match = _PARTITION.fullmatch(resource.name)
            if resource.name != _GPU and match is None:
                continue
            ask = Ask(
                kind=Kind.GPU,
                row="partition" if match else "whole",
                vendor="amd",
                count=resource.amount if match else builder.read_count(resource),
                selectors=(PartitionProfile((match[1],)),) if match else (),
                partition=match is not None,
                users=(container.user,),
            )
            builder.add_ask(ask, (resource,))
    return builder.build()
