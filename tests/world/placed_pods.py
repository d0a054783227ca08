"""Pods that users create with a node, which no scheduler sees.

Nobody allocates their claims, as docs/bridge.md says. A claim that others have is reserved for them
by the claim controller, wherever its devices are: a driver prepares none of another node, so a pod
can wait there for ever. One that requests devices of a plugin gets them, or fails.
"""

from typing import TYPE_CHECKING, Final

from tests.cluster.fake.kinds import JSON, named
from tests.world.events import (
    choose_space,
    create_claim,
    create_legacy_in,
    create_pod,
    event,
    is_shared,
)
from tests.world.nodes import claim_names, devices_of
from tests.world.objects import ALL_NODES, MIGRATED
from tests.world.scheduler import NAME
from tests.world.stock import NAME as STOCK

if TYPE_CHECKING:
    from tests.world.world import World

_LABEL: Final = "placed"
_CLAIM: Final = named("resourceclaims")


@event(2.5)
def create_placed(world: "World", drawn: int) -> str:
    """Create a pod on a node: with a claim that others have or its own one, or for a plugin."""
    nodes = sorted(ALL_NODES)
    node, kind = nodes[drawn // 8 % len(nodes)], drawn % 4
    shared = [*filter(is_shared, world.all("resourceclaims"))]
    used = [claim for claim in shared if devices_of(claim)]
    if kind == 0:
        space = MIGRATED if drawn // 64 % 2 else choose_space(world, drawn // 4)
        return f"{create_legacy_in(world, space, nodeName=node)} in {space} on {node}"
    if kind == 1 or not (chosen := used or shared):
        name = world.next_name("c")
        pod = _create(world, node, [name], drawn, choose_space(world, drawn // 4))
        create_claim(world, name, pod, drawn)
        return f"{pod['metadata']['name']} on {node} with {name}"
    claim = chosen[drawn // 8 % len(chosen)]
    pools = sorted({pool for pool, _ in devices_of(claim)})
    node = pools[0] if pools and drawn // 64 % 4 else node
    name = claim["metadata"]["name"]
    world.rivals.joined.add(name)
    pod = _create(world, node, [name], drawn, claim["metadata"]["namespace"])
    return f"{pod['metadata']['name']} on {node} with {name}"


def _create(world: "World", node: str, claims: list[str], drawn: int, space: str) -> JSON:
    scheduler = STOCK if drawn // 256 % 4 == 0 else NAME
    about = {"space": space, "labels": {_LABEL: ""}, "scheduler": scheduler}
    return create_pod(world, claims, **about, more={"nodeName": node})


def is_placed(pod: JSON) -> bool:
    """Whether a user has chosen the node of a pod."""
    return _LABEL in (pod["metadata"].get("labels") or {})


def may_never_run(world: "World", pod: JSON) -> bool:
    """Whether a claim of a pod that a user has placed has no devices of its node."""
    if not is_placed(pod):
        return False
    space, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    claims = [world.network.store.find(_CLAIM, space, name) for name in claim_names(pod)]
    pools = [{pool for pool, _ in devices_of(claim or {})} for claim in claims]
    return any(own != {node} for own in pools)
