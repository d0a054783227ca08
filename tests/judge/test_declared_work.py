"""Slices whose annotation declares more selectors than the allocator evaluates have a finding."""

import json

from drawbridge.cel.dra import Selectors
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.judge.slices.checks import judge_slices
from drawbridge.names import COMPATIBILITY_ANNOTATION
from tests.tables import YamlValue, every_row

UUID = 'device.attributes["d.io"].uuid'


def sliced(selectors: int) -> Slice:
    declared = [
        {"selector": f'{UUID} == "x{number}"', "compatibleOnlyWith": "true"}
        for number in range(selectors)
    ]
    devices: YamlValue = [
        {"name": f"d{number}", "attributes": {"uuid": {"string": f"{number}"}}}
        for number in range(64)
    ]
    read = read_slice(
        {
            "metadata": {
                "name": "s",
                "annotations": {COMPATIBILITY_ANNOTATION: json.dumps(declared)},
            },
            "spec": {
                "driver": "d.io",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
    )
    assert isinstance(read, Slice)
    return read


@every_row(("selectors", "left"), [(4, 0), (16, 0), (400, 64)])
def test_devices_that_no_declaration_is_evaluated_for_are_reported(
    selectors: int, left: int
) -> None:
    findings = judge_slices([sliced(selectors)], selectors=Selectors.of_gates(DEFAULTS))
    messages = [each.message for each in findings if "more work" in each.message and each.remedy]
    told = [each for each in messages if "of 64 devices" in each]
    assert len(told) == bool(left)
    assert all(f"{left} of 64 devices" in each for each in told)
