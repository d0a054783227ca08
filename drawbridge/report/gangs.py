"""Explains the gang of a pod: which members wait for what, and what its minimum lacks."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding
from drawbridge.ledger.pods import FINISHED
from drawbridge.pod_groups import Member, PodGroup, find_group, read_policies
from drawbridge.report import codes, scheduling
from drawbridge.translate.changes.group_members import report_split_gangs

_GATES: Final = ("spec", "schedulingGates")


class ExplainedMember(msgspec.Struct, frozen=True):
    """A member of a gang: its node, or what it waits for."""

    pod: str
    scheduler: str
    node: str | None
    waits: str = ""


class ExplainedGang(msgspec.Struct, frozen=True):
    """The gang of a pod. `min_count` is None if the object of the gang is not known.

    Without the right to list pods, the `members` are not known, except for the pod.
    """

    gang: str
    min_count: int | None
    members: tuple[ExplainedMember, ...]
    members_known: bool = True

    @property
    def placed(self) -> int:
        """How many members have a node."""
        return sum(each.node is not None for each in self.members)

    @property
    def missing(self) -> int:
        """How many pods the minimum lacks."""
        lacking = (self.min_count or 0) - len(self.members)
        return max(0, lacking) if self.members_known else 0


def explain_gang(
    pod: Value, pods: Sequence[Value] | None, objects: Sequence[Value]
) -> ExplainedGang | None:
    """Explain the gang of a pod, from pods of its namespace and objects of groups."""
    group = find_group(pod)
    if group is None or not group.is_gang:
        return None
    policy = read_policies(objects).get(group.policy)
    members = tuple(_describe(each) for each in find_members(group, [*(pods or ()), pod]))
    least = policy.min_count if policy else None
    return ExplainedGang(f"{group}", least, members, members_known=pods is not None)


def find_members(group: PodGroup, pods: Sequence[Value]) -> Iterator[Value]:
    """Yield the pods of a group that have not ended, each once."""
    named = {f"{get_value(each, ('metadata', 'name'))}": each for each in pods}
    for name in sorted(named):
        ended = get_value(named[name], ("status", "phase")) in FINISHED
        if not ended and find_group(named[name]) == group:
            yield named[name]


def _describe(pod: Value) -> ExplainedMember:
    node = get_value(pod, ("spec", "nodeName"))
    placed = isinstance(node, str) and bool(node)
    return ExplainedMember(
        f"{get_value(pod, ('metadata', 'name'))}",
        scheduling.scheduler_of(pod),
        f"{node}" if placed else None,
        "" if placed else _describe_wait(pod),
    )


def _describe_wait(pod: Value) -> str:
    gates = [f"{as_mapping(each).get('name')}" for each in as_list(get_value(pod, _GATES))]
    if gates:
        return f"scheduling gate {', '.join(gates)}"
    conditions = map(as_mapping, as_list(get_value(pod, ("status", "conditions"))))
    told = (each.get("message") for each in conditions if each.get("type") == "PodScheduled")
    return next((f"{each}" for each in told if each), "no message from its scheduler")


def report_gang(gang: ExplainedGang, pod: Value) -> Iterator[Finding]:
    """Report the gang of a pod that has too few members, or several schedulers."""
    group = find_group(pod)
    if group is None or gang.min_count == 0:
        return
    members = [Member(group, each.pod, each.scheduler, each.node is None) for each in gang.members]
    for _, finding in report_split_gangs(members):
        yield finding
    if gang.missing:
        there = count_noun(len(gang.members), "member")
        yield codes.GANG_MEMBERS_MISSING.at(
            "",
            f"{gang.gang} needs {gang.min_count} members and has {there}, so it waits for "
            f"{count_noun(gang.missing, 'more pod')}",
        )


def format_gang(gang: ExplainedGang) -> Iterator[str]:
    """Format the gang: how many members have a node, and what the others wait for."""
    least = f", at least {gang.min_count} together" if gang.min_count else ""
    counted = count_noun(len(gang.members), "member")
    there = f"{counted}, {gang.placed} with a node" if gang.members_known else "members unknown"
    yield f"  gang {gang.gang}: {there}{least}"
    for member in gang.members:
        if member.node is None:
            yield f"    {member.pod} ({member.scheduler}): {member.waits}"
