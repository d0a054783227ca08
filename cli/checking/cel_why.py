"""Explains why an expression matches no device: its terms, and the values that it compares."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from drawbridge.cel.dra import Selectors, find_reads
from drawbridge.cel.environment import Program
from drawbridge.cel.errors import EvaluationError
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.judge.claims.selector_terms import split_terms

_MOST_TERMS: Final = 10
_MOST_VALUES: Final = 5


def explain_no_match(
    source: str, program: Program, selectors: Selectors, views: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    """Yield how many devices match each term, and which values each attribute has."""
    terms = split_terms(source, selectors.stored)
    if len(terms) > 1:
        for term in terms[:_MOST_TERMS]:
            matching = sum(_matches(selectors.stored.compile(term), view) for view in views)
            yield f"  {matching:,} of {count_noun(len(views), 'device')}: {term}"
    for domain, identifier in sorted(find_reads(program).attributes()):
        values = Counter(_read_value(view, domain, identifier) for view in views)
        values.pop("", None)
        listed = [f"{value} ({number})" for value, number in values.most_common()]
        shown = list_some(listed, _MOST_VALUES, "value") or "on no device"
        yield f"  {domain}/{identifier}: {shown}"


def _matches(program: Program, view: Mapping[str, object]) -> bool:
    try:
        return program.evaluate(view).value is True
    except EvaluationError:
        return False


def _read_value(view: Mapping[str, object], domain: str, identifier: str) -> str:
    """Return the value of an attribute as text; empty without one."""
    device = view["device"]
    attributes = device.get("attributes") if isinstance(device, Mapping) else None
    inside = attributes.get(domain) if isinstance(attributes, Mapping) else None
    if not isinstance(inside, Mapping) or identifier not in inside:
        return ""
    value = inside[identifier]
    return f'"{value}"' if isinstance(value, str) else f"{value}"
