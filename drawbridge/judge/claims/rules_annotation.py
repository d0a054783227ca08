"""Checks the rules in the annotation `drawbridge.dev/rules` of claims."""

from collections.abc import Iterator

from msgspec.structs import replace

from drawbridge.dra.rules import Rules, check_rules, read_rules
from drawbridge.finding import Finding
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.subject import Subject
from drawbridge.names import RULES_ANNOTATION


def check_rules_annotation(subject: Subject, _: JudgeContext) -> Iterator[Finding]:
    """Yield the errors in the rules of each claim."""
    for judged in subject.claims:
        written = judged.claim.metadata.annotations.get(RULES_ANNOTATION)
        if written is None:
            continue
        rules = read_rules(written)
        findings = check_rules(rules, judged.claim.spec) if isinstance(rules, Rules) else rules
        above = judged.path.removesuffix("spec")
        for finding in findings:
            yield replace(finding, object=judged.object, path=above + finding.path)
