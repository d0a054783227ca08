"""Decides about the asks of a pod so that one node offers everything that the pod then needs.

Claims, and the requests that stay with a plugin or a class, must be served on the same node. If no
node serves the first choice of targets, the targets of each kind of node are tried.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import format_path
from drawbridge.facts.model import Facts, NodeOffer
from drawbridge.finding import Finding, Severity
from drawbridge.translate.changes import dual_nodes
from drawbridge.translate.decisions.admin_access import AdminAccess, apply_admin_access
from drawbridge.translate.decisions.codes import NO_NODE_OFFERS_ALL
from drawbridge.translate.decisions.decide import (
    ServedBy,
    Verdict,
    decide,
    find_server,
    find_serving_class,
    find_unpublished_pool,
    stays_with_plugin,
)
from drawbridge.translate.legacy.asks import Ask
from drawbridge.translate.targets.choose import express_asks
from drawbridge.translate.targets.codes import ALIGNMENT_LOST
from drawbridge.translate.targets.plan import TargetResult

# Kinds of nodes that are tried for one pod, those of most nodes first.
MAX_KINDS: Final = 16


class PodAsks(msgspec.Struct, frozen=True):
    """The asks of a pod, and whether they may have admin access."""

    asks: tuple[Ask, ...]
    admin: AdminAccess = AdminAccess.ALLOWED
    original: tuple[Ask, ...] = ()  # of a translated pod: all asks before its translation


class DecidedAsks(msgspec.Struct, frozen=True):
    """The decisions about the asks of a pod: translated ones with their results, and left ones."""

    findings: tuple[Finding, ...] = ()
    refused: bool = False
    asks: tuple[Ask, ...] = ()
    results: tuple[TargetResult, ...] = ()
    left: tuple[Ask, ...] = ()


class NodeNeed(msgspec.Struct, frozen=True):
    """Something that the node of a pod must offer: a class, or the names of a plugin."""

    label: str
    class_: str = ""
    names: frozenset[str] = frozenset()

    def is_offered(self, offer: NodeOffer) -> bool:
        """Whether a node with this offer serves it."""
        by_plugin = bool(self.names) and self.names <= set(offer.names)
        return by_plugin or self.class_ in offer.classes


def decide_for_one_node(
    pod: PodAsks, facts: Facts | None, configuration: Configuration
) -> DecidedAsks:
    """Decide about all asks of a pod; refuse them if no node serves them together.

    The asks of a translated pod are decided for the nodes that serve its original asks together.
    """
    if not pod.original:
        return _choose_facts(pod, facts, configuration)[0]
    whole, chosen = _choose_facts(
        replace(pod, asks=pod.original, original=()), facts, configuration
    )
    rest = _decide_each(pod.asks, pod.admin, chosen, configuration)
    # Claims that exist stay; only a new one can be refused.
    return whole if whole.refused and rest.results else rest


def _choose_facts(
    pod: PodAsks, facts: Facts | None, configuration: Configuration
) -> tuple[DecidedAsks, Facts | None]:
    """Decide about asks, and return the facts to decide by: of all nodes, or of one kind."""
    asks, admin = pod.asks, pod.admin
    decided = _decide_each(asks, admin, facts, configuration)
    if facts is None or not facts.knows_offers or decided.refused or not decided.results:
        return decided, facts
    needs = _list_known_needs(decided, facts)
    open_offers = _list_open_offers(decided, facts, configuration)
    if not needs or _is_met(needs, open_offers):
        return decided, facts
    for offer in _list_kinds(asks, facts):
        # As in a cluster that has only nodes of this kind.
        narrowed = facts.narrowed(offer)
        other = _decide_each(asks, admin, narrowed, configuration)
        is_open = offer in _list_open_offers(other, facts, configuration)
        is_met = is_open and _is_met(_list_needs(other, facts), [offer])
        if is_met and not other.refused and not _claims_plugins_pool(other, facts, configuration):
            return other, narrowed
    # A dual node may become open again, and a finding reports it.
    met = _is_met(needs, facts.offers)
    return (decided if met else _report_apart(asks, decided, needs, facts)), facts


def _claims_plugins_pool(decided: DecidedAsks, facts: Facts, configuration: Configuration) -> bool:
    """Whether a claim selects a pool of which only a plugin has devices, also on other nodes."""
    asks = {ask.name: ask for ask in decided.asks}
    return any(
        find_server([asks[name]], facts) is ServedBy.PLUGIN
        and find_unpublished_pool([asks[name]], result, facts, configuration)
        for result in decided.results
        for name in result.asks
    )


def _report_apart(
    asks: Sequence[Ask], decided: DecidedAsks, needs: Sequence[NodeNeed], facts: Facts
) -> DecidedAsks:
    """Refuse the asks if no node can ever meet the needs, otherwise warn."""
    message = f"no node offers {' and '.join(need.label for need in needs)} together"
    path = format_path(asks[0].users[0].path) if asks[0].users else ""
    finding = NO_NODE_OFFERS_ALL.at(path, message)
    if _is_closed(needs, facts):
        return replace(decided, findings=(finding,), refused=True)
    message = f"{message} now; the pod stays pending until a node does"
    warning = replace(finding, severity=Severity.WARNING, message=message)
    return replace(decided, findings=(*decided.findings, warning))


def _is_closed(needs: Iterable[NodeNeed], facts: Facts) -> bool:
    """Whether all needs are classes with closed fleets.

    A device plugin that restarts, or that a node gets later, serves its names on other nodes than
    the facts show. Where one node has devices of a class, others may get them.
    """
    classes = [facts.find_class(need.class_) if need.class_ else None for need in needs]
    return all(each is not None and each.closed and not each.single for each in classes)


def _decide_each(
    asks: Sequence[Ask], admin: AdminAccess, facts: Facts | None, configuration: Configuration
) -> DecidedAsks:
    asks = _leave_joints(asks, facts)
    asks_by_name = {ask.name: ask for ask in asks}
    findings: list[Finding] = []
    results: list[TargetResult] = []
    refused = False
    all_expressed = express_asks(asks, facts, configuration)
    if unoffered := _list_unoffered_joints(all_expressed, asks_by_name, facts):
        asks = [replace(ask, joint=None) if ask.name in unoffered else ask for ask in asks]
        asks_by_name = {ask.name: ask for ask in asks}
        findings += _report_divided(asks, unoffered)
        all_expressed = express_asks(asks, facts, configuration)
    for expressed in all_expressed:
        together = [asks_by_name[name] for name in expressed.asks]
        result = apply_admin_access(expressed, together, admin)
        decision = decide(together, result, facts, configuration)
        findings += decision.findings
        refused = refused or decision.verdict is Verdict.REFUSE
        if decision.verdict is Verdict.TRANSLATE:
            results.append(result)
    names = {name for result in results for name in result.asks}
    return DecidedAsks(
        tuple(findings),
        refused,
        tuple([ask for ask in asks if ask.name in names]),
        tuple(results),
        tuple([ask for ask in asks if ask.name not in names]),
    )


def _leave_joints(asks: Sequence[Ask], facts: Facts | None) -> Sequence[Ask]:
    """Divide joint asks of which one stays: its device cannot be aligned with one of a claim."""
    left = {ask.joint.name for ask in asks if ask.joint and stays_with_plugin(ask, facts)}
    return [
        replace(ask, joint=None) if ask.joint and ask.joint.name in left else ask for ask in asks
    ]


def _list_unoffered_joints(
    all_expressed: Iterable[TargetResult], asks_by_name: Mapping[str, Ask], facts: Facts | None
) -> frozenset[str]:
    """Return the joint asks of which a plugin serves some, and no node offers all to claims.

    Near devices are a preference there, and what a plugin serves stays with it.
    """
    names: set[str] = set()
    for expressed in all_expressed:
        together = [asks_by_name[name] for name in expressed.asks]
        if (
            facts is not None
            and len(together) > 1
            and not any(ask.joint and ask.joint.required for ask in together)
            and not facts.offers_classes(expressed.classes)
            and any(facts.plugins_serve(set(ask.plugin_names)) for ask in together)
        ):
            names.update(expressed.asks)
    return frozenset(names)


def _report_divided(asks: Iterable[Ask], divided: Collection[str]) -> Iterator[Finding]:
    """Say that devices of a claim are not near those of a plugin."""
    users = [ask.users[0] for ask in asks if ask.name in divided and ask.users]
    names = [name for ask in asks if ask.name in divided for name in ask.resources]
    path = format_path(users[0].path) if users else ""
    message = f"no node offers all of {' and '.join(names)} to claims"
    yield ALIGNMENT_LOST.at(path, f"{message}, so these devices may not be near each other")


def _list_known_needs(decided: DecidedAsks, facts: Facts) -> tuple[NodeNeed, ...]:
    """Return the needs that any node meets; the first node for the others may arrive later."""
    return tuple(
        need for need in _list_needs(decided, facts) if any(map(need.is_offered, facts.offers))
    )


def _is_met(needs: Iterable[NodeNeed], offers: Iterable[NodeOffer]) -> bool:
    """Whether one of the offers meets all needs."""
    return any(all(need.is_offered(offer) for need in needs) for offer in offers)


def _list_open_offers(
    decided: DecidedAsks, facts: Facts, configuration: Configuration
) -> Sequence[NodeOffer]:
    """Return the offers of nodes that the pod can use: a pod with claims may avoid dual nodes."""
    sources = dual_nodes.find_dual_sources(decided.asks, decided.results, facts, configuration)
    return [each for each in facts.offers if not each.dual] if sources else facts.offers


def _list_needs(decided: DecidedAsks, facts: Facts) -> tuple[NodeNeed, ...]:
    classes = (name for each in decided.results for name in each.classes)
    claimed = (NodeNeed(f"DeviceClass {name}", name) for name in classes)
    kept = (
        NodeNeed(", ".join(names), find_serving_class(ask, facts), frozenset(names))
        for ask in decided.left
        if (names := ask.plugin_names)
    )
    return tuple(dict.fromkeys((*claimed, *kept)))


def _list_kinds(asks: Iterable[Ask], facts: Facts) -> Iterator[NodeOffer]:
    """Yield the kinds of nodes that differ for these asks, those of most nodes first."""
    names = {name for ask in asks for name in ask.plugin_names}
    seen: set[tuple[tuple[str, ...], frozenset[str], bool]] = set()
    for offer in facts.offers_by_frequency:
        kind = (offer.classes, frozenset(names.intersection(offer.names)), offer.dual)
        if kind not in seen and len(seen) < MAX_KINDS:
            seen.add(kind)
            yield offer
