"""Judges a claim, a template or a pod: asks all questions in one pass.

A question is a module with one public function, `check_...(subject, context)`. It yields findings:
a `Finding` with the severity of its code, or a `DeviceFinding`, whose severity depends on the
fleet. To add a question, write its module and add the function to `QUESTIONS`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

from msgspec.structs import replace

from drawbridge.finding import Finding, Severity
from drawbridge.judge.claims.api_rules import (
    REFUSED_EXPRESSIONS,
    accept_expressions,
    check_api_rules,
)
from drawbridge.judge.claims.constraints import check_constraints
from drawbridge.judge.claims.device_quotas import check_device_quotas
from drawbridge.judge.claims.opaque_configs import check_opaque_configs
from drawbridge.judge.claims.quotas import check_quotas
from drawbridge.judge.claims.references import check_references
from drawbridge.judge.claims.rules_annotation import check_rules_annotation
from drawbridge.judge.claims.selector_reads import check_selector_reads
from drawbridge.judge.claims.size import check_claim_size
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.smallest_part import check_devices
from drawbridge.judge.severity import DeviceFinding, settle_all
from drawbridge.judge.subject import JudgedClaim, Origin, Subject

Question: TypeAlias = Callable[[Subject, JudgeContext], Iterator[Finding | DeviceFinding]]

QUESTIONS: Final[tuple[Question, ...]] = (
    check_rules_annotation,
    check_opaque_configs,
    check_claim_size,
    check_constraints,
    check_references,
    check_quotas,
    check_device_quotas,
    check_selector_reads,
    check_devices,
)

_OF_INVALID_CLAIMS: Final = (check_opaque_configs, check_references)


def judge_subject(
    subject: Subject, context: JudgeContext, questions: Iterable[Question] = QUESTIONS
) -> tuple[Finding, ...]:
    """Return all findings about a subject, in the order of the questions, each once.

    The API server must have accepted the subject's claims.
    """
    findings = chain.from_iterable(question(subject, context) for question in questions)
    return tuple(dict.fromkeys(settle_all(tuple(findings), subject, context)))


def judge_file(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a claim or a template that no API server has seen.

    An expression that the API server rejects is judged as if it selected every device. Beside other
    errors, only questions that do not expect valid claims are asked.
    """
    subject = replace(subject, origin=Origin.FILE)
    rejected = tuple(check_api_rules(subject, context))
    settled = tuple(settle_all(rejected, subject, context))
    errors = [each for each in rejected if each.severity is Severity.ERROR]
    if all(each.code in REFUSED_EXPRESSIONS for each in errors):
        valid = accept_expressions(subject, context) if errors else subject
        judged = judge_subject(valid, context)
    else:
        judged = judge_subject(subject, context, _OF_INVALID_CLAIMS)
    return tuple(dict.fromkeys((*settled, *judged)))


def judge_pod_of_file(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a pod that no API server has seen.

    Claims that an API server rejects are left out: their own objects are judged for that.
    """
    valid = tuple(each for each in subject.claims if not _is_rejected(each, subject, context))
    return judge_subject(replace(subject, claims=valid, origin=Origin.FILE), context)


def _is_rejected(judged: JudgedClaim, subject: Subject, context: JudgeContext) -> bool:
    findings = check_api_rules(replace(subject, claims=(judged,)), context)
    return any(each.severity is Severity.ERROR for each in findings)
