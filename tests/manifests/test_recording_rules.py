"""Prometheus itself evaluates alerts and recording rules, and reads the expressions of dashboards.

Needs promtool, which `.ci/rules` installs: without it, nothing here is evaluated.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.manifests.rendering import MANIFESTS

FOLDER = MANIFESTS / "components" / "monitoring"
CASES = Path(__file__).parent / "cases"
RULES = sorted(path.name for path in FOLDER.glob("*.yaml") if "PrometheusRule" in path.read_text())
DASHBOARDS = sorted(path.name for path in FOLDER.glob("dashboard*.json"))


def promtool(*words: str | Path) -> str:
    """Run promtool; AssertionError with its message if it fails."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("NOT EVALUATED: promtool is not on the PATH")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)  # noqa: S603  # found
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_rules(name: str, folder: Path) -> Path:
    """Write the groups of a PrometheusRule as Prometheus reads them."""
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load((FOLDER / name).read_text("utf-8"))["spec"]))
    return path


def test_there_are_alerts_recording_rules_and_three_dashboards() -> None:
    assert RULES == ["alerts.yaml", "recording-rules.yaml"]
    assert len(DASHBOARDS) == 3


@pytest.mark.parametrize("name", RULES)
def test_prometheus_accepts_all_rules(name: str, tmp_path: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", write_rules(name, tmp_path))


def test_recording_rules_give_dashboards_the_metrics_that_they_had(tmp_path: Path) -> None:
    write_rules("recording-rules.yaml", tmp_path)
    shutil.copy(CASES / "recording_rules.yaml", tmp_path / "cases.yaml")
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "cases.yaml")


def test_alerts_fire_for_what_a_person_changes_and_not_for_its_neighbour(tmp_path: Path) -> None:
    write_rules("alerts.yaml", tmp_path)
    shutil.copy(CASES / "alerts.yaml", tmp_path / "cases.yaml")
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "cases.yaml")


def test_every_alert_with_a_case_has_one_that_fires_and_one_that_does_not() -> None:
    cases = yaml.safe_load((CASES / "alerts.yaml").read_text("utf-8"))["tests"]
    fires: dict[str, set[bool]] = {}
    for case in cases:
        for asked in case["alert_rule_test"]:
            fires.setdefault(asked["alertname"], set()).add(bool(asked["exp_alerts"]))
    assert len(fires) >= 6
    assert all(each == {True, False} for each in fires.values())


@pytest.mark.parametrize("name", DASHBOARDS)
def test_prometheus_reads_every_expression_of_a_dashboard(name: str, tmp_path: Path) -> None:
    panels = json.loads((FOLDER / name).read_text("utf-8"))["panels"]
    expressions = [each["expr"] for panel in panels for each in panel.get("targets", ())]
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__\w+", "5m", text)}
        for number, text in enumerate(expressions)
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)
