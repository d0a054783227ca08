"""Decides about the asks of a pod: translate them, leave them to their server, or refuse them.

The decision depends on what serves the extended resource and on how well a claim can express the
ask.
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
from translate.decisions.rows import LOSSES, NOTHING, get_row
from translate.legacy.asks import Ask, Kind
from translate.targets.plan import Expressibility, TargetResult


class ServedBy(enum.StrEnum):
    """What serves an extended resource."""

    PLUGIN = "plugin"
    CLASS = "class"
    NOBODY = "nobody"


_SERVERS: Final = {
    ServedBy.PLUGIN: "the device plugin that serves it",
    ServedBy.CLASS: "the DeviceClass that serves it",
}


class Verdict(enum.StrEnum):
    """What to do with an ask."""

    TRANSLATE = "translate"
    LEAVE = "leave"
    REFUSE = "refuse"


class Decision(msgspec.Struct, frozen=True):
    """The decision about asks that are translated together, with its findings."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()


_WORST_FIRST: Final = (Expressibility.NOT_EXPRESSIBLE, Expressibility.LOSSY, Expressibility.EQUAL)


def find_server(asks: Sequence[Ask], facts: Facts | None) -> ServedBy:
    """Return what serves the extended resources of these asks; without facts, a plugin."""
    if facts is None:
        return ServedBy.PLUGIN
    names = [name for ask in asks for name in ask.resources]
    served = [facts.find_resource(name) for name in names]
    if any(each.nodes for each in served):
        return ServedBy.PLUGIN
    return ServedBy.CLASS if any(each.classes for each in served) else ServedBy.NOBODY


def stays_with_plugin(ask: Ask, facts: Facts | None) -> bool:
    """Whether an ask stays with its device plugin even if a claim can express it."""
    return get_row(ask.row).stays_with_plugin and find_server([ask], facts) is ServedBy.PLUGIN


def rate_asks(asks: Sequence[Ask], result: TargetResult) -> Expressibility:
    """Rate how well a claim can express asks: the worst rating of their rows and the target."""
    ratings = {result.expressibility, *(get_row(ask.row).expressibility for ask in asks)}
    if any(ask.kind is Kind.OTHER for ask in asks):
        ratings.add(Expressibility.NOT_EXPRESSIBLE)
    return next(each for each in _WORST_FIRST if each in ratings)


def decide(
    asks: Sequence[Ask], result: TargetResult, facts: Facts | None, configuration: Configuration
) -> Decision:
    """Decide about asks that are translated together, by the decision table."""
    served_by, rating = find_server(asks, facts), rate_asks(asks, result)
    if rating is Expressibility.NOT_EXPRESSIBLE:
        return _leave_or_refuse(asks, result, served_by, configuration, known=facts is not None)
    if any(stays_with_plugin(ask, facts) for ask in asks):
        message = "stays with its device plugin, which shares the device between pods"
        return Decision(Verdict.LEAVE, (_make_finding(LEFT_TO_PLUGIN, asks, message),))
    findings = (*result.findings, *_report_always_lost(asks, result))
    if name := _find_native_class(asks, facts, configuration, rating):
        if configuration.decisions.native_extended_names == "leave":
            message = f"stays as it is, because DeviceClass {name} serves it"
            return Decision(Verdict.LEAVE, (_make_finding(LEFT_TO_CLASS, asks, message),))
        message = f"is translated, although DeviceClass {name} serves it"
        findings = (*findings, _make_finding(CLASS_WOULD_SERVE, asks, message))
    return Decision(Verdict.TRANSLATE, findings)


def _leave_or_refuse(
    asks: Sequence[Ask],
    result: TargetResult,
    served_by: ServedBy,
    configuration: Configuration,
    *,
    known: bool,
) -> Decision:
    native = configuration.placement == Placement.NATIVE
    why = [each for each in result.findings if each.severity is not Severity.INFO]
    why = why or [_make_finding(NOTHING_SAYS_IT, asks, _no_counterpart(asks[0]), ": ")]
    if served_by is ServedBy.PLUGIN or (served_by is ServedBy.CLASS and native):
        named = any(ask.resources for ask in asks)
        server = _SERVERS[served_by] if named else "the component that reads it"
        message = f"stays with {server}: {why[0].message.removeprefix(f'{_names(asks)}: ')}"
        remedy = why[0].remedy if known else SERVER_UNKNOWN.remedy
        return Decision(
            Verdict.LEAVE, (_make_finding(LEFT_AS_IT_IS, asks, message, remedy=remedy),)
        )
    return Decision(Verdict.REFUSE, tuple(replace(e, severity=Severity.ERROR) for e in why))


def _find_native_class(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration, rating: Expressibility
) -> str:
    """Return the class that serves a plain request for whole devices natively; empty if none."""
    if (
        facts is None
        or configuration.placement != Placement.NATIVE
        or rating is not Expressibility.EQUAL
    ):
        return ""
    if len(asks) != 1 or not asks[0].is_plain or len(asks[0].resources) != 1:
        return ""
    classes = facts.find_resource(asks[0].resources[0]).classes
    return classes[0] if classes else ""


def _report_always_lost(asks: Sequence[Ask], result: TargetResult) -> list[Finding]:
    lost = dict.fromkeys(
        name for ask in asks for name in get_row(ask.row).lost if name not in result.lost
    )
    return [_make_finding(LOST_ALWAYS, asks, LOSSES[name], ": ") for name in lost]


def _no_counterpart(ask: Ask) -> str:
    becomes = get_row(ask.row).becomes
    return (
        becomes.removeprefix(NOTHING) if becomes.startswith(NOTHING) else "DRA has no counterpart"
    )


def _make_finding(
    code: Code,
    asks: Sequence[Ask],
    message: str,
    separator: str = " ",
    *,
    remedy: str | None = None,
) -> Finding:
    users = [user.path for ask in asks for user in ask.users]
    path = format_path(users[0]) if users else ""
    return code.at(path, f"{_names(asks)}{separator}{message}", remedy=remedy)


def _names(asks: Sequence[Ask]) -> str:
    names = (name for ask in asks for name in (ask.resources or (ask.row,)))
    return ", ".join(dict.fromkeys(names))
