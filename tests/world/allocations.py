"""What must hold of the allocation of a claim by itself."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from drawbridge.names import ALLOCATION_ANNOTATION
from tests.cluster.fake.kinds import JSON
from tests.world.asks import Ask, Choice, asks_of, constraints_of
from tests.world.nodes import list_results, make_hold
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
        named, held = _read_mark(claim)
        if named != held:
            yield f"{name_of(claim)} has {held}, and its mark {named}"


def is_marked(claim: JSON) -> bool:
    """Whether a claim has our mark of just its devices, whoever allocated them."""
    named, held = _read_mark(claim)
    return named == held


def _read_mark(claim: JSON) -> tuple[list[JSON], list[JSON]]:
    """Return what the mark of a claim names, and what the claim holds."""
    annotations = claim["metadata"].get("annotations") or {}
    results = [each for each in list_results(claim) if not each.get("adminAccess")]
    mark = json.loads(annotations.get(ALLOCATION_ANNOTATION, '{"devices": []}'))
    named, held = (
        sorted([{key: each.get(key) for key in _NAMED} for each in several], key=str)
        for several in (mark["devices"], results)
    )
    return named, held


def a_claim_gets_what_it_asks_for(world: "World") -> Iterator[str]:
    """Each request gets its devices, and of one with a memory an amount by its policy.

    One for all gets all devices of a node that its driver has published together, and none of them
    with a taint. The constraints hold for all that the claim has. A driver can give a device with a
    memory as a whole for a while. A rival takes what it wants.
    """
    for claim in world.holders.values():
        if world.rivals.has(name_of(claim)):
            continue
        asks, results = asks_of(claim), list_results(claim)
        given = {(each["request"], each["pool"], each["device"]) for each in results}
        by_request: dict[str, list[JSON]] = {ask.request: [] for ask in asks}
        for each in results:
            by_request.setdefault(_request_of(each), []).append(each)
        answered = all(
            _answers(world, [ask for ask in asks if ask.request == name], own)
            for name, own in by_request.items()
        )
        if len(given) < len(results) or not answered or not _keeps_constraints(claim):
            yield f"{name_of(claim)} asks for {asks}, and has {results}"


def _answers(world: "World", asks: Sequence[Ask], results: Sequence[JSON]) -> bool:
    """Whether a request, with an ask for each device, can get some results."""
    if not asks or not results or len({each["request"] for each in results}) > 1:
        return False
    by_name = {choice.name: choice for choice in asks[0].choices}
    choice = by_name.get(results[0]["request"])
    if choice is None or not all(_gives(choice, result) for result in results):
        return False
    if not choice.is_all:
        return len(results) == len(asks)
    pool = results[0]["pool"]
    published = world.machines[pool].published
    return published.has_all(choice, {each["device"] for each in results})


def _gives(choice: Choice, result: JSON) -> bool:
    """Whether a result is of a device that is selected, with the amount that is asked for."""
    (pool, name), share, amount = make_hold(result)
    shape = ALL_NODES[pool]
    capacity = shape.shared.get(name)
    if not choice.selects(shape, name) or result["driver"] != shape.driver_of(name):
        return False
    if choice.is_admin or result.get("adminAccess"):
        return choice.is_admin and bool(result.get("adminAccess"))
    if not share or capacity is None:
        return not share and choice.memory <= shape.memory.get(name, 0)
    return amount == consume(capacity, choice.memory)


def _keeps_constraints(claim: JSON) -> bool:
    """Whether the constraints of a claim hold for its devices, which are of one node."""
    results = list_results(claim)
    devices = [(_request_of(each), each["device"]) for each in results]
    roots = ALL_NODES[results[0]["pool"]].roots
    return all(each.allows(devices, roots) for each in constraints_of(claim))


def _request_of(result: JSON) -> str:
    """Return the request of a result, without the name of the alternative."""
    return str(result["request"]).partition("/")[0]
