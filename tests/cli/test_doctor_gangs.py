"""`drawbridge doctor` names gangs with several schedulers, and what Kueue does not charge."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_doctor import doctor, own
from tests.cluster.fake.api import FakeApi


def split_a_gang(api: FakeApi) -> None:
    own("")(api)
    for name, scheduler in (("launcher", "default-scheduler"), ("worker", "drawbridge")):
        spec = {"schedulerName": scheduler, "schedulingGroup": {"podGroupName": "train"}}
        metadata = {"name": name, "namespace": "team-a"}
        api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def install_kueue(mappings: str, *quotas: str) -> Callable[[FakeApi], None]:
    """Install Kueue with the mappings of this configuration, and a quota for these names."""

    def change(api: FakeApi) -> None:
        text = f"resources: {{deviceClassMappings: [{mappings}]}}\n"
        api.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
                "data": {"controller_manager_config.yaml": text},
            }
        )
        api.put(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ClusterQueue",
                "metadata": {"name": "team-a"},
                "spec": {"resourceGroups": [{"coveredResources": ["cpu", *quotas]}]},
            }
        )

    return change


def install_elsewhere(api: FakeApi) -> None:
    install_kueue("")(api)
    api.remove("ConfigMap", "kueue-manager-config", "kueue-system")


def hide_quotas(api: FakeApi) -> None:
    install_kueue("")(api)
    api.fail(403, method="GET", part="/clusterqueues", times=100)


CASES: dict[str, tuple[str, str, int, Callable[[FakeApi], object]]] = {
    "class that Kueue does not map": ("Kueue", "QueueMappingMissing", 0, install_kueue("")),
    "class that Kueue charges to another name": (
        "Kueue", "QueueMappingMissing", 0,
        install_kueue("{name: gpus, deviceClassNames: [gpu.nvidia.com]}", "nvidia.com/gpu"),
    ),
    "quotas of Kueue that the person may not read": ("not checked", "NotChecked", 0, hide_quotas),
    "Kueue in another namespace": ("not checked", "NotChecked", 0, install_elsewhere),
    "gang with several schedulers": ("gangs", "GangSplit", 1, split_a_gang),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_problem_has_a_line_with_its_code(tmp_path: Path, name: str) -> None:
    check, expected, exit_code, change = CASES[name]
    diagnosis = doctor(tmp_path, "-o", "json", change=change)
    assert expected in [each["code"] for each in diagnosis.of(check)], diagnosis.lines
    assert diagnosis.code == exit_code


def test_a_gang_with_one_scheduler_is_right(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        split_a_gang(api)
        api.remove("Pod", "launcher", "team-a")

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("gangs")
    assert line["code"] == ""
