"""Judges a claim, a template or a pod: asks all questions in one pass.

A question is a module with one public function, `check_...(subject, context)`. It yields findings:
a `Finding` with the severity of its code, or a `DeviceFinding`, whose severity depends on the
fleet. To add a question, write its module and add the function to `QUESTIONS`.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from dra.finding import Finding, Severity
from judge.api_rules import check_api_rules
from judge.claim_size import check_claim_size
from judge.constraints import check_constraints
from judge.context import JudgeContext
from judge.devices import check_devices
from judge.opaque_configs import check_opaque_configs
from judge.quotas import check_quotas
from judge.references import check_references
from judge.rules_annotation import check_rules_annotation
from judge.selector_reads import check_selector_reads
from judge.severity import DeviceFinding, settle_all
from judge.subject import JudgedClaim, Subject

Question: TypeAlias = Callable[[Subject, JudgeContext], Iterator[Finding | DeviceFinding]]

QUESTIONS: Final[tuple[Question, ...]] = (
    check_rules_annotation,
    check_opaque_configs,
    check_claim_size,
    check_constraints,
    check_references,
    check_quotas,
    check_selector_reads,
    check_devices,
)


def judge_subject(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a subject, in the order of the questions, each once.

    The API server must have accepted the subject's claims.
    """
    found = (each for question in QUESTIONS for each in question(subject, context))
    return tuple(dict.fromkeys(settle_all(found, subject, context)))


def judge_file(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a claim or a template that no API server has seen.

    What the API server rejects is judged no further: the questions expect valid claims.
    """
    rejected = tuple(check_api_rules(subject, context))
    settled = tuple(dict.fromkeys(settle_all(rejected, subject, context)))
    if any(each.severity is Severity.ERROR for each in rejected):
        return settled
    return tuple(dict.fromkeys((*settled, *judge_subject(subject, context))))


def judge_pod_of_file(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a pod that no API server has seen.

    Claims that an API server rejects are left out: their own objects are judged for that.
    """
    valid = tuple(each for each in subject.claims if not _is_rejected(each, subject, context))
    return judge_subject(replace(subject, claims=valid), context)


def _is_rejected(judged: JudgedClaim, subject: Subject, context: JudgeContext) -> bool:
    found = check_api_rules(replace(subject, claims=(judged,)), context)
    return any(each.severity is Severity.ERROR for each in found)
