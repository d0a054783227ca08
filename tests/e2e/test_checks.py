"""The checks of node drivers, each with the cases around its rule; and how orders are read."""

from pathlib import Path
from typing import Any

from e2e.nodes import checks
from e2e.nodes.checks import DriverState
from e2e.nodes.family import FAMILIES
from e2e.nodes.layout import Device, Layout, Sheet
from e2e.nodes.order import Order, Result, effective, read
from e2e.scenarios import driver_checks
from tests.tables import every_row, read_yaml

CASES = read_yaml((Path(__file__).parent / "cases" / "checks.yaml").read_text())
CHECKS = checks.COMMON | checks.SHARES | checks.NVIDIA | checks.HAMI
CONFIGS = {"K": ("gpu", {"sharing": {"strategy": str}})}


def device(name: str, data: dict[str, Any]) -> Device:
    wire: dict[str, Any] = {"capacity": data.get("capacity", {})}
    if data.get("shared"):
        wire["allowMultipleAllocations"] = True
    if "draws" in data:
        wire["consumesCounters"] = data["draws"]
    return Device(name, data.get("kind", "gpu"), data.get("physical", name), wire)


def ask(name: str, results: list[dict[str, Any]], config: dict[str, Any] | None = None) -> Order:
    made = tuple(
        Result(
            f"request-{number}",
            entry.get("pool", "n"),
            entry["device"],
            entry.get("share", ""),
            entry.get("admin", False),
            entry.get("consumed", {}),
        )
        for number, entry in enumerate(results)
    )
    configs = {result.request: config for result in made} if config is not None else {}
    return Order("n", "space", name, f"uid-{name}", made, configs)


@every_row("case", CASES, ids=lambda case: f"{case['check']}: {case['name']}")
def test_a_check_names_the_devices_that_break_its_rule(case: dict[str, Any]) -> None:
    devices = tuple(device(name, data) for name, data in case["devices"].items())
    sets = tuple(
        {"name": name, "counters": counters} for name, counters in case.get("counters", {}).items()
    )
    bench = DriverState(
        Layout("example.com", "n", (Sheet(devices), Sheet(counters=sets))),
        {name: device(name, data) for name, data in case.get("retired", {}).items()},
        frozenset(case.get("lost", ())),
        tuple(ask(f"held-{n}", results) for n, results in enumerate(case.get("held", ()))),
        ask("own", case["own"]) if "own" in case else None,
        case.get("elsewhere", {}),
        CONFIGS,
        "v",
    )
    order = ask("asked", case["asked"], case.get("config"))
    assert [trip.device for trip in CHECKS[case["check"]](order, bench)] == case["trips"]


def test_every_check_has_a_case_on_each_side_of_its_rule() -> None:
    for name in CHECKS:
        sides = {bool(case["trips"]) for case in CASES if case["check"] == name}
        assert sides == {True, False}, name


def test_every_family_checks_only_what_has_a_name() -> None:
    for family in FAMILIES.values():
        assert family.checks.items() <= CHECKS.items()


def test_every_check_of_every_driver_has_a_scenario_that_trips_it() -> None:
    played = {(act.driver, act.code) for act in driver_checks.forged_violations()}
    checked = {(driver, code) for driver, family in FAMILIES.items() for code in family.checks}
    # hami-core publishes no exclusive device, so two rules cannot be broken there.
    hami = "hami-core-gpu.project-hami.io"
    assert checked - played == {(hami, "DeviceRepeated"), (hami, "DeviceTaken")}
    assert played <= checked


def config(source: str, value: int, requests: list[str] | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source}
    if requests is not None:
        entry["requests"] = requests
    return entry | {"opaque": {"driver": "d", "parameters": {"value": value}}}


@every_row(
    ("configs", "expected"),
    [
        ([], None),
        ([config("FromClass", 1)], 1),
        ([config("FromClaim", 1), config("FromClass", 2)], 1),
        ([config("FromClaim", 1), config("FromClaim", 2)], 2),
        ([config("FromClaim", 1), config("FromClaim", 2, ["other"])], 1),
        ([config("FromClaim", 1, ["main/sub"])], 1),
        ([config("FromClaim", 1, ["main"])], None),  # drivers compare whole names
        ([config("FromClaim", 1, ["main/other"])], None),
        ([config("FromClaim", 1, [])], 1),
    ],
)
def test_the_claims_configuration_wins_and_the_later_one(
    configs: list[dict[str, Any]], expected: int | None
) -> None:
    chosen = effective("d", "main/sub", configs)
    assert (chosen["value"] if chosen else None) == expected
    assert effective("another", "main/sub", configs) is None


def test_a_configuration_for_all_requests_counts_only_if_it_applies() -> None:
    def is_even(parameters: dict[str, Any]) -> bool:
        return bool(parameters["value"] % 2 == 0)

    for_all = [config("FromClaim", 2), config("FromClaim", 3)]
    assert effective("d", "main", for_all, is_even) == {"value": 2}
    named = [*for_all, config("FromClaim", 5, ["main"])]
    assert effective("d", "main", named, is_even) == {"value": 5}


def test_an_order_has_only_its_own_drivers_devices() -> None:
    results = [
        {"request": "a", "driver": "d", "pool": "n", "device": "x", "shareID": "s"},
        {"request": "b", "driver": "e", "pool": "n", "device": "y"},
    ]
    claim = {
        "metadata": {"namespace": "space", "name": "claim", "uid": "u"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    assert read("d", "n", claim).results == (Result("a", "n", "x", "s"),)
