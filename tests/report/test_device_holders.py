"""Holders of devices are found in claims, and in what schedulers write on pods."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.report.device_holders import DeviceUse, HeldObjects, find_holders
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "holders.yaml")
HAMI = "hami.io/vgpu-devices-allocated"
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"


def describe(held: DeviceUse) -> str:
    name = "/".join(filter(None, (held.driver, held.pool, held.device))).replace(" ", "%")
    amounts = ",".join(f"{key}={text}" for key, text in sorted(held.amounts.items()))
    pods = ",".join((*held.pods, *(f"group:{each}" for each in held.groups)))
    return f"{held.node} {name} {held.claim or '-'} {pods or '-'} {amounts or '-'}"


@every_row("case", CASES, ids=lambda case: case["name"])
def test_holder_cases(case: YamlValue) -> None:
    parts = (tuple(case.get(kind, ())) for kind in ("claims", "pods", "slices", "nodes"))
    holders = sorted(map(describe, find_holders(HeldObjects(*parts))))
    assert holders == sorted(case["holders"])


@every_row(
    ("wanted", "expected"),
    [
        ("gpu-3", True),
        ("3", True),
        ("GPU-a", True),
        ("d.com/p/gpu-3", True),
        ("13", False),
        ("gpu", False),
        ("", False),
    ],
)
def test_a_device_is_named_by_name_number_or_identity(wanted: str, *, expected: bool) -> None:
    assert DeviceUse("n", "d.com", "p", "gpu-3", None, (), id="GPU-a").matches(wanted) is expected
    assert DeviceUse("n", "d.com", "p", "gpu-13", None, ()).matches("3") is False


@given(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_any_annotation_is_read_or_ignored_and_the_pod_stays(text: str, value: object) -> None:
    for written in (text, json.dumps({"gpu": value}), json.dumps(value)):
        annotations: YamlValue = {HAMI: written, KOORDINATOR: written}
        limits = {"nvidia.com/gpu": 1}
        pod = {
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"resources": {"limits": limits}}]},
        }
        assert {each.pods for each in find_holders(HeldObjects(pods=(pod,)))} == {("default/p",)}


def test_what_a_pod_says_of_itself_is_bounded() -> None:
    text = "".join(f"GPU-{number}{'x' * 900},NVIDIA,1,1:" for number in range(70))
    pod: YamlValue = {
        "metadata": {"name": "p", "annotations": {HAMI: text}},
        "spec": {
            "nodeName": "n",
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}],
        },
    }
    held = find_holders(HeldObjects(pods=(pod,)))
    assert len(held) == 64
    assert all(len(each.device) <= 253 and len(each.id) <= 253 for each in held)
    pod["metadata"]["annotations"] = {HAMI: text * 2}
    assert [each.is_known for each in find_holders(HeldObjects(pods=(pod,)))] == [False]
