"""Computes what the API server charges for the claims that replace a request for a legacy name.

It translates sample pods and sums the quota charges of the resulting claims.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.claim import ClaimSpec
from drawbridge.dra.decode import QuantityDecoder
from drawbridge.dra.quota import DEVICES, REQUESTS, quota_charges
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate

# Typical amounts: devices, percent of a device, memory in MiB and memory in bytes.
_SAMPLE_AMOUNTS: Final = (1, 100, 1 << 14, 1 << 34)


class NameCharge(msgspec.Struct, frozen=True):
    """What quotas count for the claims that replace requests for one legacy name."""

    classes: frozenset[str] = frozenset()
    counts_devices: bool = True  # an amount of n becomes n devices
    is_mapped: bool = False  # the API server charges the claims to the legacy name itself
    is_shared: bool = False  # a claim takes a part of a device


def compute_charge(name: str, context: TranslationContext) -> NameCharge:
    """Translate requests of typical amounts and return their charge; empty if none translates."""
    for amount in _SAMPLE_AMOUNTS:
        specs = _claim_specs(name, amount, context)
        if not specs:
            continue
        single = _sum_charges(specs, context)
        classes = frozenset(key.removesuffix(DEVICES) for key in single if key.endswith(DEVICES))
        doubled = _claim_specs(name, 2, context) if amount == 1 else ()
        double = _sum_charges(doubled, context)
        counts_devices = bool(doubled) and all(
            _is_proportional(each, single, double) for each in classes
        )
        is_mapped = f"{REQUESTS}{name}" in single
        return NameCharge(classes, counts_devices, is_mapped, _is_shared(specs))
    return NameCharge()


def names_of_classes(context: TranslationContext) -> Mapping[str, str]:
    """Return the legacy names to which the API server charges claims, by class."""
    return context.facts.names_of_classes() if context.facts else {}


def _is_proportional(name: str, single: Mapping[str, int], double: Mapping[str, int]) -> bool:
    key = f"{name}{DEVICES}"
    return (single.get(key), double.get(key)) == (1, 2)


def _sample_pod(name: str, count: int) -> Value:
    resources: Value = {"limits": {name: str(count)}, "requests": {name: str(count)}}
    return {"metadata": {}, "spec": {"containers": [{"name": "one", "resources": resources}]}}


def _claim_specs(name: str, count: int, context: TranslationContext) -> list[Value]:
    templates = translate(_sample_pod(name, count), context, "default").templates
    return [get_value(each.object, ("spec", "spec")) for each in templates]


def _sum_charges(specs: Iterable[Value], context: TranslationContext) -> Mapping[str, int]:
    """Sum the charges of claims."""
    classes = names_of_classes(context)
    total: dict[str, int] = {}
    hook = QuantityDecoder()
    for spec in specs:
        claim = msgspec.convert(spec, ClaimSpec, dec_hook=hook)
        for key, devices in quota_charges(claim, classes).items():
            total[key] = total.get(key, 0) + devices
    return total


def _is_shared(specs: Iterable[Value]) -> bool:
    """Whether one of these claims takes a part of a device."""
    requests = (
        as_mapping(request)
        for spec in specs
        for request in as_list(get_value(spec, ("devices", "requests")))
    )
    alternatives = (
        alternative
        for request in requests
        for alternative in (request.get("exactly"), *as_list(request.get("firstAvailable")))
    )
    return any("capacity" in as_mapping(alternative) for alternative in alternatives)
