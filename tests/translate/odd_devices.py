"""The selectors of all cases, and devices that lack what they read, or have it with other types."""

import re
from collections.abc import Iterator
from typing import Any

from drawbridge.translate.targets.claims import assemble_claims
from tests.translate import test_rows, test_targets

OF_TYPE: dict[str, dict[str, Any]] = {
    "string": {"string": "x"},
    "int": {"int": 7},
    "bool": {"bool": True},
    "version": {"version": "1.2.3"},
    "strings": {"strings": ["x"]},
    "ints": {"ints": [7]},
    "bools": {"bools": [True]},
    "versions": {"versions": ["1.2.3"]},
}
_READ = re.compile(r'device\.(attributes|capacity)\["([^"]+)"\]\.(\w+)')


def expressions() -> list[str]:
    """Return every selector that the cases of targets and rows result in."""
    texts: dict[str, None] = {}
    for case in test_targets.SAYABLE:
        (claim,) = assemble_claims([test_targets.said(case)])
        texts |= dict.fromkeys(_texts(claim.spec))
    for case in test_rows.CASES:
        for made in test_rows.done(case).templates:
            texts |= dict.fromkeys(_texts(made.object))
    return list(texts)


def devices(expression: str, *, lists: bool) -> Iterator[dict[str, Any]]:
    """Yield devices that publish nothing, and everything that a selector reads with each type.

    API servers before 1.37 refuse lists.
    """
    yield {}
    names = {
        f"{domain}/{name}" for part, domain, name in _READ.findall(expression) if part[0] == "a"
    }
    for name, published in OF_TYPE.items():
        if lists or not name.endswith("s"):
            yield {"attributes": dict.fromkeys(sorted(names), published)}


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401  # any plain value
    if isinstance(value, dict):
        if isinstance(value.get("cel"), dict):
            yield value["cel"]["expression"]
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
