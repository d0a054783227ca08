"""Claims are judged by the facts as the case table says."""

from pathlib import Path

import msgspec

from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.claim import Template, read_template
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.families import Family
from drawbridge.dra.quantity import parse
from drawbridge.facts.model import Amount, ClassFacts, Driver, Facts, NodeShape, Product
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.translate.legacy.selectors import AskSelector, RawCEL
from drawbridge.translate.targets.by_facts import FactsContext, judge_by_facts
from drawbridge.translate.targets.products import KnownProperties, fits
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    express,
    list_terms,
)
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases/by_facts.yaml")
DRIVER = "d.io"
FAMILY = Family("gpu", DRIVER, ("gpu",), type="type", name="productName")
WORDS = DriverVocabulary(
    domain=DRIVER,
    product=f"{DRIVER}/productName",
    uuid=f"{DRIVER}/uuid",
    memory=f"{DRIVER}/memory",
    usual=frozenset((f"{DRIVER}/memory",)),
)


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


def write(selector: YamlValue) -> Expression:
    return express(msgspec.convert(selector, AskSelector), WORDS)  # type: ignore[arg-type]  # a union


def expand(short: YamlValue) -> YamlValue:
    request: YamlValue = {"deviceClassName": short.get("class", "gpu")}
    if "mode" in short:
        request["allocationMode"] = short["mode"]
    if "count" in short:
        request["count"] = short["count"]
    request["selectors"] = [
        {"cel": {"expression": write(each).text}} for each in short.get("selectors", ())
    ]
    if "capacity" in short:
        request["capacity"] = {"requests": short["capacity"]}
    return request


def list_selectors(case: YamlValue) -> list[YamlValue]:
    listed = (*case.get("alternatives", ()), *case.get("requests", ()))
    return [selector for each in listed for selector in each.get("selectors", ())]


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
        {each.text: each for each in map(write, list_selectors(case))},
        older=[build_facts(case, **each) for each in case.get("older", ())],
        families={DRIVER: FAMILY},
        policies={FindingCode(k): Policy(v) for k, v in case.get("policies", {}).items()},
    )
    findings = judge_by_facts(build_template(case).spec.spec, context)
    expected = [(severity, case[severity]) for severity in ("error", "warning") if severity in case]
    actual = [(f"{each.severity}", f"{each.code}: {each.message}") for each in findings]
    assert [
        (severity, text[: len(start)])
        for (severity, text), (_, start) in zip(actual, expected, strict=True)
    ] == expected
    assert all(each.remedy for each in findings)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_terms_mean_what_their_cel_says(case: YamlValue) -> None:
    selectors = Selectors("1.37")
    device = Device(
        "gpu", {"productName": Attribute(string="A100")}, {"memory": Capacity(parse("40Gi"))}
    )
    properties = KnownProperties(
        product="A100", memory=40 << 30, attributes={"productName": "A100"}
    )
    for expression in map(write, list_selectors(case)):
        terms = list(list_terms(expression))
        split = split_terms(expression.text, selectors.stored)
        if not any(isinstance(each.selector, RawCEL) for each in terms):
            assert [each.text for each in terms] == [each for each in split if not is_guard(each)]
        for term in terms:
            expected = fits(term.selector, properties)
            if expected is not None:
                assert selectors.evaluate(term.text, DRIVER, device).result is expected, term.text


def is_guard(term: str) -> bool:
    """Whether a term only checks that an attribute is present, with the type that is read."""
    return (term.startswith('"') and " in device." in term) or term.startswith("type(")
