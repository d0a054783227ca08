"""Decides about the asks of a pod: translate them, leave them to their server, or refuse them.

The decision depends on what serves the extended resource and on how well a claim can express the
ask.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.paths import format_path
from drawbridge.facts.families import known_families
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.finding import Code, Finding, Severity
from drawbridge.translate.decisions.codes import (
    AMOUNT_MAPPED_BY_CLASS,
    CLASS_WOULD_SERVE,
    LEFT_AS_IT_IS,
    LEFT_TO_CLASS,
    LEFT_TO_PLUGIN,
    LOST_IN_CLAIMS,
    NOTHING_SAYS_IT,
    SERVER_UNKNOWN,
)
from drawbridge.translate.decisions.rows import LOSSES, NOTHING, get_row, is_selected_by_name
from drawbridge.translate.legacy.asks import Ask, Kind
from drawbridge.translate.legacy.selectors import PluginPool
from drawbridge.translate.targets.available import find_vocabulary
from drawbridge.translate.targets.plan import Expressibility, TargetResult


class ServedBy(enum.StrEnum):
    """What serves an extended resource."""

    PLUGIN = "plugin"
    CLASS = "class"
    NOBODY = "nobody"


_SERVERS: Final = {ServedBy.PLUGIN: "device plugin", ServedBy.CLASS: "DeviceClass"}


_MOVE: Final = "Install the DRA driver, without the device plugin, on nodes that have the devices."
_IGNORED: Final = (
    ", but the kubelets of some nodes with its devices ignore that and start the pod without them"
)
_UPGRADE: Final = "Upgrade these kubelets, which `drawbridge doctor` counts."


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
    """Return the one server of all the names of these asks; without facts, a plugin."""
    if facts is None:
        return ServedBy.PLUGIN
    names = {name for ask in asks for name in ask.plugin_names}
    served = all(find_serving_class(ask, facts) for ask in asks)
    # A class serves all nodes of which a single one still has the plugin.
    if facts.plugins_serve(names) and not (
        served and all(facts.find_resource(each).single for each in names)
    ):
        return ServedBy.PLUGIN
    return ServedBy.CLASS if served else ServedBy.NOBODY


def find_serving_class(ask: Ask, facts: Facts) -> str:
    """Return the class that gives what an ask means; empty if none.

    A class gives a number of its devices for one name. It reads neither amounts nor annotations.
    """
    if is_selected_by_name(ask.row):
        ask = replace(ask, share=None, selectors=(), alternatives=(), uses_node_labels=False)
    if len(ask.resources) != 1 or not ask.is_plain:
        return ""
    return next(iter(facts.find_resource(ask.resources[0]).classes), "")


def leaves_names(configuration: Configuration) -> bool:
    """Whether plain requests by the names of classes stay as they are."""
    is_native = configuration.placement == Placement.NATIVE
    return is_native and configuration.decisions.native_extended_names == "leave"


def gives_devices(row: ClassFacts | None) -> bool:
    """Whether a class gives its devices for its name on all nodes that have them, if known.

    Where a kubelet ignores the name, only a claim gets devices.
    """
    return row is None or (bool(row.drivers) and not row.name_ignored)


def stays_with_plugin(ask: Ask, facts: Facts | None) -> bool:
    """Whether an ask stays with its device plugin even if a claim can express it."""
    return get_row(ask.row).stays_with_plugin and find_server([ask], facts) is ServedBy.PLUGIN


def rate_asks(asks: Sequence[Ask], result: TargetResult) -> Expressibility:
    """Rate how well a claim can express asks: the worst rating of their rows and the target."""
    ratings = {result.expressibility, *(get_row(ask.row).expressibility for ask in asks)}
    if any(ask.kind is Kind.OTHER and not ask.named for ask in asks):
        ratings.add(Expressibility.NOT_EXPRESSIBLE)
    return next(each for each in _WORST_FIRST if each in ratings)


def decide(
    asks: Sequence[Ask], result: TargetResult, facts: Facts | None, configuration: Configuration
) -> Decision:
    """Decide about asks that are translated together, by the decision table."""
    rating = rate_asks(asks, result)
    if name := _find_class_of_shares(asks, facts, configuration):
        message = f"stays as it is, because DeviceClass {name} serves it as a share of a device"
        remedy = "Set `decisions.nativeShares: translate` to create a claim anyway."
        return Decision(
            Verdict.LEAVE, (_make_finding(LEFT_TO_CLASS, asks, message, remedy=remedy),)
        )
    mapped = tuple(_report_mapped_amounts(asks, facts))
    if rating is Expressibility.NOT_EXPRESSIBLE:
        decision = _leave_or_refuse(asks, result, facts, configuration)
        return replace(decision, findings=(*decision.findings, *mapped))
    if any(stays_with_plugin(ask, facts) for ask in asks):
        message = f"{_stays_with_its(asks)} device plugin, which shares the device between pods"
        return Decision(Verdict.LEAVE, (_make_finding(LEFT_TO_PLUGIN, asks, message),))
    if (
        facts
        and find_server(asks, facts) is ServedBy.PLUGIN
        and (missing := _find_missing(asks, result, facts, configuration))
    ):
        stays = _stays_with_its(asks)
        message = f"{stays} device plugin: no node offers devices of {missing} to claims"
        return Decision(Verdict.LEAVE, (_make_finding(LEFT_AS_IT_IS, asks, message, remedy=_MOVE),))
    findings = (*result.findings, *_report_always_lost(asks, result), *mapped)
    if rating is Expressibility.EQUAL and (
        name := _find_native_class(asks, result, facts, configuration)
    ):
        if leaves_names(configuration):
            message = f"stays as it is, because DeviceClass {name} serves it"
            return Decision(Verdict.LEAVE, (_make_finding(LEFT_TO_CLASS, asks, message),))
        message = f"is translated, although DeviceClass {name} serves it"
        findings = (*findings, _make_finding(CLASS_WOULD_SERVE, asks, message))
    return Decision(Verdict.TRANSLATE, findings)


def _find_missing(
    asks: Sequence[Ask], result: TargetResult, facts: Facts, configuration: Configuration
) -> str:
    """Return the classes or the pool of which no node offers devices to claims; empty if none."""
    if not facts.offers_classes(result.classes):
        return " and ".join(result.classes)
    pool = find_unpublished_pool(asks, result, facts, configuration)
    return f"pool {pool}" if pool else ""


def find_unpublished_pool(
    asks: Sequence[Ask], result: TargetResult, facts: Facts, configuration: Configuration
) -> str:
    """Return the pool of which no driver publishes devices; empty if none, or if not all are known.

    Facts of one kind of nodes list the pools of all nodes.
    """
    published = _list_published_pools(result.classes, facts, configuration)
    pools = (each for ask in asks for each in ask.selectors if isinstance(each, PluginPool))
    for pool in pools if published else ():
        if published.isdisjoint(name.rpartition("/")[2] for name in pool.names):
            return pool.names[0]
    return ""


def _list_published_pools(
    classes: Iterable[str], facts: Facts, configuration: Configuration
) -> frozenset[str]:
    """Return the pools of all devices of these classes; empty if not all are known.

    They are the products of drivers that publish the pool as the name.
    """
    rows = [facts.find_class(each) for each in classes]
    drivers = {driver for row in rows if row for driver in row.drivers}
    families = known_families(configuration)
    for driver in drivers:
        family = families.get(driver)
        vocabulary = find_vocabulary(family, configuration) if family else None
        if not (family and vocabulary and vocabulary.resource == f"{driver}/{family.name}"):
            return frozenset()
    published = {each.name for driver in drivers for each in facts.products_of(driver)}
    is_known = all(rows) and "" not in published and "products" not in facts.omitted
    return frozenset(published) if is_known else frozenset()


def _leave_or_refuse(
    asks: Sequence[Ask], result: TargetResult, facts: Facts | None, configuration: Configuration
) -> Decision:
    served_by = find_server(asks, facts)
    native = configuration.placement == Placement.NATIVE
    why = [each for each in result.findings if each.severity is not Severity.INFO]
    why = why or [_make_finding(NOTHING_SAYS_IT, asks, _no_counterpart(asks[0]), ": ")]
    if served_by is ServedBy.PLUGIN or (served_by is ServedBy.CLASS and native):
        named = any(ask.resources for ask in asks)
        is_single = len(_list_names(asks)) == 1
        server = f"{_SERVERS[served_by]} that serves" if named else "component that reads"
        stays, it = ("stays", "it") if is_single else ("stay", "them")
        reason = why[0].message.removeprefix(f"{_names(asks)}: ")
        remedy = why[0].remedy if facts else SERVER_UNKNOWN.remedy
        ignored = ""
        if facts and served_by is ServedBy.CLASS and _is_ignored(asks, facts):
            ignored = _IGNORED
            remedy = f"{_UPGRADE} {remedy}"
        message = f"{stays} with the {server} {it}{ignored}: {reason}"
        return Decision(
            Verdict.LEAVE, (_make_finding(LEFT_AS_IT_IS, asks, message, remedy=remedy),)
        )
    return Decision(Verdict.REFUSE, tuple(replace(e, severity=Severity.ERROR) for e in why))


def _is_ignored(asks: Sequence[Ask], facts: Facts) -> bool:
    """Whether a kubelet ignores the name of a class that serves one of the asks."""
    rows = (facts.find_class(find_serving_class(ask, facts)) for ask in asks)
    return any(row is not None and row.name_ignored for row in rows)


def _find_native_class(
    asks: Sequence[Ask], result: TargetResult, facts: Facts | None, configuration: Configuration
) -> str:
    """Return the class that serves a plain request for whole devices natively; empty if none.

    A class that gives no devices serves no request while the class of the claim has some.
    """
    if facts is None or configuration.placement != Placement.NATIVE:
        return ""
    if len(asks) != 1 or not asks[0].is_plain:
        return ""
    name = find_serving_class(asks[0], facts)
    better = not gives_devices(facts.find_class(name)) and any(
        _has_devices(device_class, facts) for device_class in result.classes
    )
    return "" if better else name


def _find_class_of_shares(
    asks: Sequence[Ask], facts: Facts | None, configuration: Configuration
) -> str:
    """Return the class that serves a name of shares natively; empty if none does.

    The class says what its name means, so only an ask that has nothing beside the name is its own.
    """
    if (
        facts is None
        or configuration.placement != Placement.NATIVE
        or configuration.decisions.native_shares == "translate"
        or len(asks) != 1
        or asks[0].share is None
        or not is_selected_by_name(asks[0].row)
    ):
        return ""
    name = find_serving_class(asks[0], facts)
    row = facts.find_class(name)
    return name if row and row.share and gives_devices(row) else ""


def _has_devices(name: str, facts: Facts) -> bool:
    class_facts = facts.find_class(name)
    return class_facts is None or bool(class_facts.drivers)


def _report_mapped_amounts(asks: Sequence[Ask], facts: Facts | None) -> Iterator[Finding]:
    """Report classes that map a name of which the pod requests an amount and not devices."""
    for ask in asks if facts else ():
        for name in ask.amounts:
            if facts and (classes := facts.find_resource(name).classes):
                message = (
                    f"DeviceClass {classes[0]} serves {name} as a number of devices, but the pod "
                    "requests an amount by it"
                )
                yield _make_finding(AMOUNT_MAPPED_BY_CLASS, [ask], message, ": ")


def _report_always_lost(asks: Sequence[Ask], result: TargetResult) -> list[Finding]:
    lost = dict.fromkeys(
        name for ask in asks for name in get_row(ask.row).lost if name not in result.lost
    )
    return [_make_finding(LOST_IN_CLAIMS, asks, LOSSES[name], ": ") for name in lost]


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


def _stays_with_its(asks: Sequence[Ask]) -> str:
    return "stays with its" if len(_list_names(asks)) == 1 else "stay with their"


def _names(asks: Sequence[Ask]) -> str:
    return ", ".join(_list_names(asks))


def _list_names(asks: Sequence[Ask]) -> Sequence[str]:
    return tuple(dict.fromkeys(name for ask in asks for name in (ask.resources or (ask.row,))))
