"""Evaluates generated selectors and prints their work: `python -m tools.generated_selectors [N]`.

The selectors are drawn from the attributes of a device and the functions of the libraries, as a
person would write them: none is built to be expensive. Only those count that the API server admits.
The tests run some, a scheduled run 100,000.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.cel import EvaluationError
from drawbridge.cel.dra import Selectors, device_variables
from drawbridge.cel.meter import EXCEEDED
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import parse

UNIT_SECONDS: Final = 50e-9
DEEPEST: Final = 3
DEVICE: Final = device_variables(
    "gpu.io",
    Device(
        name="x",
        attributes={
            "model": Attribute(string="NVIDIA A100-SXM4-80GB"),
            "uuid": Attribute(
                string="GPU-18db0e85-99e9-c746-8531-ffeb86328b39-and-some-more-text-here"
            ),
            "bus": Attribute(string="0000:3b:00.0"),
            "index": Attribute(integer=3),
            "ecc": Attribute(boolean=True),
            "driver": Attribute(version="550.54.15"),
        },
        capacity={"memory": Capacity(parse("80Gi")), "cores": Capacity(parse("108"))},
    ),
)
# What each kind of value can be written as; `{kind}` is replaced by a value of that kind.
GRAMMAR: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": (
        "{string} == {string}", "{string} != {string}", "{string} < {string}", "{int} >= {int}",
        "{int} == {int}", "{double} < {double}", "{bool} && {bool}", "{bool} || {bool}", "!{bool}",
        "({bool} ? {bool} : {bool})", "{string} in {strings}", "{int} in {ints}",
        "{strings}.exists(s, s == {string})", "{strings}.all(s, s.size() > {int})",
        "{ints}.exists_one(i, i == {int})", "{ints}.all(i, i * 2 + {int} >= i)",
        "{string}.startsWith({string})", "{string}.endsWith({string})",
        "{string}.contains({string})", "{string}.matches({pattern})",
        "{version}.isGreaterThan({version})", "{version}.compareTo({version}) >= 0",
        "{quantity}.compareTo({quantity}) >= 0", "{quantity}.isLessThan({quantity})",
        'has(device.attributes["gpu.io"].{name})', '"{name}" in device.attributes["gpu.io"]',
        'device.attributes["gpu.io"].ecc', 'device.attributes["gpu.io"][?"{name}"].hasValue()',
        "sets.contains({strings}, {strings})", "sets.intersects({ints}, {ints})",
        "{strings} == {strings}", "{ints}.isSorted()", "isSemver({string})",
        "isQuantity({string})", "isURL({string})", "isIP({string})",
        'cidr("10.0.0.0/8").containsIP("10.0.0.1")', "cel.bind(b, {bool}, b || !b)",
        "format.dns1123Label().validate({string}).hasValue()",
        "{string}.findAll({pattern}).size() > {int}", "{bool} == {bool}",
    ),
    "string": (
        'device.attributes["gpu.io"].model', 'device.attributes["gpu.io"].uuid',
        'device.attributes["gpu.io"].bus', "device.driver", '"A100"', '"gpu.io"', '"0000:3b:00.0"',
        "{string}.lowerAscii()", "{string}.upperAscii()", "{string}.trim()", "string({int})",
        '{string}.replace("-", "_")', "{strings}.join({separator})", "{string}.substring(2)",
        "{string}.find({pattern})", '"%s-%d".format([{string}, {int}])', "{string} + {string}",
        "{strings}[0]", 'device.attributes["gpu.io"].?{name}.orValue({string})',
        "({bool} ? {string} : {string})",
    ),
    "int": (
        'device.attributes["gpu.io"].index', "0", "1", "4", "42", "{string}.size()",
        "{string}.indexOf({string})", "{int} + {int}", "{int} * {int}", "{int} % 7", "{ints}.sum()",
        "{ints}.max()", "{strings}.size()", "{version}.major()", "int({double})",
        'int("12")', "{string}.lastIndexOf({separator})", "{quantity}.asInteger()",
    ),
    "double": ("1.5", "double({int})", "{double} + {double}", "{quantity}.asApproximateFloat()"),
    "strings": (
        '["A100", "H100", "L40S"]', "[{string}, {string}]", "{string}.split({separator})",
        "{strings}.map(s, s + {string})", "{strings}.filter(s, s != {string})", "{strings}.sort()",
        "{strings}.distinct()", "{strings} + {strings}", "{string}.findAll({pattern})",
        "{strings}.reverse()", '["a", "b", "c"].slice(0, 2)', "[{strings}, {strings}].flatten()",
    ),
    "ints": (
        "[1, 2, 3, 4]", "lists.range(8)", "lists.range(30)", "[{int}, {int}]",
        "{ints}.map(i, i + 1)",
        "{ints}.filter(i, i > {int})", "{strings}.map(s, s.size())", "{ints}.sort()",
        "{ints}.distinct()",
    ),
    "version": (
        'device.attributes["gpu.io"].driver', 'semver("535.1.0")', 'semver("1.2.3-rc.1")',
        "semver({string}, true)",
    ),
    "quantity": (
        'device.capacity["gpu.io"].memory', 'device.capacity["gpu.io"].cores', 'quantity("40Gi")',
        'quantity("1.5")', "{quantity}.add({quantity})", "{quantity}.sub({int})",
    ),
    "pattern": (
        '"^NVIDIA (A100|H100)"', '"[0-9a-f]{8}-[0-9a-f]{4}"', '"(?i)sxm[0-9]"', r"'\\d+'", '".*"',
        '"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"', r"'^\\w+(\\.\\w+)*$'", '"A100.{0,20}GB$"', '"[^:]+"',
    ),
    "separator": ('"-"', '","', '" "', '""', '":"'),
    "name": ("model", "uuid", "index", "nope"),
}  # fmt: skip


class Outcome(NamedTuple):
    """The evaluation of one selector: its work, or -1 if it failed, and the CPU time."""

    source: str
    refused: bool
    work: int
    seconds: float


def generate(draw: random.Random, kind: str = "bool", depth: int = 0) -> str:
    """Return an expression of a kind; deep ones have no further parts."""
    forms = GRAMMAR[kind]
    if depth > DEEPEST:
        forms = tuple(form for form in forms if "{" not in form or kind == "pattern") or forms[:1]
    form = draw.choice(forms)
    if kind == "pattern":
        return form
    fill: Callable[[str], str] = lambda part: generate(draw, part, depth + 1)  # noqa: E731  # short
    pieces = form.split("{")
    return pieces[0] + "".join(
        fill(part) + rest for part, _, rest in (piece.partition("}") for piece in pieces[1:])
    )


def outcomes(count: int, seed: int = 0) -> Iterator[Outcome]:
    """Yield the outcomes of as many admitted selectors."""
    draw, selectors = random.Random(seed), Selectors()  # noqa: S311  # the same in each run
    while count:
        source = generate(draw)
        if not selectors.check_admission(source)[0]:
            continue
        count -= 1
        program = selectors.stored.compile(source)
        start = time.process_time()
        try:
            work, refused = program.evaluate(DEVICE).work, False
        except EvaluationError as error:
            work, refused = -1, error.kind == EXCEEDED
        yield Outcome(source, refused, work, time.process_time() - start)


def main(count: int, seed: int) -> int:
    """Print what was refused, and the most expensive selectors; 1 if more than 0.1 % is refused."""
    drawn = list(outcomes(count, seed))
    refused = [outcome for outcome in drawn if outcome.refused]
    priced = sorted((o for o in drawn if o.work > 0), key=lambda o: o.work)
    for outcome in refused:
        print(f"refused: {outcome.source}")
    for outcome in priced[-3:]:
        print(f"{outcome.work} units, {outcome.seconds * 1000:.1f} ms: {outcome.source}")
    price = sum(outcome.work for outcome in priced) * UNIT_SECONDS
    spent = sum(outcome.seconds for outcome in priced)
    print(f"{len(drawn)} selectors, {len(refused)} refused, {len(priced)} with a result")
    print(f"CPU time relative to the price of all: {spent / price:.2f}")
    return int(len(refused) * 1000 > len(drawn))


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in (*sys.argv[1:], "2000", "0")[:2])))
