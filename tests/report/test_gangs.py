"""What is said about the gang of a pod: a case table."""

from pathlib import Path

from drawbridge.report.explain import PodObjects, explain
from drawbridge.report.gangs import format_gang
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "gangs.yaml")
ABOUT_GANGS = ("GangMembersMissing", "GangSplit")


def pod_of(short: YamlValue) -> YamlValue:
    metadata = {"name": short["name"], "namespace": "ml", "labels": short.get("labels", {})}
    status = short.get("status", {})
    return {"kind": "Pod", "metadata": metadata, "spec": short["spec"], "status": status}


@every_row("case", CASES, ids=lambda case: str(case["name"]))
def test_what_is_said_about_the_gang_of_a_pod(case: YamlValue) -> None:
    pods = [pod_of(each) for each in case["pods"]]
    listed = None if case.get("unread") else pods
    done = explain(PodObjects(pods[0], pods=listed, groups=case.get("groups", ())))
    said = [] if done.gang is None else list(format_gang(done.gang))
    assert said == case["says"]
    findings = [each for each in done.findings if each.code in ABOUT_GANGS]
    assert [f"{each.code}: {each.message}" for each in findings] == case["findings"]
