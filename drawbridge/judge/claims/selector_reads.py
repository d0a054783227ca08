"""Checks what the selectors of claims read: names that no device has, and values that fail.

The scheduler aborts a pod when a selector fails on a device that it looks at. Whether it gets there
depends on the order of devices, so a failure on any device of the class is a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from drawbridge.cel.dra import find_reads
from drawbridge.cel.meter import MESSAGE
from drawbridge.dra.attributes import group_by_domain
from drawbridge.dra.counted import count_noun
from drawbridge.dra.device import Device
from drawbridge.dra.nodes import Node
from drawbridge.dra.similar_names import suggest
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.proof import UnreadableClaimError, read_expression, reads_of_claims
from drawbridge.judge.slices.codes import READ_NOWHERE
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.solver.codes import SELECTOR_TOO_EXPENSIVE
from drawbridge.solver.expressions import EvaluationFailure

# The nodes differ in the attributes that are read. Of a nearly unique one, some are enough.
MAX_NODES: Final = 128
MAX_DEVICES: Final = 1024
MAX_GUARDED: Final = 160
_KINDS: Final = {"attributes": "attribute", "capacity": "capacity"}
_PREFIX: Final = "CEL runtime error: "


class _Selectors(NamedTuple):
    """The selectors of one alternative of a request, and where they are written."""

    class_name: str
    texts: tuple[str, ...]
    object: str
    path: str

    def path_of(self, number: int) -> str:
        return f"{self.path}.selectors[{number}].cel.expression"


class _Failure(NamedTuple):
    """The first device that a selector fails on, and the number of all of them."""

    of_class: bool
    number: int
    driver: str
    device: Device
    name: str
    message: str
    devices: int


def check_selector_reads(subject: Subject, context: JudgeContext) -> Iterator[Finding]:
    """Report names in selectors that no device has, and selectors that fail on a device."""
    if not context.world.inventory.slices:
        return
    for judged in subject.claims:
        try:
            # The same nodes as in the questions about devices, so they are grouped once.
            reads = reads_of_claims((judged.claim,), context)
            nodes = context.index.representatives(reads)
        except UnreadableClaimError:
            nodes = ()  # another question reports it
        for selector in _find_selectors(judged):
            yield from _check_names(selector, context)
            yield from _check_failures(selector, nodes[:MAX_NODES], context)


def _find_selectors(judged: JudgedClaim) -> Iterator[_Selectors]:
    for path, choice in judged.list_choices():
        wanted = choice.requested
        texts = tuple(each.cel.expression for each in wanted.selectors if each.cel is not None)
        yield _Selectors(wanted.device_class_name, texts, judged.object, path)


def _check_names(selectors: _Selectors, context: JudgeContext) -> Iterator[Finding]:
    for number, text in enumerate(selectors.texts):
        try:
            reads = read_expression(text, context)
        except UnreadableClaimError:
            continue
        for access in reads.accesses:
            if len(access.path) != 3:
                continue
            kind, domain, identifier = access.path
            index, above = context.index, f"{domain}/"
            published = index.capacities if kind == "capacity" else index.attributes
            if above + identifier in published:
                continue
            of_domain = [n.removeprefix(above) for n in published if n.startswith(above)]
            # A guarded read may be intended for the devices of a driver that is not installed.
            if access.guarded and not of_domain:
                continue
            what = f"{_KINDS[kind]} {domain}/{identifier}"
            message = f"reads {what}, which no device publishes{suggest(identifier, of_domain)}"
            yield READ_NOWHERE.at(selectors.path_of(number), message, object=selectors.object)


def _check_failures(
    selectors: _Selectors, nodes: Sequence[Node], context: JudgeContext
) -> Iterator[Finding]:
    offered = context.world.classes.get(selectors.class_name)
    if offered is None:
        return
    own = tuple(s.cel.expression for s in offered.spec.selectors if s.cel is not None)
    texts = selectors.texts
    failures = context.index.recall(
        (_Failure, own, texts), lambda: tuple(_find_failures(own, texts, nodes, context))
    )
    for failure in failures:
        yield _report(failure, selectors, context)


def _find_failures(
    own: tuple[str, ...], texts: tuple[str, ...], nodes: Sequence[Node], context: JudgeContext
) -> Iterator[_Failure]:
    """Evaluate the selectors on each device in order, up to the first that is not true."""
    failures: dict[int, _Failure] = {}
    selectors = (*own, *texts)
    expressions = context.caches.proofs.expressions
    for driver, pool, device in _different_devices(nodes, context):
        for number, text in enumerate(selectors):
            outcome = expressions.selects(text, driver, device)
            if isinstance(outcome, EvaluationFailure):
                of_class = number < len(own)
                local = number if of_class else number - len(own)
                first = failures.get(number) or _Failure(
                    of_class, local, driver, device, f"{driver}/{pool}/{device.name}",
                    outcome.removeprefix(_PREFIX), 0,
                )  # fmt: skip
                failures[number] = first._replace(devices=first.devices + 1)
            if outcome is not True:
                break
    yield from (failures[number] for number in sorted(failures))


def _different_devices(
    nodes: Sequence[Node], context: JudgeContext
) -> Iterator[tuple[str, str, Device]]:
    """Yield the usable devices of nodes with their driver and pool, up to a number of them."""
    slices = context.index.usable_slices(nodes)
    devices = ((each.driver, each.pool, one) for each in slices for one in each.devices)
    return islice(devices, MAX_DEVICES)


def _report(failure: _Failure, selectors: _Selectors, context: JudgeContext) -> Finding:
    others = count_noun(failure.devices - 1, "more device")
    more = f" and {others}" if failure.devices > 1 else ""
    if failure.message == MESSAGE:
        at = (
            f"{selectors.path}.deviceClassName"
            if failure.of_class
            else selectors.path_of(failure.number)
        )
        where = f"on device {failure.name}{more}: {MESSAGE}"
        return SELECTOR_TOO_EXPENSIVE.at(at, where, object=selectors.object)
    if failure.of_class:
        message = f"a selector of class {selectors.class_name} fails on device {failure.name}{more}"
        at = f"{selectors.path}.deviceClassName"
        return codes.SELECTOR_MAY_FAIL.at(
            at, f"{message}: {failure.message}", object=selectors.object
        )
    text, at = selectors.texts[failure.number], selectors.path_of(failure.number)
    where = f"device {failure.name}{more} of class {selectors.class_name}"
    missing = _find_missing(text, failure, context)
    if not missing or not failure.message.startswith("no such key"):
        message = f"fails on {where}: {failure.message}"
        return codes.SELECTOR_MAY_FAIL.at(at, message, object=selectors.object)
    names = " and ".join(f"{_KINDS[kind]} {domain}/{name}" for kind, domain, name in missing)
    message = f"reads {names}, which {where} {'do' if more else 'does'} not have"
    remedy = guard_reads(text, missing)
    return codes.READ_UNGUARDED.at(at, message, object=selectors.object, remedy=remedy)


def _find_missing(
    text: str, failure: _Failure, context: JudgeContext
) -> tuple[tuple[str, str, str], ...]:
    """Return what an expression reads unguarded and the device does not have."""
    published: dict[str, Mapping[str, Mapping[str, object]]] = {
        "attributes": group_by_domain(failure.device.attributes, failure.driver),
        "capacity": group_by_domain(failure.device.capacity, failure.driver),
    }
    required = find_reads(context.selectors.stored.compile(text)).required()
    named = ((kind, domain, name) for kind, domain, name in sorted(required))
    return tuple(
        (kind, domain, name)
        for kind, domain, name in named
        if name not in published[kind].get(domain, {})
    )


def guard_reads(text: str, missing: Sequence[tuple[str, str, str]]) -> str:
    """Return how to guard reads: the whole expression, if its meaning stays the same."""
    guard = " && ".join(f'has(device.{kind}["{domain}"].{name})' for kind, domain, name in missing)
    if "||" in text or "?" in text or len(text) > MAX_GUARDED:
        return f"Write {guard} && before the part that reads it."
    return f"Guard it: {guard} && {text.strip()}"
