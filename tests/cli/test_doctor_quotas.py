"""`drawbridge doctor` about quotas, for a person who may read only a part."""

from pathlib import Path
from typing import Any

from tests.cli.installed_api import CONFIGURATION
from tests.cli.test_doctor import QUOTA_OF_TWO, configure, doctor
from tests.cluster.fake.api import FakeApi


def test_namespaces_that_a_person_may_not_list_are_not_missing(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        configure(f"{CONFIGURATION}{QUOTA_OF_TWO}")(api)
        api.denied |= {"namespaces"}

    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    assert diagnosis.of("quotas") == []
    (unread,) = (each for each in diagnosis.lines if each["code"] == "NotChecked")
    assert "quotas" in unread["message"]
    assert "you may not list namespaces" in unread["message"]


def test_a_capacity_that_no_device_publishes_has_a_line(tmp_path: Path) -> None:
    quota = "quotas: [{name: q, total: {gpu.nvidia.com: {memroy: 80Gi}}}]\n"
    diagnosis = doctor(tmp_path, "-o", "json", change=configure(f"{CONFIGURATION}{quota}"))
    line = diagnosis.of("quotas")[0]
    assert line["code"] == "QuotaNotPublished"
    assert line["message"] == (
        "quotas[0].total[gpu.nvidia.com][memroy]: no device of class gpu.nvidia.com publishes the "
        "capacity memroy; did you mean memory?"
    )


def allocated(name: str) -> dict[str, Any]:
    """A claim of team-a with one device."""
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": name}
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def test_who_is_over_quota_has_a_line(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        configure(f"{CONFIGURATION}{QUOTA_OF_TWO}")(api)
        for name in ("one", "two"):
            api.put(allocated(name))

    lines = doctor(tmp_path, "-o", "json", change=change).of("quotas")
    (over,) = (each for each in lines if each["code"] == "QuotaBelowUse")
    assert over["message"] == (
        "quota q: namespace team-a uses 2 of 1 device of class gpu.nvidia.com: running pods stay, "
        "and native placement gives new ones devices"
    )
    assert lines[-1]["message"] == "1 total of a quota in use: 1 exceeded, 0 used up"
