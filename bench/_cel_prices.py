"""Measures the functions of CEL against their prices: for each the most expensive size and shape.

The factor is the CPU time of a call, with the computation of its price, relative to the price. Only
calls within the limit of a call are measured, because no other call starts.
"""

import itertools
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from bench._scale import scaled
from drawbridge.cel import ast, net, semver, url
from drawbridge.cel.declare import Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import Cancelled
from drawbridge.cel.library.formats import FORMATS
from drawbridge.cel.library.prices import PRICES
from drawbridge.cel.library.regex import REGEX_FUNCTIONS, pattern_price
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.meter import MOST_WORK_OF_CALL, PRICED, STEPS
from drawbridge.cel.scopes import declare
from drawbridge.cel.types import STRING, Type
from drawbridge.cel.values import CelValue, Duration, Optional, Timestamp, Uint, extent
from drawbridge.dra.quantity import parse

UNIT_NANOSECONDS = 50
SIZES = scaled((1, 64, 400, 3_000, 40_000), (1, 64))
LONGEST_LIST = 6_000
# The shapes of a text that is not the first argument.
SECOND = ("a", "optional", "pattern", "zone", "url")
# A call that costs its step alone has no price of its own.
STEP = STEPS[ast.Call] + STEPS[ast.Ident]
ROUNDS = scaled(3, 1)
# A call with a price below this is measured so many times at once.
LITTLE, CALLS = 2_000, scaled(20, 1)


class Measured(NamedTuple):
    """One call: its size, shapes, price and CPU time in nanoseconds."""

    size: int
    shapes: str
    price: int
    nanoseconds: float

    @property
    def factor(self) -> float:
        """Return the time relative to the price."""
        return self.nanoseconds / (self.price * UNIT_NANOSECONDS)


