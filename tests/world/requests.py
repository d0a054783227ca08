"""The requests of claims: for any device, memory, alternatives, all devices, and with constraints.

What is drawn for a claim depends on its number and on the conditions of the run.
"""

import random
from typing import Final

from tests.cluster.fake.kinds import JSON
from tests.world.asks import select_root
from tests.world.conditions import Conditions
from tests.world.objects import CLASS, MEMORY, NIC_CLASS, ROOT

# What requests for all devices select, by how often: all of a node, or those of one root.
_ROOTS: Final = ("", "", "a", "b", "b")
_CONSTRAINTS: Final = ("matchAttribute", "matchAttribute", "distinctAttribute")


def draw_devices(
    conditions: Conditions, drawn: int, count: int, *, is_plain: bool, is_alone: bool
) -> JSON:
    """Return what a claim asks for; a plain one never for all devices, or with a constraint.

    The only claim of a pod can ask for admin access.
    """
    amounts = _draw_memory(conditions, drawn)
    chosen = random.Random(f"requests {drawn}")
    has_constraint = not is_plain and chosen.random() < conditions.asks_with_constraint
    if has_constraint and len(amounts) == 1 and count == 1:
        # A constraint needs two devices, or two shares.
        is_one = amounts == [(0, None)] and chosen.random() < 0.5
        count, amounts = (
            (2, amounts) if is_one else (1, [*amounts, (chosen.choice((0, 0, 1)), None)])
        )
    requests = [
        _make_request("gpu" if not number else f"gpu-{number}", count, memory, other)
        for number, (memory, other) in enumerate(amounts)
    ]
    if not is_plain and chosen.random() < conditions.asks_for_nics:
        nic = {"name": "nic", "exactly": {"deviceClassName": NIC_CLASS, "count": 1}}
        requests = [nic] if chosen.random() < 0.3 else [*requests, nic]
    if not is_plain and chosen.random() < conditions.asks_for_all:
        _ask_for_all(requests[0], chosen)
    if is_alone and chosen.random() < conditions.asks_with_admin_access:
        requests, has_constraint = [_make_admin_request(chosen)], False
    devices: JSON = {"requests": requests}
    if has_constraint:
        constraint: JSON = {chosen.choice(_CONSTRAINTS): ROOT}
        if chosen.random() < 0.5:
            constraint["requests"] = [each["name"] for each in requests]
        devices["constraints"] = [constraint]
    return devices


def _make_admin_request(chosen: random.Random) -> JSON:
    """Return a request with admin access: for one device or all of a node, as monitoring asks."""
    exactly: JSON = {"deviceClassName": CLASS, "adminAccess": True, "allocationMode": "All"}
    if chosen.random() < 0.5:
        exactly |= {"allocationMode": "ExactCount", "count": 1}
    return {"name": "gpu", "exactly": exactly}


def _draw_memory(conditions: Conditions, drawn: int) -> list[tuple[int, int | None]]:
    """Draw how much memory each request of a claim asks for; 0 of one that takes any device.

    Some take another amount if no device has that.
    """
    chosen = random.Random(drawn)
    if chosen.random() >= conditions.asks_for_memory:
        return [(0, None)]
    first, is_alone = chosen.choice((1, 1, 2, 3, 4)), chosen.random() < 0.8
    amounts = [first] if is_alone else [first, chosen.choice((0, 1, 2))]
    return [(each, chosen.choice((0, 1, 2)) if chosen.random() < 0.2 else None) for each in amounts]


def _make_request(name: str, count: int, memory: int, other: int | None = None) -> JSON:
    """Return a request for devices, or for one with so much memory or, if none has it, another."""
    if other is not None:
        first, second = _make_part("first", 1, memory), _make_part("second", 1, other)
        return {"name": name, "firstAvailable": [first, second]}
    return {"name": name, "exactly": _make_part("", count, memory)}


def _make_part(name: str, count: int, memory: int) -> JSON:
    part: JSON = {"deviceClassName": CLASS, "count": count} | ({"name": name} if name else {})
    if memory:
        part["capacity"] = {"requests": {MEMORY: f"{memory}"}}
    return part


def _ask_for_all(request: JSON, chosen: random.Random) -> None:
    """Let a request ask for all devices that it selects; one of its alternatives, if it has some.

    Another one has all devices as its best alternative, and else takes any.
    """
    if "exactly" in request and chosen.random() < 0.2:
        request["firstAvailable"] = [_make_part("first", 1, 0), _make_part("second", 1, 0)]
        del request["exactly"]
    part = request.get("exactly") or request["firstAvailable"][0]
    del part["count"]
    part["allocationMode"] = "All"
    if root := chosen.choice(_ROOTS):
        part["selectors"] = [select_root(root)]
