"""Do the rules of a claim hold together? Those that its annotation says, for our own allocator.

Everything else about claims depends on the devices there are, which is the solver's to say.
"""

from msgspec.structs import replace

from dra.claim import Claim, Template
from dra.finding import Finding
from dra.names import RULES_ANNOTATION
from dra.rules import Rules, check_rules, read_rules


def judge_claim(claim: Claim | Template, about: str) -> tuple[Finding, ...]:
    """Give what is wrong with the rules of a claim, or of the claims that a template makes."""
    if isinstance(claim, Template):
        annotations, spec, above = claim.spec.metadata.annotations, claim.spec.spec, "spec."
    else:
        annotations, spec, above = claim.metadata.annotations, claim.spec, ""
    if RULES_ANNOTATION not in annotations:
        return ()
    rules = read_rules(annotations[RULES_ANNOTATION])
    found = check_rules(rules, spec) if isinstance(rules, Rules) else rules
    return tuple(replace(each, object=about, path=above + each.path) for each in found)
