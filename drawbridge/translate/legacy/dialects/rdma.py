"""Network devices without a network: the shared RDMA device plugin and resources of clouds.

A token of the shared plugin gives a container all matching devices, shared with other pods,
regardless of the amount. A cloud's resource is a number of exclusive devices.
"""

import re
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import Ask, DeviceShare, Isolation, Kind, PodRequests
from drawbridge.translate.legacy.codes import MEANING_CHANGES
from drawbridge.translate.legacy.draft import MAX_NICS, RequestBuilder
from drawbridge.translate.legacy.pod_view import PodView, annotation_path
from drawbridge.translate.legacy.selectors import (
    AskSelector,
    NicIs,
    NicKind,
    PluginPool,
    ProductContains,
)

NAME: Final = "rdma"
PROJECT: Final = ""
TRIGGERS: Final = frozenset(
    {
        "rdma",
        "nvidia.com/rdma-vf",
        "vpc.amazonaws.com",
        "vke.volcengine.com",
        "networking.gke.io.networks",
    }
)
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
_SHARED: Final = "rdma/"
_EFA: Final = "vpc.amazonaws.com/efa"
# The class of EKS selects the devices of dra.net by this name with "(EFA)" (November 2026).
_EFA_PRODUCT: Final = "Elastic Fabric Adapter"
_TOKEN: Final = "token"  # noqa: S105  # a resource whose amount has no meaning
_DEVICES: Final = (
    re.compile(re.escape(_EFA)),
    re.compile(r"vke\.volcengine\.com/rdma"),
)
# One of several networks. No attribute of a device names its network.
_NETWORK: Final = re.compile(r"networking\.gke\.io\.networks/rdma-\d+")
_FUNCTIONS: Final = "nvidia.com/rdma-vf"
_INTERFACES: Final = "networking.gke.io/interfaces"
_KEPT: Final = (_INTERFACES, "networking.gke.io/default-interface")


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        for resource in container.resources.values():
            row = _find_row(resource.name)
            if not row:
                continue
            selectors: tuple[AskSelector, ...] = (NicIs(NicKind.RDMA),)
            if resource.name == _EFA:
                selectors = (*selectors, ProductContains((_EFA_PRODUCT.lower(),)))
            if resource.name == _FUNCTIONS:
                selectors = (*selectors, NicIs(NicKind.VF), PluginPool((resource.name,)))
            ask = Ask(
                kind=Kind.NIC,
                row=row,
                count=1 if row == _TOKEN else builder.read_count(resource, MAX_NICS),
                share=DeviceShare(isolation=Isolation.NONE) if row == _TOKEN else None,
                selectors=selectors,
                users=(container.user,),
            )
            builder.add_ask(ask, (resource,))
    if builder.asks:
        builder.add_annotations(_KEPT, removed=False)
        _report_interfaces(builder)
    return builder.build()


def _report_interfaces(builder: RequestBuilder) -> None:
    """Report the annotation by which GKE attaches networks beside the devices of the claim."""
    if _INTERFACES in builder.pod.annotations and any("network" in a.row for a in builder.asks):
        builder.findings.append(
            MEANING_CHANGES.at(
                annotation_path(_INTERFACES),
                f"{_INTERFACES} stays, and GKE attaches its networks beside the NICs of the claim",
                remedy="Remove the networks from the annotation that the claim replaces.",
            )
        )


def _find_row(name: str) -> str:
    """Return the row of the decision table. Empty for resources of other dialects."""
    if name.startswith(_SHARED):
        return _TOKEN
    if _NETWORK.fullmatch(name):
        return "network"
    exclusive = name == _FUNCTIONS or any(each.fullmatch(name) for each in _DEVICES)
    return "exclusive" if exclusive else ""
