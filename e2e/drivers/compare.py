"""Compares what two releases of a driver publish.

    python -m e2e.drivers.compare OLD.yaml NEW.yaml

Both files have ResourceSlices, as `kubectl get resourceslices -o yaml` prints them. Compared is the
form of the devices of each type: names of attributes with their types, capacities with their
policies, counters, and the other fields. Devices of the same name are compared by value as well.
The order of devices is none, because drivers keep them in maps. The exit code is 1 if there are
differences.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = Mapping[str, Any]
# Parts of a device that have a line of their own; of the others, the name and value.
_PARTS = ("name", "attributes", "capacity", "consumesCounters")


def differences(old: Iterable[Json], new: Iterable[Json], *, values: bool = True) -> list[str]:
    """Say how the slices of two releases differ, one line for each difference. Pure."""
    before, after = list(old), list(new)
    lines = [*_changed("", _pool_form(before), _pool_form(after))]
    old_kinds, new_kinds = _by_kind(before), _by_kind(after)
    for kind in sorted(old_kinds.keys() | new_kinds.keys()):
        if kind not in old_kinds or kind not in new_kinds:
            lines.append(f"{kind}: {'gone' if kind in old_kinds else 'new'}")
            continue
        lines += _changed(f"{kind}: ", _form(old_kinds[kind]), _form(new_kinds[kind]))
        if values:
            lines += _changed_values(kind, old_kinds[kind], new_kinds[kind])
    return lines


def _by_kind(slices: Iterable[Json]) -> dict[str, list[Json]]:
    """Sort devices by their attribute `type`."""
    devices: dict[str, list[Json]] = defaultdict(list)
    for published in slices:
        for device in published["spec"].get("devices", ()):
            kind = device.get("attributes", {}).get("type", {}).get("string", "device")
            devices[kind].append(device)
    return devices


def _pool_form(slices: Iterable[Json]) -> set[str]:
    """Describe how the pools of a driver are divided."""
    form: set[str] = set()
    for published in slices:
        spec = published["spec"]
        pool = "named after its node" if spec["pool"]["name"] == spec.get("nodeName") else "named"
        has = "devices and counters" if spec.get("sharedCounters") and spec.get("devices") else ""
        form.add(f"driver {spec['driver']}")
        form.add(f"a pool {pool}")
        form.add(f"a slice of {has or ('counters' if spec.get('sharedCounters') else 'devices')}")
        for counters in spec.get("sharedCounters", ()):
            form |= {f"counter {name}" for name in counters["counters"]}
    return form


def _form(devices: Iterable[Json]) -> set[str]:
    """Describe the form of devices, whatever their values are."""
    form: set[str] = set()
    for device in devices:
        for name, value in device.get("attributes", {}).items():
            form |= {f"attribute {name} ({kind})" for kind in value}
        for name, value in device.get("capacity", {}).items():
            policy = value.get("requestPolicy", {})
            rules = [*policy, *policy.get("validRange", ())]
            form.add(f"capacity {name}" + (f" ({', '.join(rules)})" if rules else ""))
        for draw in device.get("consumesCounters", ()):
            form |= {f"consumes {name}" for name in draw["counters"]}
        form |= {f"field {name}" for name in device if name not in _PARTS}
    return form


def _changed(prefix: str, old: set[str], new: set[str]) -> Iterator[str]:
    yield from (f"{prefix}{text} is gone" for text in sorted(old - new))
    yield from (f"{prefix}{text} is new" for text in sorted(new - old))


def _changed_values(kind: str, old: Iterable[Json], new: Iterable[Json]) -> Iterator[str]:
    """Compare devices of the same name, and count equal differences."""
    before = {device["name"]: dict(_values(device)) for device in old}
    after = {device["name"]: dict(_values(device)) for device in new}
    counted: Counter[str] = Counter()
    for name in before.keys() & after.keys():
        form, other = before[name], after[name]
        counted.update(
            f"{what} {form[what]}, now {other[what]}"
            for what in form.keys() & other.keys()
            if form[what] != other[what]
        )
    for names, what in ((before.keys() - after, "gone"), (after.keys() - before, "new")):
        if names:
            yield f"{kind}: {', '.join(sorted(names))}: {what}"
    yield from (f"{kind}: {text} ({number} devices)" for text, number in sorted(counted.items()))


def _values(device: Json) -> Iterator[tuple[str, str]]:
    for name, value in device.get("attributes", {}).items():
        yield f"attribute {name}", json.dumps(*value.values())
    for name, value in device.get("capacity", {}).items():
        yield f"capacity {name}", str(value["value"])
    for draw in device.get("consumesCounters", ()):
        for name, value in draw["counters"].items():
            yield f"consumes {name}", str(value["value"])
    for name, value in device.items():
        if name not in _PARTS:
            yield f"field {name}", json.dumps(value, sort_keys=True)


def read(path: Path) -> list[Json]:
    """Read the ResourceSlices of a file: a stream of objects or lists."""
    objects: list[Json] = []
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        items = document.get("items") if isinstance(document, dict) else document
        objects += [document] if items is None else items
    return [one for one in objects if "pool" in one.get("spec", {})]


def main() -> int:
    """Print the differences; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m e2e.drivers.compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--form", action="store_true", help="compare no values")
    arguments = parser.parse_args()
    lines = differences(read(arguments.old), read(arguments.new), values=not arguments.form)
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "no differences\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
