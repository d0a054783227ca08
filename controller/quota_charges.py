"""What claims are charged where a pod asks for a legacy name: the translation is asked.

Knows nothing of quotas.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from documents.paths import get
from documents.values import Value
from dra.claim import ClaimSpec
from dra.decode import quantities
from dra.quota import DEVICES, REQUESTS, charges
from translate.legacy.pod_view import items, mapping
from translate.pods import Given, translate

# Devices, percent of one, and memory in MiB and in bytes.
_AMOUNTS: Final = (1, 100, 1 << 14, 1 << 34)
_HOOK: Final = quantities({})


class Becomes(msgspec.Struct, frozen=True):
    """What is charged for so many of a legacy name."""

    classes: frozenset[str] = frozenset()
    counted: bool = True  # as many devices as the amount says
    mapped: bool = False  # the API server charges the claims to the name itself
    shares: bool = False


def becomes(name: str, by: Given) -> Becomes:
    """What a legacy name becomes by itself; the translation is asked about usual amounts."""
    for amount_of in _AMOUNTS:
        one, two = (_charged(name, count, by) for count in (amount_of, 2 * amount_of))
        if one is None:
            continue
        classes = frozenset(key.removesuffix(DEVICES) for key in one if key.endswith(DEVICES))
        counted = (
            amount_of == 1 and two is not None and all(_one_each(c, one, two) for c in classes)
        )
        mapped = f"{REQUESTS}{name}" in one
        return Becomes(classes, counted, mapped, _shares(name, amount_of, by))
    return Becomes()


def _one_each(name: str, one: Mapping[str, int], two: Mapping[str, int]) -> bool:
    key = f"{name}{DEVICES}"
    return (one.get(key), two.get(key)) == (1, 2)


def _pod(name: str, count: int) -> Value:
    resources: Value = {"limits": {name: str(count)}, "requests": {name: str(count)}}
    return {"metadata": {}, "spec": {"containers": [{"name": "one", "resources": resources}]}}


def _specs(name: str, count: int, by: Given) -> list[Value]:
    made = translate(_pod(name, count), by, "default").templates
    return [get(each.object, ("spec", "spec")) for each in made]


def _charged(name: str, count: int, by: Given) -> Mapping[str, int] | None:
    """What the claims of a pod are charged; None where there are none."""
    facts = by.facts
    serving = facts is not None and "extended_resource" in facts.cluster.gates
    classes = {each.name: each.extended for each in facts.classes} if facts and serving else {}
    total: dict[str, int] = {}
    specs = _specs(name, count, by)
    for spec in specs:
        read = msgspec.convert(spec, ClaimSpec, dec_hook=_HOOK)
        for key, devices in charges(read, classes).items():
            total[key] = total.get(key, 0) + devices
    return total if specs else None


def _shares(name: str, count: int, by: Given) -> bool:
    """Whether what is asked for is a part of a device."""
    requests = (
        mapping(request)
        for spec in _specs(name, count, by)
        for request in items(get(spec, ("devices", "requests")))
    )
    ways = (
        way
        for each in requests
        for way in (each.get("exactly"), *items(each.get("firstAvailable")))
    )
    return any("capacity" in mapping(way) for way in ways)
