"""Shares by a size in the resource's name, as nos makes them by MPS: `nvidia.com/gpu-10gb`."""

import re
from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Bytes, Isolation, Kind, Reading, Share
from translate.legacy.codes import MEANING_CHANGES
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView

NAME: Final = "nos"
CALLED_BY: Final = frozenset({"nvidia.com"})
_SIZE: Final = re.compile(r"nvidia\.com/gpu-([1-9]\d{0,3})gb")


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what every container asks for."""
    draft = Draft(NAME, pod)
    for container in pod.containers:
        for one in container.resources.values():
            match = _SIZE.fullmatch(one.name)
            if match is None:
                continue
            share = Share(memory=Bytes(int(match[1]) << 30), isolation=Isolation.MPS)
            ask = Ask(
                kind=Kind.GPU,
                row="memory",
                vendor="nvidia",
                count=draft.count(one),
                share=share,
                users=(container.user,),
            )
            draft.ask(ask, (one,))
            draft.findings.append(
                MEANING_CHANGES.at(
                    one.where,
                    f"{one.written} was a slice made by MPS; what keeps slices apart now depends "
                    "on the driver",
                )
            )
    return draft.reading()