@cache
def texts(size: int) -> dict[str, CelValue]:
    """Return texts of about a size in the forms that functions read, and in hostile ones."""
    return {
        "a": "a" * size,
        "é": "é" * size,
        "digits": "1" * size,
        "zeros": "0" * size,
        "commas": "a," * (size // 2),
        "dots": "1.2.3-" + "a." * (size // 2) + "a",
        "url": "http://user@host:80/" + "%41" * (size // 3) + "?" + "a=b&" * (size // 4),
        "path": "/" + "é" * size,
        "brackets": "http://" + "[" * size,
        "hours": "1h" * (size // 2),
        "fraction": "2020-01-01T00:00:00." + "1" * size + "Z",
        "clauses": "%s%.6f" * (size // 6),
        "colons": "1:" * (size // 2),
        "quotes": '\\"' * (size // 2),
        "dashes": "a-" * (size // 2) + "_",
        "zone": "Europe/" + "x" * size,
        "time": "2020-01-01T00:00:00Z",
        "optional": f"(a?){{{min(size, 900)}}}z",
        "pattern": "[ab]*a[ab]{9}z",
    }


@cache
def lists(size: int) -> dict[str, CelValue]:
    """Return lists of a size."""
    size = min(size, LONGEST_LIST)
    same = ["a" * 64] * 8
    return {
        "ints": list(range(size)),
        "backwards": list(range(size))[::-1],
        "doubles": [float(i) for i in range(size)],
        "uints": [Uint(i) for i in range(size)],
        "durations": [Duration(i) for i in range(size)],
        "timestamps": [Timestamp(i) for i in range(size)],
        "texts": [f"{'a' * 40}{i}" for i in range(size)],
        "bytes": [f"{i}".encode() for i in range(size)],
        "bools": [bool(i % 2) for i in range(size)],
        "mixed": [i if i % 2 else float(i) for i in range(size)],
        "lists": [same for _ in range(size // 8)],
        "maps": [{f"k{i}": i} for i in range(size)],
        "optionals": [Optional(i) for i in range(size)],
        "quantities": [parse(f"{i}Gi") for i in range(size)],
    }


def values(type_: Type, size: int) -> dict[str, CelValue]:
    """Return the values of a type, of about a size."""
    if type_.kind == "string":
        return texts(size)
    if type_.kind == "list":
        return lists(size)
    return others(size).get(type_.name if type_.kind == "object" else type_.kind, {})


@cache
def others(size: int) -> dict[str, dict[str, CelValue]]:
    """Return the values of all types but texts and lists, by the name of the type."""
    anything: dict[str, CelValue] = {"text": "a" * size, "int": size, "list": ["a" * 64] * 9}
    return {
        "bytes": {"bytes": b"a" * size, "é": "é".encode() * (size // 2)},
        "map": {"map": {f"k{i}": i for i in range(size)}},
        "int": {"size": size, "-1": -1, "3": 3},
        "uint": {"size": Uint(size)},
        "double": {"double": 1.7e-308 * size},
        "bool": {"true": True},
        "duration": {"duration": Duration(size)},
        "timestamp": {"timestamp": Timestamp(size * 10**12)},
        "kubernetes.Quantity": {"Gi": parse(f"{size}Gi"), "large": parse("1e900")},
        "kubernetes.Semver": {"": semver.parse("1.2.3-" + ".".join(["a"] * min(size, 14)))},
        "kubernetes.URL": {"url": url.parse_url("http://a/?" + "a=b&" * (size // 4))},
        "net.IP": {"4": net.parse_ip("10.0.0.1"), "6": net.parse_ip("fd00::1")},
        "net.CIDR": {"4": net.parse_cidr("10.0.0.0/8"), "6": net.parse_cidr("fd00::/64")},
        "kubernetes.NamedFormat": dict(FORMATS),
        **dict.fromkeys(("dyn", "any", "param"), anything),
    }


def calls(overload: Overload, size: int) -> Iterator[tuple[str, tuple[CelValue, ...]]]:
    """Yield the calls of an overload with arguments of about a size, and the names of shapes."""
    shaped: list[dict[str, CelValue]] = []
    for place, parameter in enumerate(overload.params):
        shaped.append(values(parameter, size))
        if place and parameter == STRING:
            all_, short = shaped[place], texts(8)
            shaped[place] = {name: all_[name] for name in SECOND} | {"8": short["a"], ",": ","}
    for names in itertools.product(*shaped):
        yield ", ".join(names), tuple(shaped[i][name] for i, name in enumerate(names))


def price_of(overload: Overload, name: str, arguments: tuple[CelValue, ...]) -> int:
    """Return the price of a call, with that of its step."""
    if overload.id in {"equals", "not_equals"}:
        return STEP + extent(arguments[0])
    price = PRICES.get(overload.id)
    if price is None:
        return STEP
    build = pattern_price(arguments[1]) if name in REGEX_FUNCTIONS else 0
    return STEP + PRICED + build + price(*arguments)


def measure(overload: Overload, name: str, arguments: tuple[CelValue, ...]) -> float:
    """Return the CPU time of a call in nanoseconds."""
    best = float("inf")
    times = CALLS if price_of(overload, name, arguments) < LITTLE else 1
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(times):
            price_of(overload, name, arguments)
            overload.implementation(*arguments)
        best = min(best, (time.process_time_ns() - start) / times)
    return best


def worst(name: str, overload: Overload) -> Measured | None:
    """Return the call with the greatest factor of those within the limit."""
    worst: Measured | None = None
    for size in SIZES:
        for shapes, arguments in calls(overload, size):
            try:
                price = price_of(overload, name, arguments)
                if price > MOST_WORK_OF_CALL:
                    continue
                spent = measure(overload, name, arguments)
            except (Cancelled, EvaluationError):
                continue  # an error has a price of its own
            measured = Measured(size, shapes, price, spent)
            if worst is None or measured.factor > worst.factor:
                worst = measured
    return worst


def run() -> None:
    """Print all functions, the most expensive relative to its price first."""
    table = declare(libraries("1.37", stored=True), {}, {}).functions
    rows = [
        (overload.id, measured)
        for name, function in table.items()
        for overload in function.overloads
        if overload.id in PRICES or overload.id in {"equals", "not_equals"}
        if (measured := worst(name, overload))
    ]
    rows.sort(key=lambda row: -row[1].factor)
    print(f"{'function':36}{'size':>8}{'µs':>10}{'price':>8}{'price µs':>10}{'factor':>8}  shapes")
    for id_, (size, shapes, price, nanoseconds) in rows:
        factor = nanoseconds / (price * UNIT_NANOSECONDS)
        microseconds = price * UNIT_NANOSECONDS / 1000
        print(
            f"{id_:36}{size:8}{nanoseconds / 1000:10.1f}{price:8}{microseconds:10.1f}"
            f"{factor:8.2f}  {shapes}"
        )
