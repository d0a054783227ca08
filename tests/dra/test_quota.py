"""Tests of quota charges for claims."""

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.quota import CLAIMS, quota_charges
from tests.tables import YamlValue, every_row

GPU = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
MIG = "mig.nvidia.com.deviceclass.resource.k8s.io/devices"
CLASSES = {"gpu.nvidia.com": "nvidia.com/gpu", "mig.nvidia.com": ""}


def charged(*requests: YamlValue, classes: dict[str, str] | None = None) -> dict[str, int]:
    spec = {"devices": {"requests": [{"name": f"r{i}", **one} for i, one in enumerate(requests)]}}
    claim = read_claim({"metadata": {"name": "c"}, "spec": spec})
    assert isinstance(claim, Claim), claim
    return dict(quota_charges(claim.spec, classes or {}))


def exactly(name: str = "gpu.nvidia.com", **rest: YamlValue) -> YamlValue:
    return {"exactly": {"deviceClassName": name, **rest}}


def ways(*subrequests: tuple[str, int]) -> YamlValue:
    return {
        "firstAvailable": [
            {"name": f"w{i}", "deviceClassName": name, "count": count}
            for i, (name, count) in enumerate(subrequests)
        ]
    }


@every_row(
    ("requests", "expected"),
    [
        ([], {}),
        ([exactly()], {GPU: 1}),
        ([exactly(count=3), exactly(count=2)], {GPU: 5}),
        ([exactly(allocationMode="All")], {GPU: 32}),
        ([exactly(allocationMode="Some")], {GPU: 0}),
        ([exactly(adminAccess=True, count=2)], {GPU: 2}),
        ([exactly(), exactly("mig.nvidia.com")], {GPU: 1, MIG: 1}),
        # Of several ways each class is charged the most that one of them takes of it.
        ([ways(("gpu.nvidia.com", 1), ("mig.nvidia.com", 4))], {GPU: 1, MIG: 4}),
        ([ways(("gpu.nvidia.com", 1), ("gpu.nvidia.com", 3))], {GPU: 3}),
    ],
)
def test_devices_are_charged_by_class(requests: list[YamlValue], expected: dict[str, int]) -> None:
    assert charged(*requests) == {CLAIMS: 1, **expected}


def test_a_class_with_extended_resources_is_also_charged_by_their_names() -> None:
    assert charged(exactly(count=2), exactly("mig.nvidia.com"), classes=CLASSES) == {
        CLAIMS: 1,
        GPU: 2,
        MIG: 1,
        "requests.nvidia.com/gpu": 2,
        "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2,
        "requests.deviceclass.resource.kubernetes.io/mig.nvidia.com": 1,
    }


@every_row(
    ("requests", "expected"),
    [
        ([ways(("old", 4), ("new", 4))], 4),
        ([ways(("old", 4), ("new", 2))], 2),
        ([exactly("old", count=1), exactly("new", count=3), exactly("old", count=1)], 2),
    ],
)
def test_one_of_several_classes_is_charged_to_their_extended_resource(
    requests: list[YamlValue], expected: int
) -> None:
    """The API server charges any one of them, so the smallest number is certain."""
    classes = dict.fromkeys(("old", "new"), "example.com/gpu")
    assert charged(*requests, classes=classes)["requests.example.com/gpu"] == expected
