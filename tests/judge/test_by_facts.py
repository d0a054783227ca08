"""Claims are judged by the facts as the case table says."""

from pathlib import Path

from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.claim import Template, read_template
from drawbridge.facts.families import Family
from drawbridge.facts.model import Amount, ClassFacts, Driver, Facts, NodeShape, Product
from drawbridge.judge.by_facts import FactsContext, judge_by_facts
from drawbridge.judge.context import JudgeCaches
from drawbridge.judge.subject import Subject
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases/by_facts.yaml")
DRIVER = "d.io"
FAMILY = Family("gpu", DRIVER, ("gpu",), type="type", name="productName")
SELECTORS = Selectors("1.37")


def build_facts(case: YamlValue, most: int = 8, nic: int = 0) -> Facts:
    shared = case.get("shared", False)
    rows = [("A100", "40Gi", most), ("H100", "80Gi", 4)]
    return Facts(
        classes=(
            ClassFacts("gpu", drivers=(DRIVER,), devices=12, closed=case.get("closed", True)),
            ClassFacts("nic", devices=nic, closed=True),
        ),
        products=tuple(
            Product(
                DRIVER,
                name=name,
                shared=shared,
                capacity={"memory": Amount(memory)},
                classes=("gpu",),
                most=number,
            )
            for name, memory, number in rows
        ),
        drivers=(
            Driver(DRIVER, attributes=case.get("types", {f"{DRIVER}/productName": "string"})),
        ),
        shapes=tuple(NodeShape(DRIVER, gpus=gpus) for gpus in case.get("shapes", ())),
        omitted=case.get("omitted", {}),
    )


def expand(short: YamlValue) -> YamlValue:
    request: YamlValue = {"deviceClassName": short.get("class", "gpu")}
    if "mode" in short:
        request["allocationMode"] = short["mode"]
    if "count" in short:
        request["count"] = short["count"]
    request["selectors"] = [{"cel": {"expression": each}} for each in short.get("selectors", ())]
    if "capacity" in short:
        request["capacity"] = {"requests": short["capacity"]}
    return request


def build_template(case: YamlValue) -> Template:
    if "alternatives" in case:
        listed = [{"name": f"a{i}", **expand(x)} for i, x in enumerate(case["alternatives"])]
        requests = [{"name": "r", "firstAvailable": listed}]
    else:
        requests = [{"name": f"r{i}", "exactly": expand(x)} for i, x in enumerate(case["requests"])]
    read = read_template(
        {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    )
    assert isinstance(read, Template), read
    return read


@every_row("case", CASES, ids=lambda case: case["name"])
def test_claims_are_judged_by_the_facts_as_the_table_says(case: YamlValue) -> None:
    context = FactsContext(
        build_facts(case),
        JudgeCaches(SELECTORS),
        older=[build_facts(case, **each) for each in case.get("older", ())],
        families={DRIVER: FAMILY},
        policies={FindingCode(k): Policy(v) for k, v in case.get("policies", {}).items()},
    )
    findings = judge_by_facts(
        build_template(case).spec.spec, Subject("Pod/team/p", "team"), context
    )
    expected = [(severity, case[severity]) for severity in ("error", "warning") if severity in case]
    actual = [(f"{each.severity}", f"{each.code}: {each.message}") for each in findings]
    assert [
        (severity, text[: len(start)])
        for (severity, text), (_, start) in zip(actual, expected, strict=True)
    ] == expected
    assert all(each.remedy for each in findings)
