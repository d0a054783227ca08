"""Calls of each function with arguments whose types the checker only assumes.

For the checker, null is of most types, and the elements of a list of unknown values are of any.
"""

import itertools
from collections.abc import Iterator, Sequence

from drawbridge.cel.declare import Overload
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.scopes import declare

# An element of a reversed attribute has the type that its use gives it; `x` is one in a loop.
LOOP = 'device.attributes["d"].ints.reverse().all(x, type({}) == int)'
ASSUMED = (
    "x",
    "null",
    'device.attributes["d"].strs.reverse()[0]',
    'device.attributes["d"].ints.reverse()[0]',
    'device.attributes["d"].strs.reverse()',
)
# What has a type, for the arguments beside the one that is assumed.
TYPED = {
    "bool": "true",
    "bytes": 'b"a"',
    "double": "1.5",
    "duration": 'duration("1h")',
    "int": "1",
    "kubernetes.Quantity": 'quantity("1")',
    "kubernetes.Semver": 'semver("1.0.0")',
    "kubernetes.URL": 'url("/a")',
    "list": "[1, 2]",
    "map": '{"a": 1}',
    "net.CIDR": 'cidr("10.0.0.0/8")',
    "net.IP": 'ip("10.0.0.1")',
    "optional_type": "optional.of(1)",
    "param": "1",
    "string": '"a"',
    "timestamp": 'timestamp("2026-01-01T00:00:00Z")',
    "uint": "1u",
}
# What is written otherwise than by its name.
_OPERATORS = {"_[_]": "{}[{}]", "_[?_]": "{}[?{}]", "_?_:_": "{} ? {} : {}", "@in": "{} in {}"}


def calls(version: str) -> Iterator[str]:
    """Yield a call of each overload with an assumed type in each place, and with two of them."""
    for function in declare(
        libraries(version, stored=True, list_attributes=True), {}, {}
    ).functions.values():
        for overload in function.overloads:
            count = len(overload.params)
            typed = [TYPED.get(each.name or each.kind, "dyn(1)") for each in overload.params]
            for places in (*itertools.combinations(range(count), 1), tuple(range(count))):
                for value in ASSUMED:
                    arguments = [value if at in places else typed[at] for at in range(count)]
                    yield LOOP.format(write_call(function.name, overload, arguments))


def write_call(name: str, overload: Overload, arguments: Sequence[str]) -> str:
    """Write a call as a person does."""
    if name in _OPERATORS:
        return _OPERATORS[name].format(*arguments)
    if name.startswith(("_", "!", "-")):
        return name.replace("_", "{}").format(*arguments)
    first, *others = arguments or [""]
    if overload.member:
        return f"{first}.{name}({', '.join(others)})"
    return f"{name}({', '.join(arguments)})"
