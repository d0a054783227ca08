"""Generates devices: attributes, capacity, counters, groups, taints, binding conditions."""

from typing import Any

from e2e.generator.draw import Draw
from e2e.generator.plan import Plan

Json = dict[str, Any]

GPU = "gpu.example.com"
NIC = "nic.example.com"
DRIVERS = (GPU, NIC)
ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "resource.kubernetes.io/numaNode"
MEMORY = ("10Gi", "20Gi", "40Gi")
SETS = ("board-0", "board-1")
TAINT_KEYS = ("maintenance", "example.com/unhealthy")
CONDITION = "example.com/attached"


def device(draw: Draw, plan: Plan, driver: str, name: str, number: int) -> Json:
    """One device."""
    out: Json = {"name": name, "attributes": attributes(draw, plan, driver, number)}
    shared = plan.has("shares") and draw.chance(0.55)
    if shared:
        out["allowMultipleAllocations"] = True
    if driver == GPU or draw.chance(0.3):
        out["capacity"] = capacity(draw, shared=shared)
    if plan.has("counters") and driver == GPU and draw.chance(0.85):
        out["consumesCounters"] = consumes(draw, plan)
    if plan.has("taints") and draw.chance(0.25):
        out["taints"] = [taint(draw) for _ in range(draw.number(1, 2))]
    if plan.has("binding") and draw.chance(0.4):
        out["bindingConditions"] = [CONDITION]
        out["bindingFailureConditions"] = ["example.com/failed"]
    if plan.has("binding") and draw.chance(0.25):
        out["bindsToNode"] = True
    return out


def attributes(draw: Draw, plan: Plan, driver: str, number: int) -> Json:
    """What selectors and constraints ask about; now and then something is missing."""
    out: Json = {
        "model": {"string": draw.pick(("small", "large"))},
        "index": {"int": number},
        "healthy": {"bool": draw.chance(0.8)},
        ROOT: {"string": draw.pick(("pci0000:00", "pci0000:40"))},
        NUMA: {"int": draw.number(0, 1)},
        "release": {"version": draw.pick(("1.0.0", "1.0.0+build", "2.1.0"))},
    }
    if plan.has("lists"):
        out |= lists(draw)
    if draw.chance(0.12):
        del out[draw.pick(("model", "release", ROOT, NUMA))]
    # The driver's own domain may be spelt out; both spellings at once would be read at random.
    if "model" in out and draw.chance(0.1):
        out[f"{driver}/model"] = out.pop("model")
    # The same name in another type.
    if NUMA in out and draw.chance(0.05):
        out[NUMA] = {"string": "0"}
    return out


def lists(draw: Draw) -> Json:
    """List values, some of which meet scalar ones of the same name on other devices."""
    out: Json = {"links": {"strings": draw.some(("a", "b", "c"), 0.55) or ["d"]}}
    if draw.chance(0.5):
        out[NUMA] = {"ints": draw.some((0, 1, 1), 0.6) or [2]}
    if draw.chance(0.3):
        out["release"] = {"versions": ["1.0.0", draw.pick(("2.1.0", "3.0.0"))]}
    if draw.chance(0.2):
        out["modes"] = {"bools": [draw.chance(0.5)]}
    return out


def capacity(draw: Draw, *, shared: bool) -> Json:
    """Memory always, cores often; policies only where several may share."""
    memory: Json = {"value": draw.pick(MEMORY)}
    out: Json = {"memory": memory}
    if shared and draw.chance(0.6):
        memory["requestPolicy"] = draw.pick(
            (
                {"default": "2Gi"},
                {"default": "1Gi", "validRange": {"min": "1Gi"}},
                {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
                {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}},
                {"default": "5Gi", "validValues": ["1Gi", "5Gi", "10Gi"]},
            )
        )
    if draw.chance(0.5):
        cores: Json = {"value": draw.pick(("1", "2", "100"))}
        if shared and draw.chance(0.6):
            cores["requestPolicy"] = draw.pick(
                (
                    {"default": "100m", "validRange": {"min": "100m", "step": "100m"}},
                    {"default": "250m", "validRange": {"min": "250m", "max": "1", "step": "250m"}},
                    {"default": "500m", "validValues": ["500m", "1"]},
                    {"default": "1", "validRange": {"min": "1", "step": "1"}},
                )
            )
        out["cores"] = cores
    return out


def consumes(draw: Draw, plan: Plan) -> list[Json]:
    """A part of one board, now and then of both."""
    both = draw.chance(0.15)
    names = SETS if both else (draw.pick(SETS),)
    out: list[Json] = []
    for name in names:
        entry: Json = {
            "counterSet": name,
            "counters": {
                "slices": {"value": draw.pick(("1", "2", "4"))},
                "memory": {"value": draw.pick(("10Gi", "20Gi"))},
            },
        }
        if plan.has("groups") and draw.chance(0.7):
            entry["compatibilityGroups"] = draw.pick((["mig"], ["vgpu"], ["mig", "vgpu"], ["mps"]))
        out.append(entry)
    return out


def taint(draw: Draw) -> Json:
    """A taint of a slice or a rule."""
    out: Json = {
        "key": draw.pick(TAINT_KEYS),
        "effect": draw.pick(("NoSchedule", "NoSchedule", "NoExecute", "None")),
    }
    if draw.chance(0.4):
        out["value"] = draw.pick(("x", "y"))
    return out


def counter_sets(draw: Draw) -> list[Json]:
    """The boards that `consumes` draws on."""
    return [
        {
            "name": name,
            "counters": {
                "slices": {"value": draw.pick(("4", "7"))},
                "memory": {"value": draw.pick(("40Gi", "80Gi"))},
            },
        }
        for name in SETS
    ]
