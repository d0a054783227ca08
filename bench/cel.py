"""Compares the CEL engine with cel-python, cel-expr-python and cel-go on the same selectors.

All engines run alternately in several rounds: cel-go by the clock, each time for so short that its
best round had the processor, the others by their CPU time. The figure is the best round, the noise
is how much worse the median is, and the ratio is relative to our engine. Only our engine and cel-go
count costs. Both compile to a program; cel-go estimates its cost in the same step, our engine when
it is asked for it. cel-expr-python keeps its activation. cel-go runs as the oracle of `e2e` and is
skipped if Go is not installed. Part `prices` compares the time of functions with their prices.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench import _cel_prices
from bench._scale import scaled
from drawbridge.cel.dra import device_environment, device_variables
from drawbridge.cel.dra.questions import SelectorQuestion, read_question
from drawbridge.cel.values import CelValue
from drawbridge.dra.quantity import parse
from e2e.oracle.build import NoGoError, binary

DATA = Path(__file__).parent / "data"
GOLDEN = Path(__file__).parent.parent / "tests" / "cel" / "golden" / "cel_device.json"
ROUNDS, GO_CALLS = scaled(25, 1), scaled(200, 20)
SLICE_SECONDS = scaled(0.004, 0.001)
CASES = scaled(None, 20)

COMPILES = "compiles and estimates"
OURS, OURS_COMPILES, OURS_ESTIMATES = "ours, cost counted", "ours compiles", f"ours {COMPILES}"
GO, GO_COMPILES = "cel-go, cost counted", f"cel-go {COMPILES}"

Evaluate = Callable[[], object]


def seconds(evaluate: Evaluate) -> float:
    """Measure the CPU time of one call as the mean of as many calls as fit into a short time."""
    count, spent = 1, 0.0
    while spent < SLICE_SECONDS:
        start = time.thread_time()
        for _ in range(count):
            evaluate()
        spent = time.thread_time() - start
        if spent < SLICE_SECONDS:
            count = max(count + 1, int(count * SLICE_SECONDS / max(spent, 1e-6)) + 1)
    return spent / count


def simplified(source: str) -> str:
    """Rewrite a selector for cel-python: quantities become ints, and versions become strings."""
    source = re.sub(r'\.compareTo\(quantity\("40Gi"\)\) >= 0', f" >= {40 << 30}", source)
    return re.sub(r'\.isGreaterThan\(semver\("([^"]*)"\)\)', r' > "\1"', source)


def google(source: str, asked: SelectorQuestion) -> Evaluate | None:
    """Prepare cel-expr-python with one activation; quantities are ints, versions are strings."""
    from cel_expr_python import cel  # noqa: PLC0415  # only here

    kinds = cel.Type
    quantity = cel.Overload("quantity", kinds.INT, [kinds.STRING])
    compare = cel.Overload("compare", kinds.INT, [kinds.INT, kinds.INT], is_member=True)
    semver = cel.Overload("semver", kinds.STRING, [kinds.STRING])
    greater = cel.Overload("greater", kinds.BOOL, [kinds.STRING, kinds.STRING], is_member=True)
    environment = cel.NewEnv(
        variables={"device": kinds.Map(kinds.STRING, kinds.DYN)},
        functions=[
            cel.FunctionDecl("quantity", [quantity]),
            cel.FunctionDecl("compareTo", [compare]),
            cel.FunctionDecl("semver", [semver]),
            cel.FunctionDecl("isGreaterThan", [greater]),
        ],
        function_impls={
            "quantity": lambda text: parse(text).mantissa,
            "compare": lambda one, other: (one > other) - (one < other),
            "semver": lambda text: text,
            "greater": lambda one, other: one > other,
        },
    )
    try:
        expression = environment.compile(source)
    except RuntimeError:
        return None
    activation = environment.Activation({"device": _plain(asked)})
    return lambda: expression.eval(activation)


def celpy(source: str, asked: SelectorQuestion) -> Evaluate | None:
    """Prepare cel-python, which interprets expressions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import celpy as library  # noqa: PLC0415  # it warns
        from celpy import adapter, celtypes  # noqa: PLC0415  # it warns
    source = simplified(source)
    environment = library.Environment(annotations={"device": celtypes.MapType})
    program = environment.program(environment.compile(source))
    values = {"device": adapter.json_to_cel(_plain(asked))}
    return lambda: program.evaluate(values)


