"""HAMi's annotations that choose nodes and GPUs, as preferences for an allocator.

The policy for GPUs is a list. `mutex` and `topology-aware` come first; the others compare GPUs,
each where those before it are equal. `mutex` allows idle GPUs only, which no strategy promises.
NUMA nodes are compared by their number where GPUs are equal, which says nothing about them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.dra.rules import MAX_WEIGHT
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import StrategyPreference
from drawbridge.translate.legacy.codes import AMOUNT_REFUSED, HINT_LOST
from drawbridge.translate.legacy.dialects import vgpu
from drawbridge.translate.legacy.pod_view import annotation_path, format_value

WEIGHTS: Final = "hami.io/device-scoring-weights"
POLICIES: Final = {
    "hami.io/node-scheduler-policy": ("binpack", "spread"),
    "hami.io/gpu-scheduler-policy": ("binpack", "spread", "topology-aware", "mutex", "numa"),
}
_NODES, _DEVICES = POLICIES
_PACKING: Final = {"binpack": "packed", "spread": "spread"}
# The list for GPUs without repetitions, and what it means.
_OF_DEVICES: Final = {
    ("binpack",): "packed",
    ("binpack", "numa"): "packed",
    ("binpack", "spread"): "packed",
    ("spread",): "spread",
    ("spread", "numa"): "spread",
    ("spread", "binpack"): "spread",
    ("numa",): "numa",
    ("numa", "spread"): "numa",
    ("topology-aware",): "topology-aware",
    ("topology-aware", "spread"): "topology-aware",
    ("spread", "topology-aware"): "topology-aware",
}
# The strategies by the policies for nodes and GPUs. HAMi packs nodes and spreads over their GPUs.
_STRATEGIES: Final = {
    ("packed", "packed"): "packed",
    ("packed", "spread"): "packed-nodes",
    ("spread", "packed"): "spread/packed",
    ("spread", "spread"): "spread",
    ("packed", "numa"): "numa",
    ("spread", "numa"): "spread/numa",
    ("packed", "topology-aware"): "topology-aware",
    ("spread", "topology-aware"): "spread/topology-aware",
}
# What the weights are about, and the capacities of the devices that stand for it.
_CAPACITIES: Final = {"slot": "shares", "core": "cores", "memory": "memory"}


def read(annotations: Mapping[str, str]) -> tuple[StrategyPreference, ...]:
    """Return the preferences that an allocator can follow; what it cannot is missing."""
    nodes = _PACKING.get(annotations.get(_NODES, "").strip())
    listed = dict.fromkeys(each.strip() for each in annotations.get(_DEVICES, "").split(","))
    devices = _OF_DEVICES.get(tuple(listed))
    weights = "" if _weights_problem(annotations.get(WEIGHTS, "")) else _weights(annotations)
    if not weights and devices in (None, "packed", "spread"):
        of_nodes = [StrategyPreference("nodes", nodes, _NODES)] if nodes else []
        of_devices = [StrategyPreference("devices", devices, _DEVICES)] if devices else []
        return (*of_nodes, *of_devices)
    name = _STRATEGIES[nodes or "packed", devices or "spread"]
    given = [key for key, value in ((_NODES, nodes), (_DEVICES, devices)) if value]
    preferences = [StrategyPreference("strategy", name, key) for key in given or [WEIGHTS]]
    if weights:
        preferences.append(StrategyPreference("weights", weights, WEIGHTS))
    return tuple(preferences)


def report_lost(annotations: Mapping[str, str]) -> Iterator[Finding]:
    """Report what a claim cannot express of these annotations, and what HAMi refuses."""
    for key, allowed in POLICIES.items():
        if key not in annotations:
            continue
        policies = [policy.strip() for policy in annotations[key].split(",")]
        if all(policy in allowed for policy in policies):
            yield _lost(key, annotations[key])
        else:
            yield vgpu.unknown_value(key, annotations[key], allowed)
    if WEIGHTS in annotations:
        problem = _weights_problem(annotations[WEIGHTS])
        yield (
            AMOUNT_REFUSED.at(annotation_path(WEIGHTS), problem)
            if problem
            else _lost(WEIGHTS, annotations[WEIGHTS])
        )


def _lost(key: str, value: str) -> Finding:
    return HINT_LOST.at(
        annotation_path(key),
        f"{format_value(value)} is not carried over, because a claim has no scoring policy",
    )


def _weights_problem(text: str) -> str:
    """Return what HAMi refuses about weights."""
    try:
        weights = _parse_weights(text)
    except ValueError:
        return f"{format_value(text)} must have a whole number for each of slot, core and memory"
    return "" if any(weights.values()) else f"{format_value(text)} must have a number above 0"


def _weights(annotations: Mapping[str, str]) -> str:
    """Return weights of the capacities in lowest terms; empty if they are still too large."""
    weights = _parse_weights(annotations[WEIGHTS])
    divisor = math.gcd(*weights.values())
    lowest = {_CAPACITIES[name]: weight // divisor for name, weight in weights.items()}
    if max(lowest.values()) > MAX_WEIGHT:
        return ""
    return ",".join(f"{name}={weight}" for name, weight in sorted(lowest.items()) if weight)


def _parse_weights(text: str) -> dict[str, int]:
    parts = [each.split("=") for each in text.split(",")]
    weights = {name.strip(): number.strip() for name, number in parts}
    if len(parts) != len(weights) or weights.keys() != _CAPACITIES.keys():
        raise ValueError("other names")
    if not all(
        each.isascii() and each.isdigit() and len(each) <= _DIGITS for each in weights.values()
    ):
        raise ValueError("no whole numbers")
    return {name: int(number) for name, number in weights.items()}


# HAMi reads numbers of 64 bits.
_DIGITS: Final = 18
