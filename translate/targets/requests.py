"""A plan to requests: counts, alternatives, percentages; the same for every family.

What is asked as one of several ways becomes `firstAvailable`, whose eight places bound it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from documents.values import Value
from dra.finding import Finding
from facts.model import Product
from translate.legacy.asks import Ask, Percent
from translate.legacy.selectors import AskSelector, DeviceLabel, ProductIs
from translate.targets import codes
from translate.targets.plan import DevicePlan, DriverTarget, UnnamedRequest, make_finding
from translate.targets.products import capacity_value, filter_products, percent_amount
from translate.targets.vocabulary import (
    DriverVocabulary,
    NotExpressibleError,
    check_length,
    quote,
    write_cel,
)

MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_RESULTS = 32
_NOT_LABEL = re.compile(r"[^a-z0-9]+")


class DeviceAlternative(msgspec.Struct, frozen=True):
    """One way to get a device: what it must be, how much of it, and what it is called."""

    selectors: tuple[str, ...] = ()
    capacity: Mapping[str, str] = {}
    name: str = ""


class ExpandedPlan(msgspec.Struct, frozen=True):
    """A plan with everything worked out but the number of devices."""

    plan: DevicePlan
    ways: tuple[DeviceAlternative, ...]
    findings: tuple[Finding, ...]


def expand_plan(ask: Ask, plan: DevicePlan, aim: DriverTarget) -> ExpandedPlan:
    """Work out the ways in which a device may be got."""
    words = plan.words or aim.words
    selectors, dropped = _selectors(ask, plan, words, aim)
    products, left = _ways_of_products(ask, plan, words)
    alternatives = tuple(
        (check_length(write_cel(each, words, aim.types)),) for each in ask.alternatives
    )
    ways = [
        DeviceAlternative((*selectors, *other, *preferred, *way.selectors), way.capacity, way.name)
        for other in plan.ways or ((),)
        for preferred in alternatives or ((),)
        for way in products
    ]
    findings = [*plan.losses, *dropped, *left]
    if len(ways) > MAX_ALTERNATIVES:
        message = f"{len(ways) - MAX_ALTERNATIVES} of {len(ways)} ways are not asked for"
        findings.append(make_finding(codes.PRODUCTS_LEFT, ask, message))
    if len(ways) > 1:
        aim.keeps("firstAvailable")
        if ask.admin:
            raise NotExpressibleError("what only looks at devices cannot choose among several ways")
    if ask.admin:
        aim.keeps("exactly.adminAccess")
    return ExpandedPlan(plan, tuple(ways[:MAX_ALTERNATIVES]), tuple(findings))


def compose_request(ask: Ask, drawn: ExpandedPlan, count: int | None) -> UnnamedRequest:
    """Print the request for so many devices, or for all there are."""
    if len(drawn.ways) == 1:
        wanted = _wanted(drawn.plan.class_, drawn.ways[0], count)
        if ask.admin:
            wanted["adminAccess"] = True
        body: dict[str, Value] = {"exactly": wanted}
    else:
        subs: list[Value] = [
            {"name": name, **_wanted(drawn.plan.class_, way, count)}
            for name, way in zip(_names(drawn.ways), drawn.ways, strict=True)
        ]
        body = {"firstAvailable": subs}
    devices = MAX_RESULTS if count is None else count
    return UnnamedRequest(f"{ask.kind}", body, devices, ask.name, ask.users)


def _selectors(
    ask: Ask, plan: DevicePlan, words: DriverVocabulary, aim: DriverTarget
) -> tuple[tuple[str, ...], list[Finding]]:
    """Write what every way must satisfy; a label that no attribute stands for is dropped."""
    texts, dropped = list(plan.selectors), []
    for each in plan.wanted:
        if labels := [label for label in _labels(each) if not label.attribute]:
            said = ", ".join("=".join((label.key, *label.values[:1])) for label in labels)
            dropped.append(make_finding(codes.LABEL_DROPPED, ask, said))
        else:
            texts.append(write_cel(each, words, aim.types))
    if len(texts) > MAX_SELECTORS - 2:
        texts = [" && ".join(f"({text})" for text in texts)]
    return tuple(check_length(text) for text in texts), dropped


def _labels(selector: AskSelector) -> Iterator[DeviceLabel]:
    if isinstance(selector, DeviceLabel):
        yield selector
    for name in ("operand", "operands"):
        inner = getattr(selector, name, ())
        for each in inner if isinstance(inner, tuple) else (inner,):
            yield from _labels(each)


def _ways_of_products(
    ask: Ask, plan: DevicePlan, words: DriverVocabulary
) -> tuple[list[DeviceAlternative], list[Finding]]:
    """Turn percentages into amounts, one way for each amount that comes out."""
    percents = {name: each for name, each in plan.amounts.items() if isinstance(each, Percent)}
    fixed = {name: each for name, each in plan.amounts.items() if isinstance(each, str)}
    if not percents:
        return [DeviceAlternative((), fixed)], []
    selectors = plan.wanted
    known = [
        each
        for each in filter_products(plan.percent_of, selectors, _memory(words, plan.percent_of))
        if each.name and percents.keys() <= each.capacity.keys()
    ]
    if not known:
        raise NotExpressibleError(
            f"{_text(percents)} needs a published product that shares {' and '.join(percents)}"
        )
    amounts: dict[tuple[str, ...], list[Product]] = {}
    for each in sorted(
        known, key=lambda row: [capacity_value(row, name) for name in sorted(percents)]
    ):
        key = tuple(percent_amount(each, name, percents[name]) for name in sorted(percents))
        amounts.setdefault(key, []).append(each)
    ways = [
        DeviceAlternative(
            (_pinned(products, known, words),),
            fixed | dict(zip(sorted(percents), key, strict=True)),
            products[0].name,
        )
        for key, products in amounts.items()
    ]
    return _most(ask, ways, [sum(each.devices for each in rows) for rows in amounts.values()])


def _text(percents: Mapping[str, Percent]) -> str:
    return " and ".join(f"{each.value} percent of {name}" for name, each in percents.items())


def _pinned(products: Sequence[Product], known: Sequence[Product], words: DriverVocabulary) -> str:
    """Select just these products; by their memory too where a name has several sizes."""
    names = sorted({each.name for each in products})
    text = write_cel(ProductIs(tuple(names)), words)
    memory = _memory(words, known)
    sizes = {each.capacity[memory].value for each in known if each.name in names and memory}
    own = {each.capacity[memory].value for each in products if memory}
    if sizes == own:
        return text
    domain, _, identifier = words.memory.partition("/")
    read = f"device.capacity[{quote(domain)}].{identifier}"
    exact = " || ".join(f"{read}.compareTo(quantity({quote(size)})) == 0" for size in sorted(own))
    return f"{text} && ({exact})"


def _memory(words: DriverVocabulary, products: Iterable[Product]) -> str:
    """The memory's name as every one of the products publishes it, with its domain or without."""
    names = [words.memory, words.memory.partition("/")[2]]
    rows = list(products)
    return next((name for name in names if all(name in each.capacity for each in rows)), "")


