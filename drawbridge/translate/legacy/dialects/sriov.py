"""SR-IOV's dialect: network functions by the name of a device plugin's pool, and their networks.

Each network whose definition names a pool uses one function of it. A pod can also specify networks
alone. It then gets the request that an injecting webhook would add to its first container. The
configuration (`legacy.networks`) maps networks to pools.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, cast

from msgspec.structs import replace

from drawbridge.config.model import Legacy
from drawbridge.documents.values import as_list, as_mapping
from drawbridge.dra.families import BY_SHORT_NAME, serves_name
from drawbridge.finding import Finding, Severity
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    DeviceUser,
    Kind,
    PodRequests,
    Setting,
    VfSettings,
)
from drawbridge.translate.legacy.codes import MEANING_CHANGES, NETWORK_UNKNOWN
from drawbridge.translate.legacy.draft import MAX_NICS, RequestBuilder
from drawbridge.translate.legacy.networks import DEFAULT, NETWORKS, PodNetwork, read_networks
from drawbridge.translate.legacy.pod_view import (
    ANNOTATIONS,
    Container,
    DeviceResource,
    PodView,
    annotation_path,
)
from drawbridge.translate.legacy.selectors import AskSelector, NicIs, NicKind, PluginPool

NAME: Final = "sriov"
PROJECT: Final = ""
# The pools in `legacy.networks` are triggers as well.
TRIGGERS: Final = frozenset(
    {"mellanox.com", "openshift.io", "intel.com", "nvidia.com", NETWORKS, DEFAULT}
)
READS: Final = frozenset({"metadata.namespace", "spec.resourceClaims"})
STANDALONE_KEYS: Final = (DEFAULT, NETWORKS)
ALLOCATED: Final = ()
_FAMILY: Final = BY_SHORT_NAME[NAME]
_RDMA: Final = ("rdma", "roce")
_OF_NO_NETWORK: Final = "vf"


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the network functions and networks that the pod requests."""
    if not any(container.resources for container in pod.containers) and not (
        NETWORKS in pod.annotations or DEFAULT in pod.annotations
    ):
        return NO_REQUESTS
    builder = RequestBuilder(NAME, pod)
    pools = cast("Mapping[str, str]", legacy.networks)
    networks, problems = read_networks(pod)
    builder.findings += problems
    waiting: dict[str, deque[PodNetwork]] = {}
    for network in networks:
        if network.name in pools:
            waiting.setdefault(str(pools[network.name]), deque()).append(network)
    unknown = {each.name: each.key for each in networks if each.name not in pools}
    builder.findings += [
        NETWORK_UNKNOWN.at(
            annotation_path(key),
            f"the configuration does not specify the resource of network {name}",
        )
        for name, key in unknown.items()
    ]
    configured = set(map(str, pools.values()))
    for container in pod.containers:
        for resource in container.resources.values():
            if (
                resource.name in configured
                or resource.original_name in configured
                or serves_name(_FAMILY, resource.name)
            ):
                _read_functions(builder, resource, container.user, waiting)
    _add_network_functions(builder, waiting)
    if builder.asks:
        builder.add_annotations((NETWORKS, DEFAULT), removed=False)
    return builder.build()


def warn_of_networks(findings: Iterable[Finding], translated: Iterable[Ask]) -> tuple[Finding, ...]:
    """Warn of unknown networks of a pod if a claim has virtual functions of no known network.

    A network that uses them gets none from the device plugin.
    """
    if not any(ask.row == f"{NAME}/{_OF_NO_NETWORK}" for ask in translated):
        return tuple(findings)
    return tuple(
        replace(each, severity=Severity.WARNING) if each.code == NETWORK_UNKNOWN.name else each
        for each in findings
    )


def _read_functions(
    builder: RequestBuilder,
    resource: DeviceResource,
    user: DeviceUser,
    waiting: Mapping[str, deque[PodNetwork]],
) -> None:
    """Request functions of one pool: one for each network of that pool, then the remaining ones."""
    remaining = builder.read_count(resource, MAX_NICS)
    names = []
    for pool in dict.fromkeys((resource.original_name, resource.name)):
        queue = waiting.get(pool, deque())
        while queue and remaining:
            ask = builder.add_ask(
                _make_ask(resource.original_name, 1, user, (_vf_settings(queue.popleft()),)), ()
            )
            names.append(ask.name)
            remaining -= 1
    if remaining:
        names.append(builder.add_ask(_make_ask(resource.original_name, remaining, user), ()).name)
    # The resource is removed only if all its asks are translated.
    builder.source_fields += resource.source_fields(asks=tuple(names))


def _add_network_functions(
    builder: RequestBuilder, waiting: Mapping[str, deque[PodNetwork]]
) -> None:
    """Request functions for networks that no container requests, as an injecting webhook does.

    A pod with claims may already request them in a claim. A translated pod does.
    """
    users = [c.user for c in builder.pod.containers if c.user.path[1] == "containers"]
    claimed = bool(as_list(builder.pod.spec.get("resourceClaims")))
    for pool, queue in waiting.items():
        requested = any(_is_read(container, pool) for container in builder.pod.containers)
        for network in queue if users else ():
            if requested or claimed:
                builder.findings.append(
                    (_requested_by_claim if requested else _maybe_claimed)(network, pool)
                )
                continue
            ask = builder.add_ask(_make_ask(pool, 1, users[0], (_vf_settings(network),)), ())
            key, names = network.key, (ask.name,)
            builder.source_fields.append(
                builder.pod.metadata_field(ANNOTATIONS, key, removed=False, asks=names)
            )


def _is_read(container: Container, pool: str) -> bool:
    """Whether another dialect reads the container's request for the pool."""
    resources = as_mapping(container.raw.get("resources"))
    written = any(pool in as_mapping(resources.get(part)) for part in ("limits", "requests"))
    return written and pool not in container.resources and pool not in container.zeros


def _requested_by_claim(network: PodNetwork, pool: str) -> Finding:
    return MEANING_CHANGES.at(
        annotation_path(network.key),
        f"network {network.name} uses {pool}, which a claim requests now",
        remedy=f"Set the resource name in {network.name} to that of the claim's devices.",
    )


def _maybe_claimed(network: PodNetwork, pool: str) -> Finding:
    return NETWORK_UNKNOWN.at(
        annotation_path(network.key),
        f"the pod has claims, and one of them may be for network {network.name}",
        remedy=f"If no claim is for it, request {pool} in the container.",
    )


def _vf_settings(network: PodNetwork) -> VfSettings:
    return VfSettings(
        network=network.name, interface=network.interface, parameters=network.parameters
    )


def _make_ask(pool: str, count: int, user: DeviceUser, settings: tuple[Setting, ...] = ()) -> Ask:
    rdma: tuple[AskSelector, ...] = (
        (NicIs(NicKind.RDMA),) if any(part in pool for part in _RDMA) else ()
    )
    return Ask(
        kind=Kind.NIC,
        row="network" if settings else _OF_NO_NETWORK,
        count=count,
        selectors=(NicIs(NicKind.VF), *rdma, PluginPool((pool, pool.split("/", 1)[-1]))),
        settings=settings,
        users=(user,),
        resources=(pool,),
    )
