"""What must hold of the allocation of a claim by itself."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drawbridge.names import ALLOCATION_ANNOTATION
from tests.cluster.fake.kinds import JSON
from tests.world.nodes import Ask, asks_of, list_results, make_hold
from tests.world.objects import ALL_NODES, consume
from tests.world.waiting_pods import name_of

if TYPE_CHECKING:
    from tests.world.world import World

# What a mark says of each device.
_NAMED = ("driver", "pool", "device", "shareID", "consumedCapacity")


def an_allocated_claim_has_its_mark_and_finalizer(world: "World") -> Iterator[str]:
    """Without them, it could vanish while it is in use. The mark says what we gave the claim.

    Others can allocate a claim that has our mark already.
    """
    for claim in world.holders.values():
        if not claim["metadata"].get("finalizers") and not world.rivals.has(name_of(claim)):
            yield f"{name_of(claim)} is allocated without a finalizer"
        if not world.uses.is_ours(claim) or name_of(claim) in world.forged:
            continue
        annotations = claim["metadata"].get("annotations") or {}
        mark = json.loads(annotations.get(ALLOCATION_ANNOTATION, '{"devices": []}'))
        named, held = (
            sorted([{key: each.get(key) for key in _NAMED} for each in several], key=str)
            for several in (mark["devices"], list_results(claim))
        )
        if named != held:
            yield f"{name_of(claim)} has {held}, and its mark {named}"


def a_claim_gets_what_it_asks_for(world: "World") -> Iterator[str]:
    """Each request gets its devices, and of one with a memory an amount by its policy.

    A driver can give such a device as a whole for a while. A rival takes what it wants.
    """
    for claim in world.holders.values():
        if world.rivals.has(name_of(claim)):
            continue
        asks = sorted(asks_of(claim), key=lambda ask: ask.request)
        results = sorted(list_results(claim), key=_request_of)
        given = {(each["request"], each["pool"], each["device"]) for each in results}
        answered = (_answers(ask, result) for ask, result in zip(asks, results, strict=False))
        if not len(asks) == len(results) == len(given) or not all(answered):
            yield f"{name_of(claim)} asks for {asks}, and has {results}"


def _answers(ask: Ask, result: JSON) -> bool:
    """Whether a request can get a result."""
    (pool, name), share, amount = make_hold(result)
    capacity, memory = ALL_NODES[pool].shared.get(name), dict(ask.choices).get(result["request"])
    if memory is None or _request_of(result) != ask.request:
        return False
    if not share or capacity is None:
        return not share and not memory
    return amount == consume(capacity, memory)


def _request_of(result: JSON) -> str:
    """Return the request of a result, without the name of the alternative."""
    return str(result["request"]).partition("/")[0]
