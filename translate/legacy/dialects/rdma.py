"""Network devices without a network: tokens of the shared RDMA plugin, and names of clouds.

A token, whatever its number, lets a container use all matching devices together with others; a
cloud's resource is one device each, to itself.
"""

import re
from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Isolation, Kind, Reading, Share
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView
from translate.legacy.selectors import Nic, NicKind, ResourceName, Selector

NAME: Final = "rdma"
CALLED_BY: Final = frozenset(
    {
        "rdma",
        "nvidia.com/rdma-vf",
        "vpc.amazonaws.com",
        "vke.volcengine.com",
        "networking.gke.io.networks",
    }
)
_SHARED: Final = "rdma/"
_COMMON: Final = "token"  # the word for a count that counts nothing
_DEVICES: Final = (
    re.compile(r"vpc\.amazonaws\.com/efa"),
    re.compile(r"vke\.volcengine\.com/rdma"),
)
# One network of several; which device is in which, nothing publishes.
_NETWORK: Final = re.compile(r"networking\.gke\.io\.networks/rdma-\d+")
_FUNCTIONS: Final = "nvidia.com/rdma-vf"
_KEPT: Final = ("networking.gke.io/interfaces", "networking.gke.io/default-interface")


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what every container asks for."""
    draft = Draft(NAME, pod)
    for container in pod.containers:
        for one in container.resources.values():
            row = _row(one.name)
            if not row:
                continue
            selectors: tuple[Selector, ...] = (Nic(NicKind.RDMA),)
            if one.name == _FUNCTIONS:
                selectors = (*selectors, Nic(NicKind.VF), ResourceName((one.name,)))
            ask = Ask(
                kind=Kind.NIC,
                row=row,
                count=1 if row == _COMMON else draft.count(one),
                share=Share(isolation=Isolation.NONE) if row == _COMMON else None,
                selectors=selectors,
                users=(container.user,),
            )
            draft.ask(ask, (one,))
    if draft.asks:
        draft.annotations(_KEPT, removed=False)
    return draft.reading()


def _row(name: str) -> str:
    """Tell which row of the decisions' table a resource is in; empty where it is none of ours."""
    if name.startswith(_SHARED):
        return _COMMON
    if _NETWORK.fullmatch(name):
        return "network"
    exclusive = name == _FUNCTIONS or any(each.fullmatch(name) for each in _DEVICES)
    return "exclusive" if exclusive else ""
