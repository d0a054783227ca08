"""SR-IOV's device plugin: functions of network cards by the name of a pool, and their networks.

Each network whose definition names a pool takes one function of it. Where a manifest names the
network alone, what an injector would add to the first container is asked for here; which network
takes from which pool is in the configuration.
"""

import re
from collections.abc import Mapping
from typing import Final, cast

from config.model import Legacy
from dra.finding import Finding
from translate.legacy.asks import NOTHING, Ask, Kind, Reading, Setting, User, Vf
from translate.legacy.codes import MEANING_CHANGES, NETWORK_UNKNOWN
from translate.legacy.draft import Draft
from translate.legacy.networks import DEFAULT, NETWORKS, Network, networks
from translate.legacy.pod_view import Container, PodView, Resource, annotation_path, items, mapping
from translate.legacy.selectors import Nic, NicKind, ResourceName, Selector

NAME: Final = "sriov"
# And whatever the configuration calls a pool.
CALLED_BY: Final = frozenset(
    {"mellanox.com", "openshift.io", "intel.com", "nvidia.com", NETWORKS, DEFAULT}
)
_POOL: Final = re.compile(
    r"(?:mellanox\.com|openshift\.io)/.+"
    r"|intel\.com/(?:intel_|sriov|.*(?:netdevice|dpdk|vfio|rdma|nic|vf)).*"
    r"|nvidia\.com/(?:hostdev|sriov|mlnx|.*(?:_vf|_nic|_rdma|rdma_)).*"
)
_RDMA: Final = ("rdma", "roce")


def read(pod: PodView, legacy: Legacy) -> Reading:
    """Read the functions and networks the pod asks for."""
    if not any(one.resources for one in pod.containers) and not (
        NETWORKS in pod.annotations or DEFAULT in pod.annotations
    ):
        return NOTHING
    draft = Draft(NAME, pod)
    pools = cast("Mapping[str, str]", legacy.networks)
    named, problems = networks(pod)
    draft.findings += problems
    waiting: dict[str, list[Network]] = {}
    for network in named:
        if network.name in pools:
            waiting.setdefault(str(pools[network.name]), []).append(network)
    draft.findings += [
        NETWORK_UNKNOWN.at(
            annotation_path(key), f"which pool {name} takes its interface from is not known here"
        )
        for name, key in {each.name: each.key for each in named if each.name not in pools}.items()
    ]
    known = set(map(str, pools.values()))
    for container in pod.containers:
        for one in container.resources.values():
            if one.name in known or one.written in known or _POOL.fullmatch(one.name):
                _functions(draft, one, container.user, waiting)
    _missing(draft, waiting)
    if draft.asks:
        draft.annotations((NETWORKS, DEFAULT), removed=False)
    return draft.reading()


def _functions(draft: Draft, one: Resource, user: User, waiting: dict[str, list[Network]]) -> None:
    """Ask for functions of one pool: one each for the networks that wait for it, then the rest."""
    left = draft.count(one)
    names = []
    for pool in dict.fromkeys((one.written, one.name)):
        queue = waiting.get(pool, [])
        while queue and left:
            ask = draft.ask(_ask(one.written, 1, user, (_vf(queue.pop(0)),)), ())
            names.append(ask.name)
            left -= 1
    if left:
        names.append(draft.ask(_ask(one.written, left, user), ()).name)
    # The resource goes only if all that was made of it is translated.
    draft.traces += one.traces(asks=tuple(names))


def _missing(draft: Draft, waiting: Mapping[str, list[Network]]) -> None:
    """Ask for what networks take and no container names, where an injector would put it.

    A pod with claims may have asked for that in one of them, as a translated pod has.
    """
    users = [c.user for c in draft.pod.containers if c.user.path[1] == "containers"]
    claimed = bool(items(draft.pod.spec.get("resourceClaims")))
    for pool, queue in waiting.items():
        asked = any(_taken(container, pool) for container in draft.pod.containers)
        for network in queue if users else ():
            if asked or claimed:
                draft.findings.append((_elsewhere if asked else _claimed)(network, pool))
                continue
            ask = draft.ask(_ask(pool, 1, users[0], (_vf(network),)), ())
            draft.traces.append(draft.pod.annotation(network.key, removed=False, asks=(ask.name,)))


def _taken(container: Container, pool: str) -> bool:
    """Whether another dialect has read what a container asks of the pool."""
    resources = mapping(container.raw.get("resources"))
    written = any(pool in mapping(resources.get(part)) for part in ("limits", "requests"))
    return written and pool not in container.resources and pool not in container.zeros


def _elsewhere(network: Network, pool: str) -> Finding:
    return MEANING_CHANGES.at(
        annotation_path(network.key),
        f"{network.name} takes its interface from {pool}, which is asked for by a claim now",
        remedy=f"Let the definition of {network.name} name what the claim's devices are called.",
    )


def _claimed(network: Network, pool: str) -> Finding:
    return NETWORK_UNKNOWN.at(
        annotation_path(network.key),
        f"the pod has claims, and whether one is for the interface of {network.name} is not known",
        remedy=f"If none is, ask for {pool} in the container.",
    )


def _vf(network: Network) -> Vf:
    return Vf(network=network.name, interface=network.interface, fixed=network.fixed)


def _ask(pool: str, count: int, user: User, settings: tuple[Setting, ...] = ()) -> Ask:
    rdma: tuple[Selector, ...] = (Nic(NicKind.RDMA),) if any(word in pool for word in _RDMA) else ()
    return Ask(
        kind=Kind.NIC,
        row="network" if settings else "vf",
        count=count,
        selectors=(Nic(NicKind.VF), *rdma, ResourceName((pool, pool.split("/", 1)[-1]))),
        settings=settings,
        users=(user,),
        resources=(pool,),
    )
