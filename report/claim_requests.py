"""The requests of a claim in a line each, for a person.

Takes plain objects and believes none; what cannot be read is left out of the line.
"""

from collections.abc import Iterator, Mapping

from documents.paths import get
from documents.values import Value
from translate.legacy.pod_view import items, mapping


def described(claim: Value) -> Iterator[str]:
    """Describe what a claim, or the inside of a template, asks for."""
    devices = get(claim, ("spec", "devices"))
    for each in map(mapping, items(get(devices, ("requests",)))):
        ways = [mapping(way) for way in items(each.get("firstAvailable"))]
        if ways:
            text = "the first that there is of " + ", or ".join(_wanted(way) for way in ways)
        else:
            # v1beta1 has no `exactly`: the request itself says it.
            text = _wanted(mapping(each.get("exactly")) or each)
        yield f"{each.get('name')}: {text}"
    for each in map(mapping, items(get(devices, ("constraints",)))):
        names = ", ".join(f"{name}" for name in items(each.get("requests"))) or "all"
        if alike := each.get("matchAttribute"):
            yield f"{names}: with the same {alike}"
        if apart := each.get("distinctAttribute"):
            yield f"{names}: each with another {apart}"


def amounts(value: Value) -> dict[str, str]:
    """Read a map of amounts."""
    return {name: f"{amount}" for name, amount in mapping(value).items()}


def _wanted(wanted: Mapping[str, Value]) -> str:
    many = "all" if wanted.get("allocationMode") == "All" else f"{wanted.get('count') or 1}"
    parts = [f"{many} x {wanted.get('deviceClassName')}"]
    capacity = amounts(get(wanted.get("capacity"), ("requests",)))
    if capacity:
        parts.append("with " + ", ".join(f"{text} {name}" for name, text in capacity.items()))
    expressions = [f"{get(each, ('cel', 'expression'))}" for each in items(wanted.get("selectors"))]
    if expressions:
        parts.append("where " + " && ".join(expressions))
    if wanted.get("adminAccess") is True:
        parts.append("(admin access)")
    return " ".join(parts)
