"""What is said of the slices of two releases of a driver."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.drivers.compare import differences, main, read
from e2e.nodes import slices
from e2e.nodes.family import FAMILIES
from e2e.nodes.layout import Layout
from e2e.nodes.machine import machine
from tests.tables import every_row

GPU = "gpu.nvidia.com"
MACHINE = machine("n", "lab-2g2n")


def layout(mode: str = "full") -> Layout:
    return FAMILIES[GPU].publish(MACHINE, mode)


def bodies(published: Layout) -> list[dict[str, Any]]:
    return slices.objects(published)


def changed(**attributes: Any) -> Layout:  # noqa: ANN401  # values of attributes
    published = layout()
    for name, device in published.devices.items():
        wanted = {**device.wire["attributes"], **attributes}
        given = {key: value for key, value in wanted.items() if value is not None}
        published = published.changed(name, attributes=given)
    return published


def test_the_order_of_devices_is_no_difference() -> None:
    again = layout().shuffled(random.Random(0))
    assert list(again.devices) == ["gpu-1", "gpu-0"]
    assert differences(bodies(layout()), bodies(again)) == []


@every_row(
    ("new", "lines"),
    [
        (changed(brand=None), ["gpu: attribute brand (string) is gone"]),
        (changed(numa={"int": 1}), ["gpu: attribute numa (int) is new"]),
        (
            changed(cudaDriverVersion={"string": "13"}),
            [
                "gpu: attribute cudaDriverVersion (version) is gone",
                "gpu: attribute cudaDriverVersion (string) is new",
                'gpu: attribute cudaDriverVersion "13.0.0", now "13" (2 devices)',
            ],
        ),
        (
            changed(driverVersion={"version": "1.2.3"}),
            ['gpu: attribute driverVersion "580.126.9", now "1.2.3" (2 devices)'],
        ),
        (layout().without(["gpu-1"]), ["gpu: gpu-1: gone"]),
        (
            layout("shares-4"),
            [
                "gpu: capacity memory is gone",
                "gpu: capacity memory (default, validRange, min, max, step) is new",
                "gpu: capacity shares (default, validRange, min, max, step) is new",
                "gpu: field allowMultipleAllocations is new",
            ],
        ),
    ],
)
def test_what_changed_is_said_once(new: Layout, lines: list[str]) -> None:
    assert differences(bodies(layout()), bodies(new)) == lines


def test_types_and_counters_that_are_new_are_named() -> None:
    lines = differences(bodies(layout()), bodies(layout("dynamic-mig")), values=False)
    assert "a slice of counters is new" in lines
    assert "counter encoders is new" in lines
    assert "gpu: consumes memory-slice-0 is new" in lines
    assert "gpu: capacity encoders is new" in lines
    assert "mig: new" in lines


def test_values_can_be_left_out() -> None:
    new = changed(driverVersion={"version": "1.2.3"})
    assert differences(bodies(layout()), bodies(new), values=False) == []


def test_the_command_reads_lists_and_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump({"kind": "List", "items": bodies(layout())}))
    stream = [*bodies(layout().without(["gpu-1"])), {"kind": "Node", "spec": {}}]
    new.write_text(yaml.safe_dump_all(stream))
    assert len(read(new)) == 1
    monkeypatch.setattr("sys.argv", ["compare", str(old), str(new)])
    assert (main(), capsys.readouterr().out) == (1, "gpu: gpu-1: gone\n")
    monkeypatch.setattr("sys.argv", ["compare", str(old), str(old)])
    assert (main(), capsys.readouterr().out) == (0, "no differences\n")