def _plain(asked: SelectorQuestion) -> dict[str, Any]:
    seen = device_variables(asked.driver, asked.device)["device"]
    assert isinstance(seen, dict)  # noqa: S101  # for the types
    attributes = {
        domain: {
            name: value if isinstance(value, str | int | bool) else str(value)
            for name, value in found.items()
        }
        for domain, found in seen["attributes"].items()
    }
    capacity = {
        domain: {name: amount.mantissa for name, amount in found.items()}
        for domain, found in seen["capacity"].items()
    }
    return {"driver": seen["driver"], "attributes": attributes, "capacity": capacity}


def cel_go(selectors: dict[str, str], device: object) -> dict[str, dict[str, float]]:
    """Measure one evaluation and one compilation of each selector with cel-go."""
    lines = "\n".join(
        json.dumps({"device": device, "expression": source, "rounds": GO_CALLS})
        for source in selectors.values()
    )
    lines_out = subprocess.run(  # noqa: S603  # our own programs
        [binary(), "bench"], input=lines, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return dict(zip(selectors, map(json.loads, lines_out), strict=True))


def rows(selectors: dict[str, str], device: dict[str, Any]) -> Iterator[str]:
    """Measure every selector with every engine, alternately."""
    shown = {**device, "capacity": {k: v["value"] for k, v in device["capacity"].items()}}
    asked = read_question(json.dumps({"device": device, "expression": "true"}).encode())
    seen = device_variables(asked.driver, asked.device)
    engines = {name: candidates(name, source, asked, seen) for name, source in selectors.items()}
    times: dict[tuple[str, str], list[float]] = {}
    missing: set[str] = set()
    for _ in range(ROUNDS):
        go = {}
        try:
            go = cel_go(selectors, shown)
        except NoGoError as error:
            missing.add(f"cel-go is left out: {error}")
        for name, measured in engines.items():
            for who, evaluate in measured.items():
                times.setdefault((name, who), []).append(seconds(evaluate) * 1e6)
            if go:
                times.setdefault((name, GO), []).append(go[name]["evaluate_ns"] / 1000)
                times.setdefault((name, GO_COMPILES), []).append(go[name]["compile_ns"] / 1000)
    yield from missing
    yield f"{'selector':9}{'who':30}{'µs':>10}{'noise':>8}{'ratio to ours':>15}"
    for (name, who), microseconds in times.items():
        best, noise = min(microseconds), statistics.median(microseconds) - min(microseconds)
        ours = OURS_ESTIMATES if who.endswith(COMPILES) else OURS
        yield f"{name:9}{who:30}{best:10.2f}{noise:8.2f}{best / min(times[name, ours]):15.1f}"


def candidates(
    name: str, source: str, asked: SelectorQuestion, seen: Mapping[str, CelValue]
) -> dict[str, Evaluate]:
    """Return what is measured of a selector; the engines must agree on its result."""
    environment = device_environment()
    evaluations = {
        OURS: partial(environment.compile(source).evaluate, seen),
        "cel-expr-python": google(source, asked),
        "cel-python": celpy(source, asked),
    }
    measured = {who: evaluate for who, evaluate in evaluations.items() if evaluate is not None}
    if len({bool(evaluate()) for evaluate in measured.values()}) > 1:
        raise SystemExit(f"{name}: the engines do not agree")
    return measured | {
        OURS_COMPILES: partial(environment.compile, source),
        OURS_ESTIMATES: lambda: environment.compile(source).max_cost,
    }


def batch() -> str:
    """Time the command for all golden expressions, including the start of the process."""
    golden = json.loads(GOLDEN.read_text())
    cases = golden["cases"][:CASES]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        for case in cases:
            device = golden["devices"][case["device"]]
            gate = "on" if case["list_attributes"] == "on" else "off"
            asked = {"device": device, "expression": case["expression"], "list_attributes": gate}
            lines.write(json.dumps(asked) + "\n")
        lines.flush()
        start = time.perf_counter()
        done = subprocess.run(  # noqa: S603  # our own programs
            [sys.executable, "-m", "cli.main", "cel", "--batch", lines.name],
            check=False,
            stdout=subprocess.PIPE,
        )
        spent = time.perf_counter() - start
    if (results := done.stdout.count(b"\n")) != len(cases):
        raise SystemExit(f"{len(cases)} expressions have {results} results")
    return f"batch: {len(cases) / spent:.0f} expressions a second, cold"


def run() -> None:
    """Print all figures."""
    selectors = json.loads((DATA / "selectors.json").read_text())
    device = json.loads((DATA / "device.json").read_text())
    for row in rows(selectors, device):
        print(row)
    print("quantities are ints for cel-expr-python and cel-python, and versions texts")
    print(batch())


PARTS: Mapping[str, Callable[[], None]] = {"engines": run, "prices": _cel_prices.run}
