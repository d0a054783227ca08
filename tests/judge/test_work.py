"""The bound on the work of one judgement."""

import pytest

from drawbridge.finding import Severity
from drawbridge.judge import judgement
from drawbridge.judge.claims.references import check_references
from drawbridge.judge.claims.selector_reads import check_selector_reads
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.smallest_part import check_devices
from drawbridge.judge.judgement import judge_subject, limit_work
from drawbridge.judge.subject import JudgedClaim, Subject, claim_subject
from drawbridge.judge.work import DEVICE_UNITS, QUESTION_UNITS, Work, WorkExhaustedError
from drawbridge.ledger.pods import Pod, pod_reader
from tests.judge.fleets import FLEETS, claim, context
from tests.tables import YamlValue

ASKED = {"requests": [{"class": "gpu", "count": 9}]}


def test_work_beyond_the_limit_is_refused_before_it_is_done() -> None:
    work = Work(10)
    work.spend(10)
    with pytest.raises(WorkExhaustedError):
        work.spend(1)


def test_work_whose_result_is_kept_is_counted_once() -> None:
    work = Work(10)
    work.spend_once("a", 6)
    work.spend_once("a", 6)
    assert work.left == 4
    with pytest.raises(WorkExhaustedError):
        work.spend_once("b", 6)


DIGITS = "[1,2,3,4,5,6,7,8,9,10]"
EXPENSIVE = f"{DIGITS}.all(a, {DIGITS}.all(b, {DIGITS}.all(c, a + b + c < 100)))"


@pytest.mark.parametrize("question", [check_devices, check_selector_reads])
def test_a_question_without_work_left_is_a_warning_and_never_silent(
    question: judgement.Question,
) -> None:
    of, subject = context(FLEETS["two products"]), claim_subject(claim(ASKED))
    refused = judge_subject(subject, of)
    assert [each.code for each in refused] == ["CountNeverFits"]
    findings = judge_subject(subject, of, limit_work() | {question: Work(1)})
    assert [each.severity for each in findings if each.code == "JudgementIncomplete"] == [
        Severity.WARNING
    ]
    # The other questions still have their own work.
    assert ("CountNeverFits" in [each.code for each in findings]) is (question is not check_devices)


def _spent(subject: Subject, of: JudgeContext) -> int:
    limits = limit_work()
    judge_subject(subject, of, limits)
    left = limits[check_devices].left
    assert left is not None
    return DEVICE_UNITS - left


def test_the_same_object_costs_the_same_work_when_the_caches_hold_it() -> None:
    of, subject = context(FLEETS["two products"]), claim_subject(claim(ASKED))
    first = _spent(subject, of)
    assert first > 0
    assert _spent(subject, of) == first


@pytest.mark.parametrize("question", [check_devices, check_selector_reads])
def test_an_expensive_selector_costs_its_work_on_each_different_device_once(
    question: judgement.Question,
) -> None:
    of = context(FLEETS["two products"])
    selectors = {
        "cheap": "true",
        "alike": EXPENSIVE,
        "different": f'{EXPENSIVE} || device.attributes["gpu.example.com"].model == ""',
    }
    spent = {}
    for name in (*selectors, *selectors):
        asked: YamlValue = {"requests": [{"class": "gpu", "where": selectors[name]}]}
        limits = limit_work()
        judge_subject(claim_subject(claim(asked)), of, limits)
        left = limits[question].left
        assert left is not None
        # The caches hold the evaluations the second time.
        assert spent.setdefault(name, left) == left
    assert spent["cheap"] - spent["alike"] > 50
    assert spent["alike"] - spent["different"] > 50


def test_a_claim_with_a_longer_selector_costs_more_work() -> None:
    of = context(FLEETS["two products"])
    few: YamlValue = {"requests": [{"class": "gpu", "where": "true"}]}
    many: YamlValue = {"requests": [{"class": "gpu", "where": " && ".join(["true"] * 99)}]}
    assert _spent(claim_subject(claim(many)), of) > _spent(claim_subject(claim(few)), of)


def test_a_pod_with_very_many_claims_is_not_read_to_the_end() -> None:
    judged = JudgedClaim(claim(ASKED), "ResourceClaimTemplate/ns/t")
    subject = Subject("Pod/ns/p", "ns", (judged,) * QUESTION_UNITS)
    findings = judge_subject(subject, context(FLEETS["two products"]))
    assert {each.code for each in findings} == {"JudgementIncomplete"}


def test_names_are_compared_only_as_long_as_work_is_left() -> None:
    """Each misspelt name of a container is compared with the name of each claim of the pod."""
    number = 300
    plain = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {
            "resourceClaims": [
                {"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(number)
            ],
            "containers": [
                {
                    "name": "main",
                    "resources": {"claims": [{"name": f"misspelt{i}"} for i in range(number)]},
                }
            ],
        },
    }
    pod = pod_reader().read(plain)
    assert isinstance(pod, Pod)
    limits: dict[judgement.Question, Work] = {check_references: Work(QUESTION_UNITS)}
    subject = Subject("Pod/ns/p", "ns", pod=pod)
    findings = judge_subject(subject, context(FLEETS["two products"]), limits)
    assert findings[-1].code == "JudgementIncomplete"
    assert 0 < len(findings) < number
