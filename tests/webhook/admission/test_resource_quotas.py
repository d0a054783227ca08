"""What a denial says of the limits that the mirrored quota divides, whatever a tenant wrote."""

import msgspec
import pytest

from drawbridge.dra.quota import DEVICES
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION
from tests.tables import YamlValue
from webhook.admission.resource_quotas import check_quotas

NAME = "nvidia.com/gpu"
CHARGE = {f"gpu{DEVICES}": 2}


def make_quota(name: str, hard: YamlValue, **metadata: YamlValue) -> ResourceQuota:
    wire = {"metadata": {"name": name, **metadata}, "spec": {"hard": hard}}
    return msgspec.convert(wire, ResourceQuota)


def mirror(names: list[str], amount: int) -> ResourceQuota:
    """Return the mirrored quota that divides the limits of these names between pods and claims."""
    noted = msgspec.json.encode({name: ["gpu"] for name in names}).decode()
    annotations: YamlValue = {QUOTA_CLASSES_ANNOTATION: noted}
    hard: YamlValue = {f"gpu{DEVICES}": amount}
    return make_quota(MIRRORED_QUOTA, hard, labels=dict(MANAGED_BY), annotations=annotations)


@pytest.mark.parametrize(
    ("hard", "left", "expected"),
    [
        ("1500m", 1, "but 0 of 1 are in use by pods and claims"),  # of which one device is usable
        ("1", 1, "but 0 of 1 are in use by pods and claims"),
        ("0", 1, "but 0 of 0 are in use by pods and claims"),  # lowered a moment ago
    ],
)
def test_a_limit_is_rounded_down_and_no_usage_is_negative(
    hard: str, left: int, expected: str
) -> None:
    quotas = [make_quota("old", {f"requests.{NAME}": hard}), mirror([NAME], left)]
    (finding,) = check_quotas(CHARGE, {NAME: ["gpu"]}, quotas)
    assert finding.message.endswith(expected)


def test_a_limit_that_several_classes_divide_is_told_once() -> None:
    noted: YamlValue = {QUOTA_CLASSES_ANNOTATION: f'{{"{NAME}":["gpu","nic"]}}'}
    charges = {**CHARGE, f"nic{DEVICES}": 2}
    hard: YamlValue = dict.fromkeys(charges, 1)
    own = make_quota(MIRRORED_QUOTA, hard, labels=dict(MANAGED_BY), annotations=noted)
    quotas = [make_quota("old", {f"requests.{NAME}": "1"}), own]
    (finding,) = check_quotas(charges, {NAME: ["gpu", "nic"]}, quotas)
    assert finding.message.startswith(f"ResourceQuota old: requests.{NAME}: ")


def test_some_of_many_entries_are_named() -> None:
    names = [f"example.com/{number:02}" for number in range(20)]
    quotas = [make_quota("old", {f"requests.{each}": "1" for each in names}), mirror(names, 1)]
    (finding,) = check_quotas(CHARGE, {names[0]: ["gpu"]}, quotas)
    assert finding.message.startswith("ResourceQuota old: requests.example.com/00, ")
    assert (
        "/02 and 17 more limits: the claims of the pod request 2, but 19 of 20" in finding.message
    )


def test_some_of_many_quotas_are_named() -> None:
    quotas = [make_quota(f"q{number}", {f"requests.{NAME}": "1"}) for number in range(1000)]
    (finding,) = check_quotas(CHARGE, {NAME: ["gpu"]}, quotas)
    assert finding.message.startswith(
        f"ResourceQuota q0, q1, q2 and 997 more quotas: requests.{NAME} "
    )
    assert finding.remedy.endswith("else ask for such a quota.")


def test_of_a_longer_annotation_than_quotas_keep_nothing_is_read() -> None:
    names = [f"example.com/{number:04}" for number in range(1000)]
    quotas = [make_quota("old", {f"requests.{each}": "1" for each in names}), mirror(names, 1)]
    (finding, *_) = check_quotas(CHARGE, {names[0]: ["gpu"]}, quotas)
    assert finding.message.startswith(f"ResourceQuota {MIRRORED_QUOTA}: gpu{DEVICES}: ")


def test_of_more_limits_than_can_be_read_at_once_the_mirrored_one_is_named() -> None:
    names = [NAME, "nvidia.com/pgpu"]
    hard: YamlValue = {f"requests.{each}": "1" for each in names}
    quotas = [make_quota(f"q{number}", hard) for number in range(1001)]
    (finding,) = check_quotas(CHARGE, {}, [*quotas, mirror(names, 1)])
    assert finding.message.startswith(f"ResourceQuota {MIRRORED_QUOTA}: gpu{DEVICES}: ")
