"""What is done with an ask: the table of the decisions, and the table of the rows."""

from pathlib import Path

import pytest

from config.model import Configuration, Decisions, Placement
from dra.finding import Severity
from facts.model import Facts, ResourceFacts
from registration.codes import CODES
from tests.tables import YamlValue, load_cases
from translate.decisions.decide import ServedBy, decide, find_server
from translate.decisions.rows import ROWS, get_row
from translate.legacy.asks import Ask, Kind
from translate.legacy.read import read_pod
from translate.legacy.selectors import ProductIs
from translate.targets.codes import CORES_LOST, NOT_EXPRESSIBLE
from translate.targets.plan import Expressibility, TargetResult

HERE = Path(__file__).parent
CASES = load_cases(HERE / "decisions.yaml")
FACTS = {
    "plugin": Facts(names=(ResourceFacts("a.com/gpu", nodes=3),)),
    "class": Facts(names=(ResourceFacts("a.com/gpu", classes=("gpu.a.com",)),)),
    "nobody": Facts(names=(ResourceFacts("a.com/gpu"),)),
    "unknown": None,
}
TOLD = {
    "equal": (),
    "lossy": (CORES_LOST.at("", "no cores"),),
    "not expressible": (NOT_EXPRESSIBLE.at("", "no target"),),
}


def configuration(case: YamlValue) -> Configuration:
    wanted = case.get("decisions", {}).get("nativeExtendedNames", "leave")
    return Configuration(
        placement=Placement(case.get("placement", "native")),
        decisions=Decisions(native_extended_names=wanted),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_decisions(case: YamlValue) -> None:
    ask = Ask(
        name="a",
        kind=Kind.GPU,
        row=case.get("row", "nvidia/whole"),
        selectors=() if case.get("plain", True) else (ProductIs(("X",)),),
        resources=tuple(case.get("resources", ["a.com/gpu"])),
    )
    said = TargetResult(
        ("a",),
        Expressibility(case["said"]),
        findings=TOLD[case["said"]],
        lost=tuple(case.get("lost", ())),
    )
    decision = decide([ask], said, FACTS[case["served"]], configuration(case))
    assert decision.verdict == case["verdict"]
    assert [each.code for each in decision.findings] == case.get("findings", [])
    assert any(each.severity is Severity.ERROR for each in decision.findings) == (
        case["verdict"] == "refuse"
    )
    for each in decision.findings:
        assert each.message
        assert each.remedy
        assert each.code in CODES


def test_one_plugin_for_any_resource_of_an_ask_serves_the_ask() -> None:
    facts = Facts(names=(ResourceFacts("a.com/gpu"), ResourceFacts("a.com/mem", nodes=1)))
    ask = Ask(kind=Kind.GPU, row="x", resources=("a.com/gpu", "a.com/mem"))
    assert find_server([ask], facts) is ServedBy.PLUGIN


def test_every_row_has_the_legacy_request_and_its_result() -> None:
    for name, one in ROWS.items():
        assert one.name == name
        assert one.legacy
        assert one.becomes
        assert bool(one.lost) <= (one.expressibility is Expressibility.LOSSY)


def test_every_ask_of_the_dialect_tables_has_a_row() -> None:
    pods = [
        {
            "spec": {
                "containers": [{"name": "a", "resources": {"limits": dict(case["containers"][c])}}]
            }
        }
        for table in sorted(HERE.glob("cases/dialects/*.yaml"))
        for case in load_cases(table)
        for c in case.get("containers", {})
    ]
    rows = {ask.row for pod in pods for ask in read_pod(pod).asks}
    assert len(rows) > 10
    assert {name for name in rows if get_row(name).becomes == ""} == set()
