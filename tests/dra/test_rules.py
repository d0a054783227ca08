"""Tests of the rules annotation: strict decoding, and checks against the claim."""

from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from drawbridge.dra import rules
from drawbridge.dra.claim import (
    ALL,
    Choice,
    ClaimSpec,
    Devices,
    ExactRequest,
    Request,
    SubRequest,
)
from drawbridge.dra.rules import (
    Joint,
    Near,
    Rules,
    RuleStrategy,
    check_rules,
    encode_rules,
    read_rules,
    rules_schema,
)
from drawbridge.finding import Severity
from drawbridge.names import RULES_ANNOTATION
from tests.tables import every_row

HEAD = '{"apiVersion":"drawbridge.dev/v1alpha1","kind":"Rules"'


@every_row(
    ("text", "words"),
    [
        ("", "invalid JSON"),
        ("[" * 100_000, "characters"),
        ("[" * 10_000, "invalid JSON"),
        ("[]", "must have kind Rules"),
        ('{"kind":"Rules"}', "must have kind Rules"),
        ('{"apiVersion":"drawbridge.dev/v2","kind":"Rules"}', "must have kind Rules"),
        (HEAD + ',"joints":[]}', "joints"),
        (HEAD + ',"joint":[{"primary":["gpu"],"others":["nic"]}]}', "joint[0]"),
        (HEAD + ',"near":[{"requests":"gpu","attributes":[]}]}', "near[0].requests"),
        (HEAD + ',"strategy":{"nodes":"cheapest"}}', "strategy.nodes"),
        (HEAD + ',"near":[' + ",".join(['{"requests":[],"attributes":[]}'] * 33) + "]}", "more"),
    ],
)
def test_an_annotation_of_another_version_is_rejected(text: str, words: str) -> None:
    rules = read_rules(text)
    assert isinstance(rules, tuple)
    assert words in " ".join(each.message for each in rules)
    assert {each.severity for each in rules} == {Severity.ERROR}
    assert all(each.path == f"metadata.annotations[{RULES_ANNOTATION}]" for each in rules)


ONE = Request("", ExactRequest(device_class_name="c"))
EVERY = ExactRequest(device_class_name="c", allocation_mode=ALL)
REQUESTS = (
    replace(ONE, name="gpu"),
    replace(ONE, name="nic"),
    Request("all", EVERY),
    Request("either", None, (SubRequest(name="a", device_class_name="c", allocation_mode=ALL),)),
)


@every_row(
    ("rule", "codes"),
    [
        (Rules(joint=(Joint(("gpu",), ("nic",), ("a/b",)),)), []),
        (Rules(joint=(Joint(("gpu",), ("card",), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), ("gpu",), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), (), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(joint=(Joint(("gpu",), ("all",), ("a/b",)),)), ["RuleWithoutNumber"]),
        (Rules(near=(Near(("either",), ("a/b",)),)), ["RuleWithoutNumber"]),
        (Rules(near=(Near((), ("a/b",)),)), ["RuleNamesNoRequest"]),
        (Rules(near=(Near(("gpu",), ("a/b",), required=False),)), []),
        (Rules(strategy=RuleStrategy(nodes="packed")), []),
    ],
)
def test_rules_must_refer_to_requests_of_their_claim(rule: Rules, codes: list[str]) -> None:
    findings = check_rules(rule, ClaimSpec(Devices(REQUESTS)))
    assert [each.code for each in findings] == codes
    assert all(each.remedy and each.path == rules.PATH for each in findings)


def test_each_request_is_looked_at_once_whatever_the_number_of_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tenants write rules, and each decision about their pods checks them."""
    looked = Counter[str]()
    choices = rules.request_choices

    def counted(request: Request) -> Sequence[Choice]:
        looked.update([request.name])
        return choices(request)

    monkeypatch.setattr(rules, "request_choices", counted)
    near = Near(tuple(each.name for each in REQUESTS), ("a/b",))
    check_rules(Rules(near=(near,) * 32), ClaimSpec(Devices(REQUESTS)))
    assert looked == {each.name: 1 for each in REQUESTS}


def test_the_rules_of_a_claim_are_decoded_once() -> None:
    text = encode_rules(Rules(strategy=RuleStrategy(nodes="packed", weights={"memory": 7})))
    assert read_rules(text) is read_rules(text)


def test_empty_rules_encode_to_an_empty_string() -> None:
    assert encode_rules(Rules()) == ""


def test_the_schema_describes_every_part() -> None:
    assert set(rules_schema()["$defs"]) == {"Rules", "Joint", "Near", "Distinct", "RuleStrategy"}  # type: ignore[call-overload]
