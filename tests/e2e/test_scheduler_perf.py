"""What upstream's benchmark is given, what is read of it, and the table of its workloads."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from drawbridge.agreement.configuration import read_configuration
from drawbridge.agreement.configuration_in_use import parse_text
from drawbridge.config.model import Configuration
from e2e.upstream.build import kubernetes
from e2e.upstream.newer import NAMES, PIN, rewritten
from e2e.upstream.scheduler_perf import (
    DRIVER,
    FOLDER,
    HERE,
    IN_TREE,
    OURS,
    Turn,
    Workload,
    compare,
    configuration,
    newer_workloads,
    read_turn,
    row,
    scheduler_configuration,
    workloads,
)

CASES = [
    {
        "name": "Steady",
        "workloads": [
            {"name": "empty", "labels": ["performance"], "threshold": {"dra": 64}},
            {"name": "half", "threshold": 60},
        ],
    },
    {"name": "Slices", "workloads": [{"name": "500nodes", "labels": ["performance"]}]},
]


def _item(metric: str, average: float, **labels: str) -> dict[str, Any]:
    data = {"Average": average, "Perc50": 20.0, "Perc90": 30.0, "Perc99": 40.0}
    return {"labels": {"Metric": metric, **labels}, "data": data}


def _write(folder: Path, *items: dict[str, Any]) -> Path:
    (folder / "result.json").write_text(json.dumps({"dataItems": items}), encoding="utf-8")
    return folder


def test_rates_and_attempts_of_scheduled_pods_are_read(tmp_path: Path) -> None:
    attempt = "scheduler_scheduling_attempt_duration_seconds"
    data = _write(
        tmp_path,
        _item("SchedulingThroughput", 25.0),
        _item(attempt, 5.0, result="unschedulable"),
        _item(attempt, 7.0, result="scheduled"),
    )
    turn = read_turn(data, "1 0 ns/op\n2.500 ms_a_pod allocator\n5.000 ms_a_pod etcd\n", 9.0)
    assert (turn.rates["Average"], turn.attempts["Average"]) == (25.0, 7.0)
    assert (turn.cpu, turn.parts) == (9.0, {"allocator": 2.5, "etcd": 5.0})


def test_a_run_without_a_rate_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"dataItems": null}', encoding="utf-8")
    with pytest.raises(AssertionError, match="no etcd"):
        read_turn(tmp_path, "no etcd", 0.0)


def turns(*averages: float) -> list[Turn]:
    rates = ({"Average": each, "Perc50": 1, "Perc90": 2, "Perc99": 3} for each in averages)
    return [Turn(each, {}, 10.0, {"etcd": 5.25, "allocator": 4.0}) for each in rates]


def test_each_round_is_compared_with_the_one_beside_it() -> None:
    workload = Workload("Steady", "empty", performance=True, threshold=64, reason="")
    text = row(workload, OURS, turns(20, 30, 40), turns(20, 20, 10))
    assert "20 30 40 | 1.50 (1.00 to 4.00) | 1, 2, 3 |" in text
    assert text.endswith("| 10 | etcd 5.2, allocator 4.0 | 64, missed |")


@pytest.mark.parametrize(
    ("ours", "beside", "failures"),
    [
        pytest.param([70, 10, 64], [60, 60, 60], 0, id="reached by the median"),
        pytest.param([63, 63, 90], [10, 64, 70], 1, id="missed, and reached in-tree"),
        pytest.param([20, 20, 20], [30, 30, 30], 0, id="missed by both"),
    ],
)
def test_a_threshold_that_only_drawbridge_misses_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, ours: list[float], beside: list[float], failures: int
) -> None:
    workload = Workload("Steady", "empty", performance=True, threshold=64, reason="")
    left = {OURS: turns(*ours), IN_TREE: turns(*beside)}

    class Played:
        def __init__(self, _folder: Path) -> None: ...

        def run(self, _workload: Workload, kind: str) -> Turn:
            return left[kind].pop(0)

    monkeypatch.setattr("e2e.upstream.scheduler_perf.Bench", Played)
    said = list[str]()
    assert compare([workload], len(ours), said.append) == failures
    assert [line.split("|")[-2].strip() for line in said if line.startswith("| Steady")] == [
        f"64, {'reached' if sorted(beside)[1] >= 64 else 'missed'}",
        f"64, {'reached' if sorted(ours)[1] >= 64 else 'missed'}",
    ]


def test_a_reason_is_for_a_test_case_or_for_one_of_its_workloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {".": {"Slices": "no pods", "Steady/half": "too slow"}}
    (tmp_path / "workloads.yaml").write_text(yaml.safe_dump(table), encoding="utf-8")
    (tmp_path / "performance-config.yaml").write_text(yaml.safe_dump(CASES), encoding="utf-8")
    monkeypatch.setattr("e2e.upstream.scheduler_perf.HERE", tmp_path)
    read = {str(each): each for each in workloads(tmp_path)}
    assert {name: each.reason for name, each in read.items()} == {
        "Steady/empty": "",
        "Steady/half": "too slow",
        "Slices/500nodes": "no pods",
    }
    assert (read["Steady/empty"].threshold, read["Steady/half"].threshold) == (64, 60)
    assert [name for name, each in read.items() if each.performance] == [
        "Steady/empty",
        "Slices/500nodes",
    ]


def test_the_scheduler_is_configured_as_in_the_manifests_for_pods_without_a_scheduler_name() -> (
    None
):
    (profile,) = yaml.safe_load(scheduler_configuration(Path("/run/a.sock")))["profiles"]
    assert profile["schedulerName"] == "default-scheduler"
    enabled = profile["plugins"]["multiPoint"]["enabled"]
    assert enabled[0] == {"name": "Drawbridge", "weight": 2}
    assert profile["pluginConfig"][0]["args"] == {"socket": "/run/a.sock"}


def test_the_configuration_is_valid_and_owns_the_driver_of_the_benchmark() -> None:
    text = yaml.safe_load(configuration())["data"]["config.yaml"]
    parsed = parse_text(text, "configuration", read_configuration)
    assert isinstance(parsed, Configuration)
    assert [each.driver for each in parsed.owned_pools] == [DRIVER]


NEWER = [
    {
        "name": "Steady",
        "workloadTemplate": [
            {
                "opcode": "createAny",
                "templatePath": "templates/claim.yaml",
                "countParam": "$nodes",
                "templateParams": {
                    "requests": "$requests|1",
                    "constraints": "$constraints|",
                    "devices": 3,
                },
            }
        ],
        "workloads": [
            {"name": "fast", "params": {"nodes": 1}},
            {
                "name": "match_empty_500nodes",
                "labels": ["performance"],
                "threshold": {"dra": 64},
                "params": {"nodes": 500, "requests": 5, "constraints": [{"matchAttribute": "a/b"}]},
            },
            {"name": "selector_empty_500nodes", "params": {"nodes": 500, "constraints": None}},
        ],
    }
]
TEMPLATE = """{{$requests := (or .requests 1) | Int}}
{{$devices := or .devices 10}}
{{$constraints := (or .constraints nil) | JSON}}
constraints: {{$constraints}}
requests:{{range $requests}}
- name: req-{{.}}-of-{{Mod . $devices}}{{end}}{{range ($devices | Int)}}{{end}}
"""


def test_workloads_of_a_newer_module_have_their_parameters_in_the_templates(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "templates").mkdir(parents=True)
    (source / "performance-config.yaml").write_text(yaml.safe_dump(NEWER), encoding="utf-8")
    (source / "templates" / "claim.yaml").write_text(TEMPLATE, encoding="utf-8")
    matching, selecting = rewritten(source, tmp_path)
    names = [matching["name"], selecting["name"]]
    assert names == ["Steady_match_of_1_37", "Steady_selector_of_1_37"]
    assert (
        matching["workloads"][0]["params"] == selecting["workloads"][0]["params"] == {"nodes": 500}
    )
    texts = [
        Path(each["workloadTemplate"][0]["templatePath"]).read_text(encoding="utf-8")
        for each in (matching, selecting)
    ]
    assert texts[0] == (
        'constraints: [{"matchAttribute": "a/b"}]\nrequests:{{range 5}}\n'
        "- name: req-{{.}}-of-{{Mod . 3}}{{end}}{{range 3}}{{end}}\n"
    )
    assert texts[1].startswith("constraints: null\nrequests:{{range 1}}")
    (first, second) = newer_workloads(source)
    assert (str(first), first.threshold, first.reason) == (
        "Steady_match_of_1_37/match_empty_500nodes",
        64,
        "",
    )
    assert (first.performance, second.performance) == (True, False)


def test_the_newer_module_has_the_workloads_and_all_its_templates_are_filled(
    tmp_path: Path,
) -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not on the PATH")
    try:
        folder = kubernetes(PIN) / FOLDER
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"{problem}")
    if not folder.is_dir():
        pytest.skip("the newer module of Kubernetes was not downloaded")
    cases = [*rewritten(folder, tmp_path)]
    assert sorted(case["workloads"][0]["name"] for case in cases) == sorted(NAMES)
    # Variables and functions of the newer benchmark, which the pinned one does not have.
    for path in tmp_path.rglob("*.yaml"):
        assert not re.search(r"\{\{[^}]*(\$|Int|JSON)", path.read_text(encoding="utf-8")), path


def test_the_table_names_only_what_the_pinned_module_has() -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not on the PATH")
    try:
        folder = kubernetes() / FOLDER
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"{problem}")
    if not folder.is_dir():
        pytest.skip("the module of Kubernetes was not downloaded")
    table = yaml.safe_load((HERE / "workloads.yaml").read_text(encoding="utf-8"))
    topics = {
        str(path.parent.relative_to(folder)) for path in folder.rglob("performance-config.yaml")
    }
    assert set(table) == topics
    for topic, reasons in table.items():
        text = (folder / topic / "performance-config.yaml").read_text(encoding="utf-8")
        workloads_here = {"all"}
        for case in yaml.safe_load(text):
            names = {each["name"] for each in case["workloads"]}
            workloads_here |= {case["name"], *names, *(f"{case['name']}/{name}" for name in names)}
        assert set(reasons) <= workloads_here
    measured = [each for each in workloads(folder) if not each.reason]
    assert {each.case for each in measured} == {
        "SchedulingWithResourceClaimTemplate",
        "SteadyStateClusterResourceClaimTemplate",
        "SchedulingWithResourceClaim",
    }
