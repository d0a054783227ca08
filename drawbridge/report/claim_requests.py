"""Describes the requests and constraints of a claim in words.

The only renderer of claims: admission warnings, `drawbridge explain` and the demo use it. Takes the
plain object of a claim, or of the claim inside a template, and skips malformed parts of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.dra.guards import without_guards
from drawbridge.dra.quantity import format_amount
from drawbridge.dra.rules import Rules, read_rules
from drawbridge.names import RULES_ANNOTATION

# Describes the CEL selectors of a request, or returns "".
SelectorText: TypeAlias = Callable[[Sequence[str]], str]

_MAX_EXPRESSION: Final = 64
# The fields in which alternatives differ that are for different numbers of devices.
_NUMBERED: Final = ("name", "count")
# What a person does not need of an expression: the guards, and the domains of names.
_ABBREVIATIONS: Final = (
    (re.compile(r'"\w+" in device\.attributes\["[^"]+"\] && '), ""),
    (re.compile(r'device\.(?:attributes|capacity)\["[^"]+"\]\.'), ""),
    (re.compile(r'device\.(attributes|capacity)\["[^"]+"\]'), r"\1"),
    (re.compile(r"device\."), ""),
)


def full_selectors(expressions: Sequence[str]) -> str:
    """Show the expressions as they are, without the guards that Drawbridge writes."""
    return f"where {' && '.join(map(without_guards, expressions))}" if expressions else ""


def short_selectors(expressions: Sequence[str]) -> str:
    """Show the expressions without guards and domains, truncated."""
    shown = [short for short in map(_abbreviate, expressions) if short]
    return f"where {' and '.join(shown)}" if shown else ""


def count_selectors(expressions: Sequence[str]) -> str:
    """Show the number of expressions."""
    count = len(expressions)
    return f"matching {count_noun(count, 'selector')}" if count else ""


def describe_claim(claim: Value, selectors: SelectorText = full_selectors) -> Iterator[str]:
    """Yield a line for each group of equal requests, and one for each kind of constraint."""
    requests = _requests(claim)
    names_by_text: dict[str, list[str]] = {}
    for request in requests:
        text = _describe_request(request, selectors)
        names_by_text.setdefault(text, []).append(f"{request.get('name')}")
    for text, names in names_by_text.items():
        prefix = "each " if len(names) > 1 else ""
        yield text if len(requests) == 1 else f"{', '.join(names)}: {prefix}{text}"
    members: dict[str, list[str]] = {}
    for rule, names in (*_constraints(claim), *_rules(claim)):
        members.setdefault(rule, []).append(" and ".join(names) or "all requests")
    for rule, groups in members.items():
        yield f"{rule}: {'; '.join(groups)}"


def summarize_claim(claim: Value) -> str:
    """Describe a claim on one line, without the names of its requests and its expressions."""
    requests = " and ".join(_describe_request(each, count_selectors) for each in _requests(claim))
    stated = (*_constraints(claim), *_rules(claim))
    rules = " and ".join(dict.fromkeys(rule for rule, _ in stated))
    return f"{requests}, {rules}" if rules else requests


def read_amounts(value: Value) -> dict[str, str]:
    """Return a map of amounts as texts."""
    return {name: format_amount(amount) for name, amount in as_mapping(value).items()}


def _requests(claim: Value) -> list[Mapping[str, Value]]:
    requests = as_list(get_value(claim, ("spec", "devices", "requests")))
    return [as_mapping(each) for each in requests]


def _constraints(claim: Value) -> Iterator[tuple[str, list[str]]]:
    """Yield each constraint in words, with the names of its requests."""
    for constraint in map(
        as_mapping, as_list(get_value(claim, ("spec", "devices", "constraints")))
    ):
        names = [f"{name}" for name in as_list(constraint.get("requests"))]
        if matching := constraint.get("matchAttribute"):
            yield f"with the same {matching}", names
        if distinct := constraint.get("distinctAttribute"):
            yield f"with different {distinct}", names


def _rules(claim: Value) -> Iterator[tuple[str, list[str]]]:
    """Yield each rule of the annotation in words, with the names of its requests."""
    annotations = as_mapping(get_value(claim, ("metadata", "annotations")))
    rules = read_rules(f"{annotations.get(RULES_ANNOTATION, '')}")
    if not isinstance(rules, Rules):
        return
    for joint in rules.joint:
        text = f"in the same groups by {_any_of(joint.attributes)}"
        yield _if_required(text, required=joint.required), [*joint.primary, *joint.others]
    for near in rules.near:
        text = f"with the same {_any_of(near.attributes)}"
        yield _if_required(text, required=near.required), list(near.requests)
    for distinct in rules.distinct:
        yield f"with different {distinct.attribute}", list(distinct.requests)


def _any_of(names: Sequence[str]) -> str:
    return " or ".join(names)


def _if_required(text: str, *, required: bool) -> str:
    return text if required else f"if possible {text}"


def _describe_request(request: Mapping[str, Value], selectors: SelectorText) -> str:
    alternatives = [as_mapping(each) for each in as_list(request.get("firstAvailable"))]
    # A request of v1beta1 has no `exactly`: its fields are in the request itself.
    options = alternatives or [as_mapping(request.get("exactly")) or request]
    groups = groupby(options, lambda each: {k: v for k, v in each.items() if k not in _NUMBERED})
    texts = (_describe_options([*alike], selectors) for _, alike in groups)
    return ", or else ".join(dict.fromkeys(texts))


def _describe_options(options: Sequence[Mapping[str, Value]], selectors: SelectorText) -> str:
    """Describe alternatives that differ only in the number of devices."""
    option = options[-1]
    *fewer, count = dict.fromkeys(f"{each.get('count') or 1}" for each in options)
    number = "1 device" if count == "1" else f"{count} devices"
    if fewer:
        number = f"{', '.join(fewer)} or {number}"
    if option.get("allocationMode") == "All":
        number = "all devices"
    capacity = read_amounts(get_value(option.get("capacity"), ("requests",)))
    amounts = " and ".join(f"{name} {amount}" for name, amount in capacity.items())
    expressions = [
        f"{get_value(selector, ('cel', 'expression'))}"
        for selector in as_list(option.get("selectors"))
    ]
    parts = (
        f"{number} of class {option.get('deviceClassName')}",
        f"with {amounts}" if amounts else "",
        selectors(expressions),
        "(admin access)" if option.get("adminAccess") is True else "",
    )
    return " ".join(part for part in parts if part)


def _abbreviate(expression: str) -> str:
    text = without_guards(expression)
    for pattern, replacement in _ABBREVIATIONS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= _MAX_EXPRESSION else f"{text[:_MAX_EXPRESSION]}..."
