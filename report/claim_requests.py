"""Describes the requests and constraints of a claim in words.

The only renderer of claims: admission warnings, `drawbridge explain` and the demo use it. Takes the
plain object of a claim, or of the claim inside a template, and skips malformed parts of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from documents.paths import get_value
from documents.values import Value
from dra.counted import count_noun
from translate.legacy.pod_view import as_list, as_mapping

# Describes the CEL selectors of a request, or returns "".
SelectorText: TypeAlias = Callable[[Sequence[str]], str]

_MAX_EXPRESSION: Final = 64
# What a person does not need of an expression: the guards, and the domains of names.
_ABBREVIATIONS: Final = (
    (re.compile(r'"\w+" in device\.attributes\["[^"]+"\] && '), ""),
    (re.compile(r'device\.(?:attributes|capacity)\["[^"]+"\]\.'), ""),
    (re.compile(r'device\.(attributes|capacity)\["[^"]+"\]'), r"\1"),
    (re.compile(r"device\."), ""),
)


def full_selectors(expressions: Sequence[str]) -> str:
    """Show the expressions as they are."""
    return f"where {' && '.join(expressions)}" if expressions else ""


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
        each = "each " if len(names) > 1 else ""
        yield text if len(requests) == 1 else f"{', '.join(names)}: {each}{text}"
    members: dict[str, list[str]] = {}
    for rule, names in _constraints(claim):
        members.setdefault(rule, []).append(" and ".join(names) or "all requests")
    for rule, groups in members.items():
        yield f"{rule}: {'; '.join(groups)}"


def summarize_claim(claim: Value) -> str:
    """Describe a claim on one line, without the names of its requests and its expressions."""
    requests = " and ".join(_describe_request(each, count_selectors) for each in _requests(claim))
    rules = " and ".join(dict.fromkeys(rule for rule, _ in _constraints(claim)))
    return f"{requests}, {rules}" if rules else requests


def read_amounts(value: Value) -> dict[str, str]:
    """Return a map of amounts as texts."""
    return {name: f"{amount}" for name, amount in as_mapping(value).items()}


def _requests(claim: Value) -> list[Mapping[str, Value]]:
    found = as_list(get_value(claim, ("spec", "devices", "requests")))
    return [as_mapping(each) for each in found]


def _constraints(claim: Value) -> Iterator[tuple[str, list[str]]]:
    """Yield each constraint in words, with the names of its requests."""
    for each in map(as_mapping, as_list(get_value(claim, ("spec", "devices", "constraints")))):
        names = [f"{name}" for name in as_list(each.get("requests"))]
        if matching := each.get("matchAttribute"):
            yield f"with the same {matching}", names
        if distinct := each.get("distinctAttribute"):
            yield f"with different {distinct}", names


def _describe_request(request: Mapping[str, Value], selectors: SelectorText) -> str:
    alternatives = [as_mapping(each) for each in as_list(request.get("firstAvailable"))]
    # A request of v1beta1 has no `exactly`: its fields are in the request itself.
    options = alternatives or [as_mapping(request.get("exactly")) or request]
    return ", or else ".join(dict.fromkeys(_describe_option(each, selectors) for each in options))


def _describe_option(option: Mapping[str, Value], selectors: SelectorText) -> str:
    count = option.get("count") or 1
    number = count_noun(count, "device") if isinstance(count, int) else f"{count} devices"
    if option.get("allocationMode") == "All":
        number = "all devices"
    capacity = read_amounts(get_value(option.get("capacity"), ("requests",)))
    amounts = " and ".join(f"{name} {amount}" for name, amount in capacity.items())
    expressions = [
        f"{get_value(each, ('cel', 'expression'))}" for each in as_list(option.get("selectors"))
    ]
    parts = (
        f"{number} of class {option.get('deviceClassName')}",
        f"with {amounts}" if amounts else "",
        selectors(expressions),
        "(admin access)" if option.get("adminAccess") is True else "",
    )
    return " ".join(part for part in parts if part)


def _abbreviate(expression: str) -> str:
    text = expression
    for pattern, replacement in _ABBREVIATIONS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= _MAX_EXPRESSION else f"{text[:_MAX_EXPRESSION]}..."
