"""The rules about the devices of a node, by case tables."""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.choice.devices import DEVICE_RULES, DeviceAmount, DeviceLoad
from tests.tables import load_cases

_TABLES = Path(__file__).parent / "cases"
_DEVICES = load_cases(_TABLES / "devices.yaml")
_NODES = load_cases(_TABLES / "nodes.yaml")


def _device(name: str, given: dict[str, Any]) -> DeviceLoad:
    total, used = DeviceAmount(*given["total"]), DeviceAmount(*given.get("used", ()))
    return DeviceLoad(name, total, used, given.get("numa"), given.get("links", {}))


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in _DEVICES])
def test_a_task_takes_the_devices_of_the_table(case: dict[str, Any]) -> None:
    devices = [_device(name, given) for name, given in case["devices"].items()]
    rules, asked = DEVICE_RULES[case["rules"]], DeviceAmount(*case["asked"])
    taken = rules.choose(devices, asked, case.get("count", 1))
    assert [each.name for each in taken] == case["expect"]


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in _NODES])
def test_the_node_of_the_table_is_better(case: dict[str, Any]) -> None:
    rules = DEVICE_RULES[case["rules"]]
    scores = {}
    for name, given in case["nodes"].items():
        devices = [
            DeviceLoad(f"{number}", DeviceAmount(*total), DeviceAmount(*used))
            for number, (total, used) in enumerate(given)
        ]
        scores[name] = sum(part.value for part in rules.of_node(devices))
    assert max(scores, key=scores.__getitem__) == case["expect"]
    assert len(set(scores.values())) == len(scores)


def test_sixteen_of_thirty_two_linked_devices_take_no_endless_search() -> None:
    names = [f"d{number}" for number in range(32)]
    devices = [
        DeviceLoad(
            name,
            DeviceAmount(1, 100, 80),
            links={e: int(i // 16 == n // 16) for n, e in enumerate(names) if e != name},
        )
        for i, name in enumerate(names)
    ]
    taken = DEVICE_RULES["topology-aware"].choose(devices, DeviceAmount(1, 100, 80), 16)
    assert len({names.index(each.name) // 16 for each in taken}) == 1
