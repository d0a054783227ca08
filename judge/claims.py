"""Checks the rules of a claim that the annotation `drawbridge.dev/rules` holds.

The solver checks everything else, because it depends on the published devices.
"""

from msgspec.structs import replace

from dra.claim import Claim, Template
from dra.finding import Finding
from dra.names import RULES_ANNOTATION
from dra.rules import Rules, check_rules, read_rules


def judge_claim(claim: Claim | Template, about: str) -> tuple[Finding, ...]:
    """Return the errors in the rules of a claim, or of the claims of a template."""
    if isinstance(claim, Template):
        annotations, spec, above = claim.spec.metadata.annotations, claim.spec.spec, "spec."
    else:
        annotations, spec, above = claim.metadata.annotations, claim.spec, ""
    if RULES_ANNOTATION not in annotations:
        return ()
    rules = read_rules(annotations[RULES_ANNOTATION])
    found = check_rules(rules, spec) if isinstance(rules, Rules) else rules
    return tuple(replace(each, object=about, path=above + each.path) for each in found)
