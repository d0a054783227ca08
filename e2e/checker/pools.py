"""Derives from the published slices which pools a node sees and whether they are valid."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from e2e.checker.quantities import Json


@dataclass
class Pool:
    """A pool as a node sees it; `here` are its slices for this node, `all` those of everybody."""

    driver: str
    name: str
    here: list[Json]
    all: list[Json]
    incomplete: bool = False
    faults: list[str] = field(default_factory=list)

    def devices(self) -> Iterator[tuple[Json, Json]]:
        """Each slice and device that this node may be offered, in the order of choice."""
        for entry in sorted(self.here, key=name_of):
            spec = spec_of(entry)
            for device in listed(spec, "devices"):
                yield spec, device


def spec_of(entry: Json) -> Json:
    """The spec of an object."""
    spec = entry["spec"]
    assert isinstance(spec, dict)
    return spec


def name_of(entry: Json) -> str:
    """The name of an object."""
    metadata = entry["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def listed(parent: Json, key: str) -> list[Json]:
    """A list field, which may be absent."""
    items = parent.get(key) or []
    assert isinstance(items, list)
    return items


def section(parent: Json, key: str) -> Json:
    """A map field, which may be absent."""
    fields = parent.get(key) or {}
    assert isinstance(fields, dict)
    return fields


def matches(node: Json, where: Json) -> bool:
    """Return whether a slice or device with these node fields is for a node."""
    if where.get("nodeName"):
        return bool(where["nodeName"] == name_of(node))
    if where.get("allNodes"):
        return True
    terms = listed(section(where, "nodeSelector"), "nodeSelectorTerms")
    return any(term_matches(node, term) for term in terms)


def term_matches(node: Json, term: Json) -> bool:
    """One term: all of it has to hold, and an empty one matches nothing."""
    labels = section(section(node, "metadata"), "labels")
    expressions, fields = listed(term, "matchExpressions"), listed(term, "matchFields")
    by_label = all(holds(one, labels.get(str(one["key"]))) for one in expressions)
    by_field = all(holds(one, name_of(node)) for one in fields)
    return bool(expressions or fields) and by_label and by_field


def holds(requirement: Json, value: object) -> bool:
    """One requirement on a label or field."""
    values = requirement.get("values") or []
    assert isinstance(values, list)
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if not re.fullmatch(r"[+-]?\d+", str(value)):
        return False
    than = int(values[0])
    return int(str(value)) > than if requirement["operator"] == "Gt" else int(str(value)) < than


def relevant(node: Json, spec: Json) -> bool:
    """Return whether a slice is for a node."""
    if spec.get("nodeName") or spec.get("allNodes") or spec.get("nodeSelector"):
        return matches(node, spec)
    devices = listed(spec, "devices")
    return bool(spec.get("perDeviceNodeSelection")) and any(
        matches(node, device) for device in devices
    )


def grouped(spec: Json) -> bool:
    """Return whether a device of a slice declares compatibility groups."""
    uses = (use for one in listed(spec, "devices") for use in listed(one, "consumesCounters"))
    return any(use.get("compatibilityGroups") for use in uses)


def pools(slices: list[Json], node: Json, gates: dict[str, bool]) -> list[Pool]:
    """The pools of which the node sees the newest generation, good or bad."""
    every: dict[tuple[str, str], list[Json]] = {}
    for entry in slices:
        spec = spec_of(entry)
        every.setdefault((str(spec["driver"]), str(section(spec, "pool")["name"])), []).append(
            entry
        )
    out = []
    for (driver, name), published in sorted(every.items()):
        viewed = view(published, node, gates)
        if viewed is not None:
            out.append(Pool(driver, name, *viewed[:2], incomplete=viewed[2], faults=viewed[3]))
    return out


def view(
    published: list[Json], node: Json, gates: dict[str, bool]
) -> tuple[list[Json], list[Json], bool, list[str]] | None:
    """One pool on one node: its slices here, all of its generation, incomplete, what is wrong."""
    if not gates["DRADeviceCompatibilityGroups"]:
        offered = [entry for entry in published if not grouped(spec_of(entry))]
    else:
        offered = published
    if not gates["DRAPartitionableDevices"]:
        offered = [one for one in offered if not partitioned(spec_of(one))]
    here = [entry for entry in offered if relevant(node, spec_of(entry))]
    if not here:
        return None
    newest = max(generation(entry) for entry in here)
    here = [entry for entry in here if generation(entry) == newest]
    wanted = {section(spec_of(entry), "pool")["resourceSliceCount"] for entry in here}
    current, incomplete = here, len(here) not in wanted
    if incomplete:
        if any(generation(entry) > newest for entry in published):
            return None
        current = [
            entry
            for entry in published
            if generation(entry) == newest
            and (gates["DRADeviceCompatibilityGroups"] or not grouped(spec_of(entry)))
        ]
        incomplete = len(current) not in wanted
    return here, current, incomplete, faults(here, current, gates)


def partitioned(spec: Json) -> bool:
    """Return whether a slice needs the gate of partitionable devices."""
    return spec.get("perDeviceNodeSelection") is not None or bool(spec.get("sharedCounters"))


def generation(entry: Json) -> int:
    """The generation of the pool that a slice belongs to."""
    return int(str(section(spec_of(entry), "pool")["generation"]))


def faults(here: list[Json], current: list[Json], gates: dict[str, bool]) -> list[str]:
    """What makes a complete pool invalid."""
    names = Counter(one["name"] for entry in here for one in listed(spec_of(entry), "devices"))
    out = [f"device {name} is published twice" for name, count in names.items() if count > 1]
    if not gates["DRAPartitionableDevices"]:
        return out
    sets: dict[object, Json] = {}
    for entry in current:
        for counters in listed(spec_of(entry), "sharedCounters"):
            if counters["name"] in sets:
                out.append(f"counter set {counters['name']} is published twice")
            sets[counters["name"]] = section(counters, "counters")
    for entry in current:
        for device in listed(spec_of(entry), "devices"):
            for use in listed(device, "consumesCounters"):
                counter_set = sets.get(use["counterSet"])
                if counter_set is None or not section(use, "counters").keys() <= counter_set.keys():
                    out.append(f"device {device['name']} draws from unknown counters")
    return out
