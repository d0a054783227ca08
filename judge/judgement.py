"""Judges a claim, a template or a pod: asks all questions in one pass.

A question is a module with one public function, `check_...(subject, context)`. It yields findings:
a `Finding` with the severity of its code, or a `DeviceFinding`, whose severity depends on the
fleet. To add a question, write its module and add the function to `QUESTIONS`.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from dra.finding import Finding
from judge.context import JudgeContext
from judge.opaque_configs import check_opaque_configs
from judge.rules_annotation import check_rules_annotation
from judge.severity import DeviceFinding, settle_all
from judge.subject import Subject

Question: TypeAlias = Callable[[Subject, JudgeContext], Iterator[Finding | DeviceFinding]]

QUESTIONS: Final[tuple[Question, ...]] = (check_rules_annotation, check_opaque_configs)


def judge_subject(subject: Subject, context: JudgeContext) -> tuple[Finding, ...]:
    """Return all findings about a subject, in the order of the questions, each once."""
    found = (each for question in QUESTIONS for each in question(subject, context))
    return tuple(dict.fromkeys(settle_all(found, subject, context)))
