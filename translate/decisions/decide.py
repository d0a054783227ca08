"""What to do with what a pod asks: translate it, leave it to who serves it, or refuse it.

The answer depends on who serves the legacy name and on how well a claim can say the same. Knows no
dialect and no driver.
"""

import enum
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from config.model import Configuration, Placement
from documents.paths import format_path
from dra.finding import Code, Finding, Severity
from facts.model import Facts
from translate.decisions.codes import (
    CLASS_WOULD_SERVE,
    LEFT_AS_IT_IS,
    LEFT_TO_CLASS,
    LEFT_TO_PLUGIN,
    LOST_ALWAYS,
    NOTHING_SAYS_IT,
    SERVER_UNKNOWN,
)
from translate.decisions.rows import get_row
from translate.legacy.asks import Ask, Kind
from translate.targets.plan import Expressibility, TargetResult


class ServedBy(enum.StrEnum):
    """Who serves a legacy name."""

    PLUGIN = "plugin"
    CLASS = "class"
    NOBODY = "nobody"


class Verdict(enum.StrEnum):
    """What becomes of an ask."""

    TRANSLATE = "translate"
    LEAVE = "leave"
    REFUSE = "refuse"


class Decision(msgspec.Struct, frozen=True):
    """What becomes of asks that go together, and what to tell of it."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()


_WORST: Final = (Expressibility.UNSAYABLE, Expressibility.LOSSY, Expressibility.EQUAL)


def find_server(asks: Sequence[Ask], facts: Facts | None) -> ServedBy:
    """Say who serves the names of these asks; without facts that is a plugin.

    So it is where an annotation asks and no name: somebody must read it, or it would not be there.
    """
    if facts is None:
        return ServedBy.PLUGIN
    names = [name for ask in asks for name in ask.resources]
    served = [facts.serving(name) for name in names]
    if any(each.nodes for each in served):
        return ServedBy.PLUGIN
    return ServedBy.CLASS if any(each.classes for each in served) else ServedBy.NOBODY


def stays_with_plugin(ask: Ask, facts: Facts | None) -> bool:
    """Whether an ask is left to its plugin whatever a claim could say."""
    return get_row(ask.row).stays and find_server([ask], facts) is ServedBy.PLUGIN


def rate_asks(asks: Sequence[Ask], said: TargetResult) -> Expressibility:
    """Say how well it can be said: the worst of what rows and target have."""
    answers = {said.answer, *(get_row(ask.row).answer for ask in asks)}
    if any(ask.kind is Kind.OTHER for ask in asks):
        answers.add(Expressibility.UNSAYABLE)
    return next(each for each in _WORST if each in answers)


def decide(
    asks: Sequence[Ask], said: TargetResult, facts: Facts | None, configuration: Configuration
) -> Decision:
    """Decide about asks that go together, by the table of the decisions."""
    by, how = find_server(asks, facts), rate_asks(asks, said)
    if how is Expressibility.UNSAYABLE:
        return _unsayable(asks, said, by, configuration, known=facts is not None)
    if any(stays_with_plugin(ask, facts) for ask in asks):
        what = "stays with its device plugin, which lets pods share what a claim would take whole"
        return Decision(Verdict.LEAVE, (_about(LEFT_TO_PLUGIN, asks, what),))
    findings = (*said.findings, *_always_lost(asks, said))
    if classes := _served_alike(asks, facts, configuration, how):
        if configuration.decisions.native_extended_names == "leave":
            what = f"is served by class {classes} without a claim in the pod"
            return Decision(Verdict.LEAVE, (_about(LEFT_TO_CLASS, asks, what),))
        what = f"is translated, although class {classes} would have served it"
        findings = (*findings, _about(CLASS_WOULD_SERVE, asks, what))
    return Decision(Verdict.TRANSLATE, findings)


def _unsayable(
    asks: Sequence[Ask],
    said: TargetResult,
    by: ServedBy,
    configuration: Configuration,
    *,
    known: bool,
) -> Decision:
    native = configuration.placement == Placement.NATIVE
    why = [each for each in said.findings if each.severity is not Severity.INFO]
    why = why or [_about(NOTHING_SAYS_IT, asks, f"becomes {get_row(asks[0].row).becomes}")]
    if by is ServedBy.PLUGIN or (by is ServedBy.CLASS and native):
        who = f"the {by} that serves it" if any(ask.resources for ask in asks) else "who reads it"
        what = f"stays with {who}: {why[0].message.removeprefix(f'{_names(asks)}: ')}"
        remedy = why[0].remedy if known else SERVER_UNKNOWN.remedy
        return Decision(Verdict.LEAVE, (_about(LEFT_AS_IT_IS, asks, what, remedy),))
    return Decision(Verdict.REFUSE, tuple(replace(e, severity=Severity.ERROR) for e in why))


def _served_alike(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration, how: Expressibility
) -> str:
    """Name the class that serves a plain whole device by itself; empty where none does."""
    if (
        facts is None
        or configuration.placement != Placement.NATIVE
        or how is not Expressibility.EQUAL
    ):
        return ""
    if len(asks) != 1 or not asks[0].is_plain or len(asks[0].resources) != 1:
        return ""
    classes = facts.serving(asks[0].resources[0]).classes
    return classes[0] if classes else ""


def _always_lost(asks: Sequence[Ask], said: TargetResult) -> list[Finding]:
    lost = dict.fromkeys(
        word for ask in asks for word in get_row(ask.row).lost if word not in said.lost
    )
    return [_about(LOST_ALWAYS, asks, f"loses {word} in a claim") for word in lost]


def _about(code: Code, asks: Sequence[Ask], what: str, remedy: str | None = None) -> Finding:
    users = [user.path for ask in asks for user in ask.users]
    path = format_path(users[0]) if users else ""
    return code.at(path, f"{_names(asks)} {what}", remedy=remedy)


def _names(asks: Sequence[Ask]) -> str:
    names = (name for ask in asks for name in (ask.resources or (ask.row,)))
    return ", ".join(dict.fromkeys(names))
