"""Compare a claim that kube-controller-manager generated with its template.

It can meet another API server than admission, with other feature gates, and a policy can change
claims. API servers fill in fields, also such as only newer ones have. So a claim is as its template
describes it if it has all that the template says, whatever else it has.
"""

from collections.abc import Iterator, Mapping

import msgspec

from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.values import Value, as_mapping, equal_json
from drawbridge.translate.changes.template import normalize_claim


def find_lost_field(template: Mapping[str, Value], claim: Mapping[str, Value]) -> str:
    """Return the path of a field that the claim lacks or has with another value; "" if none."""
    described = normalize_claim(as_mapping(template.get("spec")))
    lost = next(_list_lost(described, normalize_claim(claim), ()), None)
    return "" if lost is None else format_path(lost)


def _list_lost(described: Value, held: Value, path: Path) -> Iterator[Path]:
    if isinstance(described, dict) and isinstance(held, dict) and path[-1:] != ("parameters",):
        for name, value in described.items():
            if name in held:
                yield from _list_lost(value, held[name], (*path, name))
            else:
                yield (*path, name)
    elif isinstance(described, list) and isinstance(held, list):
        yield from _list_lost_items(described, held, path)
    elif not equal_json(described, held):
        yield path


def _list_lost_items(described: list[Value], held: list[Value], path: Path) -> Iterator[Path]:
    """An item has the one of its name or its place, or an equal one: others may add items."""
    equal = {msgspec.json.encode(each, order="sorted") for each in held}
    named = {name: each for each in held if isinstance(name := as_mapping(each).get("name"), str)}
    for place, value in enumerate(described):
        if msgspec.json.encode(value, order="sorted") in equal:
            continue
        name = as_mapping(value).get("name")
        if isinstance(name, str):
            counterpart = named.get(name)
        else:
            counterpart = held[place] if place < len(held) else None
        if counterpart is None:
            yield (*path, place)
        else:
            yield from _list_lost(value, counterpart, (*path, place))
