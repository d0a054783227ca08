"""Asks whether any device of a class satisfies the selectors of a request.

The answer names the nearest miss: the part of the selectors that the best devices do not satisfy,
and the values that are published for it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from drawbridge.dra.attributes import attribute_value, split_name
from drawbridge.dra.claim_codes import CLASS_WITHOUT_DEVICES, DEVICE_NEVER_MATCHES
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.class_devices import RequestDevices, RequestPlace
from drawbridge.judge.devices.proof import UnreadableClaimError, read_expression
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.demand import Option

# The nearest miss is searched among so many devices, with so many terms.
MAX_DEVICES, MAX_TERMS = 2000, 32
MAX_VALUES = 5
MAX_LENGTH = 200
_AT_LEAST = re.compile(
    r"(?:compareTo\(\s*quantity\(\s*[\"']([^\"']+)[\"']\s*\)\s*\)\s*>=?\s*0"
    r"|isGreaterThan\(\s*quantity\(\s*[\"']([^\"']+)[\"']\s*\)\s*\))\s*\)*$"
)


class SelectorTerm(NamedTuple):
    """A part of a selector: all parts must be true."""

    selector: int
    text: str

    @property
    def shown(self) -> str:
        """The text, as much of it as a message has room for."""
        return self.text if len(self.text) <= MAX_LENGTH else f"{self.text[:MAX_LENGTH]}..."


def explain_selectors(
    devices: RequestDevices, place: RequestPlace, context: JudgeContext
) -> Finding | None:
    """Return a finding if no device of the class matches, with the nearest miss."""
    name = devices.class_name
    if not devices.of_class:
        path = f"{place.path}.deviceClassName"
        message = f"class {name} selects none of the published devices"
        return CLASS_WITHOUT_DEVICES.at(path, message, object=place.object)
    if any(devices.matching):
        return None
    term, near = find_nearest_miss(devices.option, devices.of_class, context)
    published = _describe_published(term.text, near, name, context)
    message = f"no {name} device satisfies {term.shown}{published}"
    path = f"{place.path}.selectors[{term.selector}].cel.expression"
    return DEVICE_NEVER_MATCHES.at(path, message, object=place.object)


def find_nearest_miss(
    option: Option, devices: Sequence[Candidate], context: JudgeContext
) -> tuple[SelectorTerm, Sequence[Candidate]]:
    """Return the first term that the best of devices fail, and these devices."""
    selectors = option.request_filter.selectors[1]
    terms = [
        SelectorTerm(number, text)
        for number, source in enumerate(selectors)
        for text in split_terms(source, context.selectors.stored)
    ][:MAX_TERMS]
    expressions = context.caches.proofs.expressions
    failed: dict[tuple[int, ...], list[Candidate]] = {}
    for device in devices[:MAX_DEVICES]:
        misses = tuple(
            number
            for number, term in enumerate(terms)
            if expressions.selects(term.text, device.pool.driver, device.device) is not True
        )
        failed.setdefault(misses, []).append(device)
    # Of equally near devices, those that fail the last term: its value is the most special one.
    nearest = min(failed, key=lambda misses: (len(misses), [-number for number in misses]))
    if not nearest:  # the terms that are not compared fail
        return SelectorTerm(len(selectors) - 1, selectors[-1]), failed[nearest]
    # What other near devices publish for the same term belongs to the answer.
    near = [each for misses, some in failed.items() if misses == nearest[:1] for each in some]
    return terms[nearest[0]], near or failed[nearest]


def _describe_published(
    term: str, near: Sequence[Candidate], name: str, context: JudgeContext
) -> str:
    """Return what the near devices publish of what a term reads."""
    try:
        reads = read_expression(term, context)
    except UnreadableClaimError:
        return ""
    parts = [_describe_attribute("/".join(each), near) for each in sorted(reads.attributes())]
    parts += [
        _describe_capacity("/".join(capacity), term, near, name)
        for capacity in sorted(reads.capacities())
    ]
    return f": {'; '.join(parts)}" if parts else ""


def _describe_attribute(full: str, near: Iterable[Candidate]) -> str:
    values: set[str] = set()
    for device in near:
        for name, attribute in device.device.attributes.items():
            if "/".join(split_name(name, device.pool.driver)) == full:
                values.add(_plain(attribute_value(attribute)))
    return f"published {full}: {_list(sorted(values))}" if values else f"no device publishes {full}"


def _describe_capacity(full: str, term: str, near: Iterable[Candidate], about: str) -> str:
    amounts = [
        capacity.value
        for device in near
        for name, capacity in device.device.capacity.items()
        if "/".join(split_name(name, device.pool.driver)) == full
    ]
    if not amounts:
        return f"no device publishes {full}"
    short = full.partition("/")[2]
    wanted = at_least(term)
    if wanted:
        return f"the largest {about} device has {max(amounts)} of {short}, {wanted} requested"
    return f"published {short}: {_list(dict.fromkeys(map(str, sorted(amounts))))}"


def at_least(term: str) -> str:
    """Return the quantity that a term requires at least; empty if it is another comparison."""
    asked = _AT_LEAST.search(term)
    return "" if asked is None else asked[1] or asked[2]


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value}"


def _list(values: Iterable[str]) -> str:
    return list_some(list(values), MAX_VALUES, "value")
