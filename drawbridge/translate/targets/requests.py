"""Expands a device plan to requests: counts, alternatives, percentages; for every family.

Several alternatives become a `firstAvailable` request, which has room for eight.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from drawbridge.documents.values import Value
from drawbridge.facts.model import Product, of_several
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Percent
from drawbridge.translate.legacy.selectors import (
    AllOf,
    AnyOf,
    AskSelector,
    DeviceLabel,
    ProductIs,
    RawCEL,
)
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.plan import DevicePlan, DriverTarget, UnnamedRequest, make_finding
from drawbridge.translate.targets.products import (
    add_published_names,
    capacity_value,
    filter_products,
    percent_amount,
)
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    NotExpressibleError,
    capacity_access,
    check_length,
    express,
    guard_capacity,
    join_expressions,
    quote,
)

MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_RESULTS = 32
_ANY = AllOf(())
_NOT_LABEL = re.compile(r"[^a-z0-9]+")


class DeviceAlternative(msgspec.Struct, frozen=True):
    """One alternative for a device: selectors, capacity, the product name, derived attributes."""

    selectors: tuple[Expression, ...] = ()
    capacity: Mapping[str, str] = {}
    name: str = ""
    derived: Mapping[str, str] = {}  # the expression of each attribute


class ExpandedPlan(msgspec.Struct, frozen=True):
    """A plan with all its alternatives; only the number of devices is open."""

    plan: DevicePlan
    alternatives: tuple[DeviceAlternative, ...]
    findings: tuple[Finding, ...]


class ChosenTarget(NamedTuple):
    """An ask with its target and its expanded plan."""

    ask: Ask
    target: DriverTarget
    expanded: ExpandedPlan


def expand_plan(ask: Ask, plan: DevicePlan, target: DriverTarget) -> ExpandedPlan:
    """Expand a plan to the alternatives that can satisfy it."""
    vocabulary = plan.vocabulary or target.vocabulary
    selectors, dropped = _write_selectors(ask, plan, vocabulary, target)
    products, left = _product_alternatives(ask, plan, vocabulary, target)
    others = plan.alternatives or ((),)
    kept, lost = _fit_preferences(ask, target, MAX_ALTERNATIVES // (len(others) * len(products)))
    published = target.products() if kept else ()
    preferences = tuple(
        (check_length(express(add_published_names(selector, published), vocabulary, target.types)),)
        for selector in kept
    )
    alternatives = [
        DeviceAlternative(
            (*selectors, *other, *preferred, *product.selectors), product.capacity, product.name
        )
        for other in others
        for preferred in preferences or ((),)
        for product in products
    ]
    alternatives, merged = _merge_for_queue(ask, alternatives)
    _check_fields(ask, target, several=len(alternatives) > 1)
    findings = (*plan.losses, *dropped, *left, *lost, *merged)
    return ExpandedPlan(plan, tuple(alternatives), findings)


def _merge_for_queue(
    ask: Ask, alternatives: list[DeviceAlternative]
) -> tuple[list[DeviceAlternative], list[Finding]]:
    """Merge alternatives into one that a queue of Kueue charges, in any order of devices.

    Raises NotExpressibleError if they need different amounts.
    """
    first = alternatives[0]
    if not ask.queue or len(alternatives) == 1:
        return alternatives, []
    if any(each.capacity != first.capacity for each in alternatives):
        names = ", ".join(filter(None, (each.name for each in alternatives)))
        raise NotExpressibleError(
            f"queue {ask.queue} of Kueue refuses firstAvailable, and {len(alternatives)} kinds of "
            f"devices need amounts of their own: {names}",
            "Request an amount instead of a percentage, or one product.",
            by_queue=True,
        )
    common = tuple(
        one for one in first.selectors if all(one in each.selectors for each in alternatives)
    )
    others = [tuple(s for s in each.selectors if s not in common) for each in alternatives]
    selectors = (*common, check_length(_express_either(others))) if all(others) else common
    message = (
        f"the order of {len(alternatives)} alternatives dropped, because {_refuses(ask.queue)}"
    )
    finding = make_finding(codes.PREFERENCE_LOST, ask, message)
    return [DeviceAlternative(selectors, first.capacity, first.name)], [finding]


def _express_either(alternatives: Sequence[Sequence[Expression]]) -> Expression:
    """Join alternatives, of each of which all expressions must be true."""
    vocabulary = alternatives[0][0].vocabulary
    joined = [join_expressions(each, vocabulary) for each in alternatives]
    text = " || ".join(each.text for each in joined)
    return Expression(text, AnyOf(tuple(each.selector for each in joined)), vocabulary)


def _refuses(queue: str) -> str:
    return f"queue {queue} of Kueue refuses firstAvailable"


def _check_fields(ask: Ask, target: DriverTarget, *, several: bool) -> None:
    """Raise NotExpressibleError if the API server drops fields that the request needs."""
    if several:
        target.require_field("firstAvailable")
    if several and ask.admin:
        raise NotExpressibleError(
            "a request with admin access cannot have several alternatives",
            "Remove the preferred devices or the admin access from the pod.",
        )
    if ask.admin:
        target.require_field("exactly.adminAccess")


def compose_request(ask: Ask, expanded: ExpandedPlan, count: int | None) -> UnnamedRequest:
    """Compose the request for a number of devices; None requests all devices."""
    if len(expanded.alternatives) == 1:
        exactly = _compose_subrequest(expanded.plan.class_, expanded.alternatives[0], count)
        if ask.admin:
            exactly["adminAccess"] = True
        body: dict[str, Value] = {"exactly": exactly}
    else:
        subs: list[Value] = [
            {"name": name, **_compose_subrequest(expanded.plan.class_, alternative, count)}
            for name, alternative in zip(
                _name_alternatives(expanded.alternatives), expanded.alternatives, strict=True
            )
        ]
        body = {"firstAvailable": subs}
    devices = MAX_RESULTS if count is None else count
    return _make_request(ask, expanded, body, devices)


def compose_counted_request(
    ask: Ask, expanded: ExpandedPlan, counts: Sequence[int]
) -> UnnamedRequest:
    """Compose a request for the first of several numbers of devices that can be allocated."""
    names = _name_alternatives(expanded.alternatives)
    prefixed = [
        f"{name}-" if alternative.name else ""
        for name, alternative in zip(names, expanded.alternatives, strict=True)
    ]
    subs: list[Value] = [
        {
            "name": f"{prefix}count-{count}",
            **_compose_subrequest(expanded.plan.class_, alternative, count),
        }
        for count in counts
        for prefix, alternative in zip(prefixed, expanded.alternatives, strict=True)
    ]
    body: dict[str, Value] = {"firstAvailable": subs[:MAX_ALTERNATIVES]}
    return _make_request(ask, expanded, body, max(counts))


def _make_request(
    ask: Ask, expanded: ExpandedPlan, body: Mapping[str, Value], devices: int
) -> UnnamedRequest:
    expressions = {
        each.text: each for alternative in expanded.alternatives for each in alternative.selectors
    }
    return UnnamedRequest(_name_request(ask), body, devices, ask.name, ask.users, expressions)


def _name_request(ask: Ask) -> str:
    """Name a request after the configured resource name, else after the kind of device."""
    return _shorten(ask.named.partition("/")[2]) or f"{ask.kind}"


def _shorten(text: str) -> str:
    return _NOT_LABEL.sub("-", text.lower()).strip("-")[:50].rstrip("-")


def _fit_preferences(
    ask: Ask, target: DriverTarget, room: int
) -> tuple[tuple[AskSelector, ...], tuple[Finding, ...]]:
    """Return the alternatives for which a request has room; drop and report preferred devices.

    The last alternative of preferred devices accepts any device, so it never gets lost.
    """
    *preferred, last = ask.alternatives or (_ANY,)
    if not preferred:
        return ask.alternatives, ()
    if target.facts and not target.facts.keeps_field("firstAvailable"):
        room, why = 0, f"this API server ({target.facts.cluster.version}) drops firstAvailable"
    elif ask.queue:
        room, why = 0, _refuses(ask.queue)
    else:
        why = f"a request has at most {MAX_ALTERNATIVES} alternatives"
    if len(preferred) < room:
        return ask.alternatives, ()
    kept = preferred[: max(room - 1, 0)]
    extra = len(preferred) - len(kept)
    message = f"{'1 preference' if extra == 1 else f'{extra} preferences'} dropped, because {why}"
    finding = make_finding(codes.PREFERENCE_LOST, ask, message)
    return (*kept, last) if kept else (), (finding,)


def _write_selectors(
    ask: Ask, plan: DevicePlan, vocabulary: DriverVocabulary, target: DriverTarget
) -> tuple[tuple[Expression, ...], list[Finding]]:
    """Write the selectors of every alternative; drop and report labels without an attribute."""
    written, dropped = list(plan.selectors), []
    for ask_selector in plan.ask_selectors:
        if labels := [label for label in _find_labels(ask_selector) if not label.attribute]:
            text = ", ".join("=".join((label.key, *label.values[:1])) for label in labels)
            dropped.append(
                make_finding(
                    codes.DEVICE_LABEL_DROPPED,
                    ask,
                    f"{text}: the label is not mapped to an attribute",
                )
            )
        else:
            named = add_published_names(ask_selector, target.products())
            written.append(express(named, vocabulary, target.types))
    if len(written) > MAX_SELECTORS - 2:
        written = [join_expressions(written, vocabulary)]
    return tuple(check_length(each) for each in written), dropped


def _find_labels(selector: AskSelector) -> Iterator[DeviceLabel]:
    if isinstance(selector, DeviceLabel):
        yield selector
    for name in ("operand", "operands"):
        inner = getattr(selector, name, ())
        for operand in inner if isinstance(inner, tuple) else (inner,):
            yield from _find_labels(operand)


def _product_alternatives(
    ask: Ask, plan: DevicePlan, vocabulary: DriverVocabulary, target: DriverTarget
) -> tuple[list[DeviceAlternative], list[Finding]]:
    """Convert percentages to amounts, with one alternative for each distinct amount."""
    percents = {name: each for name, each in plan.amounts.items() if isinstance(each, Percent)}
    fixed = {name: each for name, each in plan.amounts.items() if isinstance(each, str)}
    if not percents:
        return [DeviceAlternative((), fixed)], []
    shared: Sequence[Product] = _find_shared_products(plan, percents, vocabulary)
    if not target.has_room(ask):
        shared = of_several(shared)
    amounts: dict[tuple[str, ...], list[Product]] = {}
    for product, key in _list_amounts(shared, percents):
        amounts.setdefault(key, []).append(product)
    alternatives = [
        DeviceAlternative(
            (_select_products(products, shared, vocabulary),),
            fixed | dict(zip(sorted(percents), key, strict=True)),
            products[0].name,
        )
        for key, products in amounts.items()
    ]
    return _keep_most_common(
        ask,
        alternatives,
        [
            (not all(each.single for each in rows), sum(each.devices for each in rows))
            for rows in amounts.values()
        ],
    )


def _list_amounts(
    products: Sequence[Product], percents: Mapping[str, Percent]
) -> list[tuple[Product, tuple[str, ...]]]:
    """Return products with the requested amounts: those of several nodes first, small ones first.

    Raises NotExpressibleError if no product has as much.
    """
    names = sorted(percents)
    ordered = sorted(
        products, key=lambda row: (row.single, [capacity_value(row, name) for name in names])
    )
    listed: list[tuple[Product, tuple[str, ...]]] = []
    refusals: list[NotExpressibleError] = []
    for product in ordered:
        try:
            amounts = tuple(percent_amount(product, name, percents[name]) for name in names)
        except NotExpressibleError as refusal:
            refusals.append(refusal)
        else:
            listed.append((product, amounts))
    if not listed:
        raise refusals[0]
    return listed


def _find_shared_products(
    plan: DevicePlan, percents: Mapping[str, Percent], vocabulary: DriverVocabulary
) -> list[Product]:
    """Return the products that publish the capacities; raise NotExpressibleError without any.

    A node that publishes a product of others, with other amounts, decides nothing about theirs.
    """
    common = {each.name.replace(" ", "-") for each in plan.percent_of if not each.single}
    memory = _memory_name(vocabulary, plan.percent_of)
    products = [
        product
        for product in filter_products(plan.percent_of, plan.ask_selectors, memory)
        if product.name and percents.keys() <= product.capacity.keys()
        if not (product.single and product.name.replace(" ", "-") in common)
    ]
    if not products:
        raise NotExpressibleError(
            f"{_format_percents(percents)} requires a published product with shared "
            f"{' and '.join(percents)}",
            "Request an amount instead of a percentage.",
        )
    return products


def _format_percents(percents: Mapping[str, Percent]) -> str:
    return " and ".join(f"{each.value} percent of {name}" for name, each in percents.items())


def _select_products(
    products: Sequence[Product], published: Sequence[Product], vocabulary: DriverVocabulary
) -> Expression:
    """Select exactly these products, by memory as well if a name has several memory sizes."""
    names = sorted({each.name for each in products})
    by_name = express(ProductIs(tuple(names)), vocabulary)
    memory = _memory_name(vocabulary, published)
    sizes = {each.capacity[memory].value for each in published if each.name in names and memory}
    own = {each.capacity[memory].value for each in products if memory}
    if sizes == own:
        return by_name
    read = capacity_access(vocabulary.memory)
    sizes_of = " || ".join(
        f"{read}.compareTo(quantity({quote(size)})) == 0" for size in sorted(own)
    )
    exact = guard_capacity(vocabulary.memory, f"({sizes_of})")
    selector = AllOf((by_name.selector, RawCEL(exact)))
    return Expression(f"{by_name.text} && {exact}", selector, vocabulary)


def _memory_name(vocabulary: DriverVocabulary, products: Iterable[Product]) -> str:
    """Return the memory capacity that all products publish, with or without its domain."""
    names = [vocabulary.memory, vocabulary.memory.partition("/")[2]]
    rows = of_several(products)
    return next((name for name in names if all(name in each.capacity for each in rows)), "")


def _keep_most_common(
    ask: Ask, alternatives: list[DeviceAlternative], devices: list[tuple[bool, int]]
) -> tuple[list[DeviceAlternative], list[Finding]]:
    """Keep the alternatives that most devices satisfy, in their order.

    Those of several nodes come before those of one, whatever number of devices it has.
    """
    if len(alternatives) <= MAX_ALTERNATIVES:
        return alternatives, []
    ranked = sorted(range(len(alternatives)), key=lambda i: devices[i], reverse=True)
    kept = sorted(ranked[:MAX_ALTERNATIVES])
    names = ", ".join(alternatives[i].name for i in sorted(ranked[MAX_ALTERNATIVES:])[:3])
    extra = len(alternatives) - MAX_ALTERNATIVES
    amounts = "1 amount" if extra == 1 else f"{extra} amounts"
    message = f"{amounts} {_fit(extra)} in the request, for example of {names}"
    return [alternatives[i] for i in kept], [make_finding(codes.PRODUCTS_LEFT_OUT, ask, message)]


def _fit(count: int) -> str:
    return "does not fit" if count == 1 else "do not fit"


def _compose_subrequest(
    class_: str, alternative: DeviceAlternative, count: int | None
) -> dict[str, Value]:
    subrequest: dict[str, Value] = {"deviceClassName": class_}
    if alternative.selectors:
        subrequest["selectors"] = [
            {"cel": {"expression": each.text}} for each in alternative.selectors
        ]
    subrequest["allocationMode"] = "All" if count is None else "ExactCount"
    if count is not None:
        subrequest["count"] = count
    if alternative.capacity:
        subrequest["capacity"] = {"requests": dict(sorted(alternative.capacity.items()))}
    if alternative.derived:
        subrequest["derivedAttributes"] = [
            {"name": name, "expression": expression}
            for name, expression in alternative.derived.items()
        ]
    return subrequest


def _name_alternatives(alternatives: Sequence[DeviceAlternative]) -> list[str]:
    """Name subrequests after their products, each name once."""
    names: list[str] = []
    for number, alternative in enumerate(alternatives):
        name = _shorten(alternative.name) or f"way-{number}"
        names.append(name if name not in names else f"{name}-{number}")
    return names
