"""Checks the rules in the annotation `drawbridge.dev/rules` of claims."""

from collections.abc import Iterator

from msgspec.structs import replace

from drawbridge.dra.rules import read_claim_rules
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.subject import Subject


def check_rules_annotation(subject: Subject, _: JudgeContext) -> Iterator[Finding]:
    """Yield the errors in the rules of each claim."""
    for judged in subject.claims:
        rules = read_claim_rules(judged.claim)
        above = judged.path.removesuffix("spec")
        for finding in rules if isinstance(rules, tuple) else ():
            yield replace(finding, object=judged.object, path=above + finding.path)
