"""What `drawbridge check` says about a manifest: a case table."""

import json
from pathlib import Path

from tests.cli.running import command, read_findings
from tests.cli.test_check import INVENTORY
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases/check.yaml")
WRONG_PODS = load_cases(Path(__file__).parent / "cases/wrong_pods.yaml")


@every_row("case", CASES, ids=lambda case: case["name"])
def test_what_is_said_about_a_manifest(case: YamlValue) -> None:
    printed = command("check", "-f", "-", "--cluster", INVENTORY, "-o", "json", stdin=case["input"])
    reported = [each for each in read_findings(printed.out) if each["severity"] != "info"]
    assert [
        f"{each['severity']}: {each['path']}: {each['message']} [{each['code']}]"
        for each in reported
    ] == case["says"]
    if "do" in case:
        assert [each["remedy"] for each in reported] == case["do"]


@every_row("case", WRONG_PODS, ids=lambda case: case["name"])
def test_translate_reports_the_same_wrong_fields_of_pods_as_check(case: YamlValue) -> None:
    for program in ("check", "translate"):
        printed = command(program, "-f", "-", "-o", "json", stdin=case["input"])
        errors = [e for e in json.loads(printed.out)["findings"] if e["severity"] == "error"]
        said = [f"{each['path']}: {each['message']} [{each['code']}]" for each in errors]
        assert said == case["says"], program
        assert printed.code == (2 if said else 0)
