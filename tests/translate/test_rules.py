"""Bridge placement: what a claim spec cannot say stands in an annotation, read back strictly."""

import json
from pathlib import Path

import pytest

from config.model import Configuration, Placement
from documents.patch import patched
from documents.paths import get
from dra.claim import read_template
from dra.finding import Severity
from tests.tables import Plain, cases
from tests.translate import worlds
from translate import rules
from translate.pods import Translation, given, translate
from translate.rules import RULES, Joint, Near, Rules, Strategy, check, page, read, schema, written

TABLE = cases(Path(__file__).parent / "cases" / "bridge.yaml")
BRIDGE = Configuration(placement=Placement.BRIDGE)
NOT_TOLD = {"ServerUnknown", "TolerationAdded", "SchedulerLeft"}


def pod(case: Plain) -> Plain:
    """The pod of a case."""
    container = {"name": "main", "resources": {"limits": case["limits"]}}
    spec: Plain = {"containers": [container]}
    if "scheduler" in case:
        spec["schedulerName"] = case["scheduler"]
    return {"metadata": {"annotations": case.get("annotations", {})}, "spec": spec}


def done(case: Plain, configuration: Configuration = BRIDGE) -> Translation:
    facts = worlds.facts(tuple(case["world"])) if "world" in case else None
    return translate(pod(case), given(configuration, facts))


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["name"])
def test_one_request_for_each_kind_and_the_rule_beside_them(case: Plain) -> None:
    made = done(case)
    if "unsayable" in case:
        assert made.edits == ()
        assert any(case["unsayable"] in each.message for each in made.findings)
        return
    (template,) = made.templates
    requests = get(template.object, ("spec", "spec", "devices", "requests"))
    assert isinstance(requests, list)
    counts = {each["name"]: each["exactly"]["count"] for each in requests}  # type: ignore[index,call-overload]
    assert counts == case["claim"]
    text = get(template.object, ("spec", "metadata", "annotations", RULES))
    if "rules" not in case:
        assert text is None
    else:
        assert isinstance(text, str)
        head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules"}
        assert json.loads(text) == head | case["rules"]
        back = read(text)
        assert isinstance(back, Rules)
        assert written(back) == text
        assert check(back, {each["name"]: each for each in requests}) == ()  # type: ignore[index,call-overload,misc]
    if "lost" in case:
        assert {each.code for each in made.findings} - NOT_TOLD == set(case["lost"])
    assert get(patched(pod(case), made.edits), ("spec", "schedulerName")) == (
        case.get("scheduler", "drawbridge")
    )


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["name"])
def test_native_placement_never_has_the_annotation(case: Plain) -> None:
    for each in done(case, Configuration()).templates:
        assert RULES not in json.dumps(each.object)


def test_the_rules_are_part_of_the_name() -> None:
    (joint,) = (each for each in TABLE if each["name"].startswith("what is only preferred"))
    hard = {**joint, "annotations": TABLE[0]["annotations"]}
    assert done(joint).templates[0].name != done(hard).templates[0].name


def test_a_template_with_rules_is_one_that_the_api_server_takes() -> None:
    whole = dict(done(TABLE[0]).templates[0].object)
    assert not isinstance(read_template(whole), tuple)


HEAD = '{"apiVersion":"drawbridge.dev/v1alpha1","kind":"Rules"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "characters"),
        ("[" * 10_000, "no JSON"),
        ("[]", "it is no Rules"),
        ('{"kind":"Rules"}', "it is no Rules"),
        ('{"apiVersion":"drawbridge.dev/v2","kind":"Rules"}', "it is no Rules"),
        (HEAD + ',"joints":[]}', "joints"),
        (HEAD + ',"joint":[{"primary":["gpu"],"others":["nic"]}]}', "joint[0]"),
        (HEAD + ',"near":[{"requests":"gpu","attributes":[]}]}', "near[0].requests"),
        (HEAD + ',"strategy":{"nodes":"cheapest"}}', "strategy.nodes"),
        (HEAD + ',"near":[' + ",".join(['{"requests":[],"attributes":[]}'] * 33) + "]}", "more"),
    ],
)
def test_what_is_no_annotation_of_this_version_is_refused(text: str, words: str) -> None:
    found = read(text)
    assert isinstance(found, tuple)
    assert words in " ".join(each.message for each in found)
    assert {each.severity for each in found} == {Severity.ERROR}
    assert all(each.path == f"metadata.annotations[{RULES}]" for each in found)


ONE = {"exactly": {"allocationMode": "ExactCount", "count": 1}}
ALL = {"exactly": {"allocationMode": "All"}}


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        (Rules(joint=(Joint(("gpu",), ("nic",), ("a/b",)),)), []),
        (Rules(joint=(Joint(("gpu",), ("card",), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), ("gpu",), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), (), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), ("all",), ("a/b",)),)), ["RuleWithoutNumber"]),
        (Rules(near=(Near((), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(near=(Near(("gpu",), ("a/b",), required=False),)), []),
        (Rules(strategy=Strategy(nodes="packed")), []),
    ],
)
def test_rules_are_about_requests_of_their_claim(rule: Rules, codes: list[str]) -> None:
    found = check(rule, {"gpu": ONE, "nic": ONE, "all": ALL})
    assert [each.code for each in found] == codes
    assert all(each.remedy and each.path for each in found)


def test_no_rules_are_no_text() -> None:
    assert written(Rules()) == ""


def test_the_page_shows_an_example_that_reads() -> None:
    text = page().split("```json\n", 2)[1].partition("```")[0]
    assert isinstance(read(text), Rules)
    assert set(schema()["$defs"]) == {"Rules", "Joint", "Near", "Strategy"}  # type: ignore[call-overload]
    assert rules.KIND in page()
