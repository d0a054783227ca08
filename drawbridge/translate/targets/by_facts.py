"""Asks whether any node can satisfy a claim, by the facts of the cluster alone: in microseconds.

A row of the facts stands for all devices of a product. What the row does not tell, such as the
UUID of a device, counts as satisfied. A claim is impossible only if every row of the class refuses
it, or if no node has enough devices of the rows that do not. The selectors are read as the
conditions that they were written from, so that admission needs no CEL.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from drawbridge.config.model import Policy
from drawbridge.config.policy import apply_policies, apply_to_proved, settle_error
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.attributes import split_name
from drawbridge.dra.claim import EXACT_COUNT, Choice, ClaimSpec, request_choices
from drawbridge.dra.claim_codes import (
    CAPACITY_NEVER_FITS,
    CLASS_WITHOUT_DEVICES,
    COUNT_NEVER_FITS,
    DEVICE_NEVER_MATCHES,
)
from drawbridge.dra.counted import list_some
from drawbridge.dra.families import BY_DRIVER, Family
from drawbridge.dra.guards import without_guards
from drawbridge.dra.quantity import Quantity, parse
from drawbridge.facts.model import Facts, Product
from drawbridge.finding import Code, Finding, Severity
from drawbridge.translate.legacy.selectors import Memory
from drawbridge.translate.targets.products import KnownProperties, capacity_value, fits
from drawbridge.translate.targets.vocabulary import (
    DriverVocabulary,
    Expression,
    format_bytes,
    list_terms,
)

_UNKNOWN_FAMILY: Final = Family("", "", (), type="type", name="productName", profile="profile")
_OPEN: Final = "other devices can be added to the cluster"
_MAX_TEXT: Final = 160
_MAX_NAMES: Final = 3
_EARLIER: Final = "devices that would satisfy it were published a short time ago"
# The work for one pod stays small; beyond, the request may be satisfied.
MAX_ROWS: Final = 128


class FactsContext(msgspec.Struct, frozen=True):
    """The facts, and the settings of the administrator.

    `older` are facts that were current a short time ago: a driver that restarts publishes again
    what they have. `expressions` tells what the selectors of the claim mean.
    """

    facts: Facts
    expressions: Mapping[str, Expression] = {}
    older: Sequence[Facts] = ()
    families: Mapping[str, Family] = msgspec.field(default_factory=lambda: BY_DRIVER)
    policies: Mapping[FindingCode, Policy] = {}


class _Miss(NamedTuple):
    """Why no node can satisfy a request, and the classes of which this is known.

    `doubt` says why that is not certain.
    """

    finding: Finding
    classes: frozenset[str]
    doubt: str = ""


def judge_by_facts(spec: ClaimSpec, context: FactsContext) -> tuple[Finding, ...]:
    """Return findings about the requests that no node can satisfy."""
    misses = _judge_requests(spec, context.facts, context)
    for older in context.older if misses else ():
        earlier = _judge_requests(spec, older, context)
        misses = {
            number: miss if number in earlier else miss._replace(doubt=_EARLIER)
            for number, miss in misses.items()
        }
    return tuple(finding for each in misses.values() for finding in _settle(each, context))


def _settle(miss: _Miss, context: FactsContext) -> Iterator[Finding]:
    if miss.finding.severity is Severity.ERROR:
        doubt = miss.doubt or _find_doubt(miss, context.facts)
        settled = settle_error(miss.finding, doubt, miss.classes)
        yield from apply_to_proved(settled, context.policies)
    elif not miss.doubt:  # a driver that restarts is no reason for a warning
        yield from apply_policies((miss.finding,), context.policies)


def _find_doubt(miss: _Miss, facts: Facts) -> str:
    """Return why devices of another kind may come; empty if none can."""
    for name in sorted(miss.classes):
        class_facts = facts.find_class(name)
        if class_facts is None:
            return f"nothing is known about the fleet of class {name}"
        if not class_facts.closed:
            return _OPEN
    return ""


def _judge_requests(spec: ClaimSpec, facts: Facts, context: FactsContext) -> dict[int, _Miss]:
    """Return a finding for each request of which no alternative can be satisfied, by number."""
    if "products" in facts.omitted or "classes" in facts.omitted:
        return {}
    by_number = {}
    for number, request in enumerate(spec.devices.requests):
        misses = [_judge_choice(each, facts, context) for each in request_choices(request)]
        if misses and None not in misses:
            reasons = [each for each in misses if each is not None]
            classes = frozenset(each for one in reasons for each in one.classes)
            by_number[number] = reasons[0]._replace(classes=classes)
    return by_number


def _judge_choice(choice: Choice, facts: Facts, context: FactsContext) -> _Miss | None:
    """Return why no node can satisfy one alternative, or None if one may."""
    wanted = choice.requested
    name = wanted.device_class_name
    rows = [each for each in facts.products if name in each.classes]
    class_facts = facts.find_class(name)
    if class_facts is not None and not class_facts.devices and not rows:
        message = f"class {name} selects none of the published devices"
        return _report(CLASS_WITHOUT_DEVICES, name, message)
    if not rows or len(rows) > MAX_ROWS or class_facts is None:
        return None
    terms = [
        term
        for selector in wanted.selectors
        if selector.cel is not None
        for written in [context.expressions.get(selector.cel.expression)]
        if written is not None
        for term in list_terms(written)
    ]
    failed = {number: _failed_terms(each, terms, context) for number, each in enumerate(rows)}
    matching = [each for number, each in enumerate(rows) if not failed[number]]
    if not matching:
        nearest = min(failed.values(), key=len)[0]
        return _report(DEVICE_NEVER_MATCHES, name, _describe_term(nearest, name, rows))
    amounts = wanted.capacity.requests if wanted.capacity else {}
    fitting = [each for each in matching if _has_room(each, amounts)]
    if not fitting:
        return _report(CAPACITY_NEVER_FITS, name, _describe_room(name, amounts, matching))
    most = _most_on_one_node(fitting, facts, context.families)
    is_counted = wanted.allocation_mode == EXACT_COUNT and not any(x.shared for x in fitting)
    if not is_counted or wanted.count <= most:
        return None
    message = f"{wanted.count} {name} devices requested, but no node has more than {most}"
    return _report(COUNT_NEVER_FITS, name, message)


def _most_on_one_node(rows: Sequence[Product], facts: Facts, families: Mapping[str, Family]) -> int:
    """Return how many devices of these rows a node has at most.

    Rows can be of different nodes, and a shape has all whole GPUs of a driver on one node.
    """
    by_driver: dict[str, list[Product]] = {}
    for row in rows:
        by_driver.setdefault(row.driver, []).append(row)
    most = 0
    for driver, listed in by_driver.items():
        total = sum(each.most for each in listed)
        family = families.get(driver, _UNKNOWN_FAMILY)
        shapes = [each.gpus for each in facts.shapes if each.gpu == driver]
        whole = family.whole_types
        is_whole = not whole or all(each.type in whole for each in listed)
        is_known = shapes and is_whole and "shapes" not in facts.omitted
        most += min(total, max(shapes)) if is_known else total
    return most


def _report(code: Code, name: str, message: str) -> _Miss:
    return _Miss(code.at("", message), frozenset((name,)))


def _failed_terms(
    row: Product, terms: Sequence[Expression], context: FactsContext
) -> list[Expression]:
    """Return the terms that no device of a row satisfies."""
    texts = _read_texts(row, context) if terms else {}
    return [
        each
        for each in terms
        if fits(each.selector, _known_properties(row, texts, each.vocabulary)) is False
    ]


def _read_texts(row: Product, context: FactsContext) -> Mapping[str, str]:
    """Return the attributes that all devices of a row have, by their full names."""
    family = context.families.get(row.driver, _UNKNOWN_FAMILY)
    texts = {
        family.name: row.name,
        family.profile: row.profile,
        family.architecture: row.architecture,
        family.type: "" if family.required_attribute else row.type,
    }
    driver = context.facts.find_driver(row.driver)
    types = driver.attributes if driver else {}
    full = {_qualify(name, row.driver): text for name, text in texts.items() if name and text}
    return {name: text for name, text in full.items() if types.get(name) == "string"}


def _known_properties(
    row: Product, texts: Mapping[str, str], vocabulary: DriverVocabulary
) -> KnownProperties:
    """Return what a row tells about its devices, in the words of a driver."""
    memory = _find_memory(row, vocabulary)
    own = {name.removeprefix(f"{vocabulary.domain}/"): text for name, text in texts.items()}
    return KnownProperties(
        texts.get(vocabulary.product),
        texts.get(vocabulary.architecture),
        texts.get(vocabulary.profile),
        capacity_value(row, memory) if memory else None,
        {**own, **texts},
    )


def _find_memory(row: Product, vocabulary: DriverVocabulary) -> str:
    """Return the capacity of a row that a driver calls memory; empty without one."""
    names = (key for key in row.capacity if _qualify(key, row.driver) == vocabulary.memory)
    return next(names, "")


def _has_room(row: Product, amounts: Mapping[str, Quantity]) -> bool:
    """Whether a device of a row has the requested amounts. Unlisted capacities count as enough."""
    listed = {_qualify(name, row.driver): each for name, each in row.capacity.items()}
    return all(
        found is None or parse(found.value) >= amount
        for name, amount in amounts.items()
        for found in [listed.get(_qualify(name, row.driver))]
    )


def _describe_term(term: Expression, name: str, rows: Sequence[Product]) -> str:
    """Describe the nearest miss: the term, and what is published."""
    if isinstance(term.selector, Memory) and term.selector.at_least is not None:
        keys = [(row, _find_memory(row, term.vocabulary)) for row in rows]
        most, key = max((parse(row.capacity[key].value), key) for row, key in keys if key)
        asked = format_bytes(term.selector.at_least)
        return f"the largest {name} device has {most} of {key}, {asked} requested"
    text = without_guards(term.text)
    text = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
    products = sorted({row.name or row.profile for row in rows} - {""})
    named = list_some(products, _MAX_NAMES, "product")
    listed = f": published are {named}" if products else ""
    return f"no {name} device satisfies {text}{listed}"


def _describe_room(name: str, amounts: Mapping[str, Quantity], rows: Sequence[Product]) -> str:
    for key, amount in amounts.items():
        values = [parse(row.capacity[key].value) for row in rows if key in row.capacity]
        if values and max(values) < amount:
            return f"the largest {name} device has {max(values)} of {key}, {amount} requested"
    listed = ", ".join(f"{amount} of {key}" for key, amount in amounts.items())
    return f"no {name} device has {listed}"


def _qualify(name: str, driver: str) -> str:
    return "/".join(split_name(name, driver))