def _most(
    ask: Ask, ways: list[DeviceAlternative], devices: list[int]
) -> tuple[list[DeviceAlternative], list[Finding]]:
    """Keep the ways that most devices offer, in their order."""
    if len(ways) <= MAX_ALTERNATIVES:
        return ways, []
    ranked = sorted(range(len(ways)), key=lambda i: (-devices[i], i))
    kept = sorted(ranked[:MAX_ALTERNATIVES])
    names = ", ".join(ways[i].name for i in sorted(ranked[MAX_ALTERNATIVES:])[:3])
    message = f"{len(ways) - MAX_ALTERNATIVES} amounts find no place, such as of {names}"
    return [ways[i] for i in kept], [make_finding(codes.PRODUCTS_LEFT, ask, message)]


def _wanted(class_: str, way: DeviceAlternative, count: int | None) -> dict[str, Value]:
    wanted: dict[str, Value] = {"deviceClassName": class_}
    if way.selectors:
        wanted["selectors"] = [{"cel": {"expression": each}} for each in way.selectors]
    wanted["allocationMode"] = "All" if count is None else "ExactCount"
    if count is not None:
        wanted["count"] = count
    if way.capacity:
        wanted["capacity"] = {"requests": dict(sorted(way.capacity.items()))}
    return wanted


def _names(ways: Sequence[DeviceAlternative]) -> list[str]:
    """Name sub-requests after their products, each once."""
    names: list[str] = []
    for number, way in enumerate(ways):
        plain = _NOT_LABEL.sub("-", way.name.lower()).strip("-")[:50].rstrip("-")
        name = plain or f"way-{number}"
        names.append(name if name not in names else f"{name}-{number}")
    return names
