"""Judges a claim by the facts of the cluster alone, for admission of pods: in microseconds.

A row of the facts stands for all devices of a product. What the row does not tell, such as the
UUID of a device, counts as satisfied. A claim is impossible only if every row of the class refuses
it, or if no node has enough devices of the rows that do not.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.cel import CompileError
from drawbridge.cel.dra import Selectors, find_reads
from drawbridge.config.model import Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.attributes import split_name
from drawbridge.dra.claim import EXACT_COUNT, Choice, ClaimSpec, request_choices
from drawbridge.dra.counted import list_some
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import Quantity, parse
from drawbridge.facts.families import BY_DRIVER, Family
from drawbridge.facts.fleet import FleetVerdict
from drawbridge.facts.model import Facts, Product
from drawbridge.finding import Code, Finding, Severity
from drawbridge.judge.claims import codes
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.judge.context import JudgeCaches
from drawbridge.judge.devices.never_matches import at_least
from drawbridge.judge.severity import DeviceFinding, settle_all
from drawbridge.judge.subject import Subject

_UNKNOWN_FAMILY: Final = Family("", "", (), type="type", name="productName", profile="profile")
_OPEN: Final = "other devices can be added to the cluster"
_MAX_TEXT: Final = 160
_MAX_NAMES: Final = 3
_EARLIER: Final = "devices that would satisfy it were published a short time ago"
# The work for one pod stays small; beyond, the request may be satisfied.
MAX_ROWS: Final = 128
_Name = tuple[str, str]


class FactsContext(msgspec.Struct, frozen=True):
    """The facts, and the settings of the administrator.

    Implements `drawbridge.judge.severity.Settled`.
    `older` are facts that were current a short time ago: a driver that restarts publishes again
    what they have.
    """

    facts: Facts
    caches: JudgeCaches
    older: Sequence[Facts] = ()
    families: Mapping[str, Family] = msgspec.field(default_factory=lambda: BY_DRIVER)
    policies: Mapping[FindingCode, Policy] = {}
    doubts: Sequence[str] = ()

    @property
    def selectors(self) -> Selectors:
        """The compiled selectors of the cluster."""
        return self.caches.selectors

    @property
    def fleet(self) -> Mapping[str, FleetVerdict]:
        """Whether the fleet of each class is closed."""
        return {
            device_class.name: FleetVerdict(
                device_class.closed, "" if device_class.closed else _OPEN
            )
            for device_class in self.facts.classes
        }


def judge_by_facts(spec: ClaimSpec, about: Subject, context: FactsContext) -> tuple[Finding, ...]:
    """Return findings about the requests that no node can satisfy."""
    findings = _judge_requests(spec, context.facts, context)
    if not findings:
        return ()
    for older in context.older:
        earlier = _judge_requests(spec, older, context)
        findings = {
            number: finding if number in earlier else replace(finding, unproved=_EARLIER)
            for number, finding in findings.items()
        }
    # A driver that restarts is no reason for a warning; an error becomes one, with this reason.
    told = [
        each
        for each in findings.values()
        if each.finding.severity is Severity.ERROR or not each.unproved
    ]
    return tuple(settle_all(told, about, context))


def _judge_requests(
    spec: ClaimSpec, facts: Facts, context: FactsContext
) -> dict[int, DeviceFinding]:
    """Return a finding for each request of which no alternative can be satisfied, by number."""
    if "products" in facts.omitted or "classes" in facts.omitted:
        return {}
    by_number = {}
    for number, request in enumerate(spec.devices.requests):
        misses = [_judge_choice(each, facts, context) for each in request_choices(request)]
        if misses and None not in misses:
            findings = [each for each in misses if each is not None]
            classes = frozenset(each for one in findings for each in one.classes)
            by_number[number] = replace(findings[0], classes=classes)
    return by_number


def _judge_choice(choice: Choice, facts: Facts, context: FactsContext) -> DeviceFinding | None:
    """Return why no node can satisfy one alternative, or None if one may."""
    wanted = choice.requested
    name = wanted.device_class_name
    rows = [each for each in facts.products if name in each.classes]
    class_facts = facts.find_class(name)
    if class_facts is not None and not class_facts.devices and not rows:
        message = f"class {name} selects none of the published devices"
        return _report(codes.CLASS_WITHOUT_DEVICES, name, message)
    if not rows or len(rows) > MAX_ROWS or class_facts is None:
        return None
    terms = [
        text
        for selector in wanted.selectors
        if selector.cel is not None
        for text in split_terms(selector.cel.expression, context.selectors.stored)
    ]
    failed = {number: _failed_terms(each, terms, context) for number, each in enumerate(rows)}
    matching = [each for number, each in enumerate(rows) if not failed[number]]
    if not matching:
        nearest = min(failed.values(), key=len)[0]
        return _report(codes.DEVICE_NEVER_MATCHES, name, _describe_term(nearest, name, rows))
    amounts = wanted.capacity.requests if wanted.capacity else {}
    fitting = [each for each in matching if _has_room(each, amounts)]
    if not fitting:
        return _report(codes.CAPACITY_NEVER_FITS, name, _describe_room(name, amounts, matching))
    most = _most_on_one_node(fitting, facts, context.families)
    is_counted = wanted.allocation_mode == EXACT_COUNT and not any(x.shared for x in fitting)
    if not is_counted or wanted.count <= most:
        return None
    message = f"{wanted.count} {name} devices requested, but no node has more than {most}"
    return _report(codes.COUNT_NEVER_FITS, name, message)


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


def _report(code: Code, name: str, message: str) -> DeviceFinding:
    return DeviceFinding(code.at("", message), frozenset((name,)))


def _failed_terms(row: Product, terms: Sequence[str], context: FactsContext) -> list[str]:
    """Return the terms that no device of a row satisfies."""
    device, names = _make_device(row, context)
    return [each for each in terms if _is_refused(each, row.driver, device, names, context)]


def _make_device(row: Product, context: FactsContext) -> tuple[Device, frozenset[_Name]]:
    """Return a device with what a row tells of all its devices, and the names it tells."""
    family = context.families.get(row.driver, _UNKNOWN_FAMILY)
    texts = {
        family.name: row.name,
        family.profile: row.profile,
        family.architecture: row.architecture,
        family.type: "" if family.required_attribute else row.type,
    }
    driver = context.facts.find_driver(row.driver)
    types = driver.attributes if driver else {}
    attributes = {
        name: Attribute(string=text)
        for name, text in texts.items()
        if name and text and types.get(_qualify(name, row.driver)) == "string"
    }
    capacity = {name: Capacity(parse(each.value)) for name, each in row.capacity.items()}
    names = {("attributes", _qualify(name, row.driver)) for name in attributes}
    names |= {("capacity", _qualify(name, row.driver)) for name in capacity}
    return Device("device", attributes, capacity), frozenset(names)


def _is_refused(
    term: str, driver: str, device: Device, names: frozenset[_Name], context: FactsContext
) -> bool:
    """Whether a term is false, as far as it reads only what is known of a device."""
    try:
        reads = find_reads(context.selectors.stored.compile(term))
    except CompileError:
        return False
    read = {("attributes", "/".join(each)) for each in reads.attributes()}
    read |= {("capacity", "/".join(each)) for each in reads.capacities()}
    paths = {each.path[0] for each in reads.accesses if each.path}
    if reads.reads_whole_map() or not read <= names or not paths <= {"attributes", "capacity"}:
        return False
    return context.selectors.evaluate(term, driver, device).result is False


def _has_room(row: Product, amounts: Mapping[str, Quantity]) -> bool:
    """Whether a device of a row has the requested amounts. Unlisted capacities count as enough."""
    listed = {_qualify(name, row.driver): each for name, each in row.capacity.items()}
    return all(
        found is None or parse(found.value) >= amount
        for name, amount in amounts.items()
        for found in [listed.get(_qualify(name, row.driver))]
    )


def _describe_term(term: str, name: str, rows: Sequence[Product]) -> str:
    """Describe the nearest miss: the term, and what is published."""
    text = term if len(term) <= _MAX_TEXT else f"{term[:_MAX_TEXT]}..."
    asked = at_least(term)
    read = [key for key in dict.fromkeys(k for row in rows for k in row.capacity) if key in term]
    if asked and len(read) == 1:
        most = max(parse(row.capacity[read[0]].value) for row in rows if read[0] in row.capacity)
        return f"the largest {name} device has {most} of {read[0]}, {asked} requested"
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
