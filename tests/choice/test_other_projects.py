"""The rules for devices beside what other projects' tests say, by a table."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from drawbridge.choice.devices import DEVICE_RULES, DeviceAmount, DeviceLoad
from tests.tables import load_cases

_TABLE: dict[str, list[dict[str, Any]]] = load_cases(
    Path(__file__).parent / "cases" / "other_projects.yaml"
)  # type: ignore[assignment]  # lists by name
_UNIT = DeviceAmount(1, 1, 1)


def _rows(name: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in _TABLE[name]]


def _expected(row: dict[str, Any]) -> object:
    """Return what is taken here, which a row has to argue if it is not what the project takes."""
    assert ("why" in row) == ("ours" in row), row["name"]
    return row.get("ours", row["theirs"])


@pytest.mark.parametrize("row", _rows("orders"))
def test_the_device_of_the_row_is_taken(row: dict[str, Any]) -> None:
    devices = [
        DeviceLoad(name, DeviceAmount(100, 100, 100), DeviceAmount(use, use, use), numa)
        for name, (numa, use) in (("a", row["a"]), ("b", row["b"]))
    ]
    (taken,) = DEVICE_RULES[row["rules"]].choose(devices, _UNIT, 1)
    assert taken.name == _expected(row)


def _as_theirs(parts: int, weights: DeviceAmount) -> float:
    """Return a score as HAMi counts it."""
    return parts * sum(weights) / 100


@pytest.mark.parametrize("row", _rows("scores"))
def test_a_device_has_the_score_of_the_row(row: dict[str, Any]) -> None:
    weights = DeviceAmount(*row.get("weights", (1, 1, 1)))
    rules = replace(DEVICE_RULES["binpack"], weights=weights)
    device = DeviceLoad("d", DeviceAmount(*row["total"]), DeviceAmount(*row["used"]))
    parts = sum(each.value for each in rules.of_device(device, DeviceAmount(*row["asked"])))
    assert _as_theirs(parts, weights) == pytest.approx(row["score"], abs=0.15)


@pytest.mark.parametrize("row", _rows("nodes"))
def test_a_node_has_the_score_of_the_row(row: dict[str, Any]) -> None:
    devices = [
        DeviceLoad(f"{number}", DeviceAmount(*total), DeviceAmount(*used))
        for number, (total, used) in enumerate(row["devices"])
    ]
    rules = DEVICE_RULES["binpack"]
    parts = sum(each.value for each in rules.of_node(devices))
    assert _as_theirs(parts, rules.weights) == pytest.approx(row["score"], abs=0.15)


@pytest.mark.parametrize("row", _rows("better"))
def test_the_node_of_the_row_is_better(row: dict[str, Any]) -> None:
    rules = DEVICE_RULES[row["rules"]]
    scores = {}
    for name in "ab":
        use = row[name]
        devices = [DeviceLoad("d", DeviceAmount(100, 100, 100), DeviceAmount(use, use, use))]
        scores[name] = sum(each.value for each in rules.of_node(devices))
    assert max(scores, key=scores.__getitem__) == _expected(row)


@pytest.mark.parametrize("row", _rows("selections"))
def test_the_devices_of_the_row_are_taken(row: dict[str, Any]) -> None:
    rules, asked = DEVICE_RULES[row["rules"]], DeviceAmount(0, 1, 1)
    nodes = [
        [
            DeviceLoad(name, DeviceAmount(1, *total), DeviceAmount(0, *used))
            for name, (total, used) in devices.items()
        ]
        for devices in row["nodes"].values()
    ]
    able = [each for each in nodes if rules.choose(each, asked, row["count"])]
    best = max(able, key=lambda each: sum(p.value for p in rules.of_node(each)), default=[])
    taken = rules.choose(best, asked, row["count"])
    assert [each.name for each in taken] == _expected(row)
