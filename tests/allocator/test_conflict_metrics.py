"""The metrics of conflicts: how many there are by code, and a line for each of the first ones."""

from allocator.metrics import collect_conflicts
from drawbridge.ledger.conflicts import ConflictLine


def read_values(*lines: ConflictLine) -> dict[str, list[tuple[str, float]]]:
    """Return code and value of each sample, by metric."""
    return {
        metric.name.removeprefix("drawbridge_allocator_"): [
            (each.labels["code"], each.value) for each in metric.samples
        ]
        for metric in collect_conflicts(lines)
    }


def line(code: str, device: int) -> ConflictLine:
    return ConflictLine(code, f"Device/d.io/n1/gpu-{device}", "default/ours", "default/theirs")


def test_without_conflicts_each_code_is_0() -> None:
    assert read_values() == {
        "current_conflicts": [
            ("DeviceHeldTwice", 0),
            ("CapacityExceeded", 0),
            ("CounterOverdrawn", 0),
        ],
        "conflicts": [],
    }


def test_conflicts_without_a_line_count() -> None:
    shares = [line("CapacityExceeded", number) for number in range(100)]
    # Two shares of one device that the same two claims have.
    values = read_values(*shares, *[line("DeviceHeldTwice", 100)] * 2)
    assert values["conflicts"] == [("CapacityExceeded", 1)] * 100
    assert dict(values["current_conflicts"]) == {
        "DeviceHeldTwice": 2,
        "CapacityExceeded": 100,
        "CounterOverdrawn": 0,
    }
