"""What the Job controller does when one of the pods of a Job is deleted or evicted.

A pod that is deleted before it is complete counts as a failure, also with `restartPolicy:
OnFailure`, unless a rule of `podFailurePolicy` ignores disruptions. An eviction sets the condition
`DisruptionTarget`; a deletion does not.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping

_DEFAULT_LIMIT: Final = 6
# What a container gives that ends by SIGTERM and by SIGKILL.
_ENDED_CODES: Final = (143, 137)


class JobRules(NamedTuple):
    """How many failures a Job still survives, and whether disruptions count as failures."""

    left: int
    ignores_evictions: bool = False
    fails_at_once: bool = False
    # An indexed Job loses only the index.
    by_index: bool = False

    def survives(self, failures: int, *, evicted: bool) -> bool:
        """Whether the Job goes on after so many failures in all, the last by an eviction or not."""
        if self.fails_at_once:
            return False
        return (evicted and self.ignores_evictions) or failures <= self.left


def read_job(value: Value) -> JobRules:
    """Read the rules of a Job."""
    spec = as_mapping(get_value(value, ("spec",)))
    limit = spec.get("backoffLimitPerIndex", spec.get("backoffLimit"))
    failed = get_value(value, ("status", "failed"))
    most = limit if isinstance(limit, int) else _DEFAULT_LIMIT
    by_index = "backoffLimitPerIndex" in spec
    done = failed if isinstance(failed, int) and not by_index else 0
    ignores, fails = _read_policy(as_list(get_value(spec.get("podFailurePolicy"), ("rules",))))
    return JobRules(max(0, most - done), ignores, fails, by_index)


def _read_policy(rules: Sequence[Value]) -> tuple[bool, bool]:
    """Return whether evictions are ignored, and whether the end of a pod fails the Job.

    The first rule that matches decides.
    """
    for rule in map(as_mapping, rules):
        conditions = map(as_mapping, as_list(rule.get("onPodConditions")))
        if any(each.get("type") == "DisruptionTarget" for each in conditions):
            return rule.get("action") == "Ignore", rule.get("action") == "FailJob"
        if _matches_end(as_mapping(rule.get("onExitCodes"))):
            return rule.get("action") == "Ignore", rule.get("action") == "FailJob"
    return False, False


def _matches_end(codes: Mapping[str, Value]) -> bool:
    values = as_list(codes.get("values"))
    if codes.get("operator") == "In":
        return any(each in values for each in _ENDED_CODES)
    return codes.get("operator") == "NotIn" and _ENDED_CODES[0] not in values
