"""Network devices without a network: tokens of the shared RDMA plugin, and names of clouds.

A token, whatever its number, lets a container use all matching devices together with others; a
cloud's resource is one device each, to itself.
"""

import re
from typing import Final

from config.model import Legacy
from translate.asks import Ask, Isolation, Kind, Reading, Share
from translate.draft import Draft
from translate.podview import PodView
from translate.selectors import Nic, NicKind, ResourceName, Selector

NAME: Final = "rdma"
_SHARED: Final = "rdma/"
_DEVICES: Final = (
    re.compile(r"vpc\.amazonaws\.com/efa"),
    re.compile(r"vke\.volcengine\.com/rdma"),
    re.compile(r"networking\.gke\.io\.networks/rdma-\d+"),
)
_FUNCTIONS: Final = "nvidia.com/rdma-vf"
_KEPT: Final = ("networking.gke.io/interfaces", "networking.gke.io/default-interface")


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what every container asks for."""
    draft = Draft(NAME, pod)
    for container in pod.containers:
        for one in container.resources.values():
            token = one.name.startswith(_SHARED)
            function = one.name == _FUNCTIONS
            if not (token or function or any(name.fullmatch(one.name) for name in _DEVICES)):
                continue
            selectors: tuple[Selector, ...] = (Nic(NicKind.RDMA),)
            if function:
                selectors = (*selectors, Nic(NicKind.VF))
            # A token's pool is a choice of the plugin among devices, which nothing publishes.
            pool = () if token else (ResourceName((one.name,)),)
            ask = Ask(
                kind=Kind.NIC,
                row="token" if token else "exclusive",
                count=None if token else draft.count(one),
                share=Share(isolation=Isolation.NONE) if token else None,
                selectors=(*selectors, *pool),
                users=(container.user,),
            )
            draft.ask(ask, (one,))
    if draft.asks:
        draft.annotations(_KEPT, removed=False)
    return draft.reading()
