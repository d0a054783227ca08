"""Measures how long one call of the solver takes for hostile claims and slices.

A call is to end after 50 ms, and the search on a node is cut after 20 ms; a copy of the process
then goes on. Each row says how both end. The devices are as expensive as a tenant or a driver may
make them. `tests.climbing` searches worse shapes.
"""

import itertools
import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.brief import USUAL_SECONDS, Brief
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.nodes import Node
from drawbridge.dra.partitions import PartitionTable
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.ledger.planner import Planner
from drawbridge.names import COMPATIBILITY_ANNOTATION, RULES_ANNOTATION
from drawbridge.process.alarm import CutAlarm
from drawbridge.solver.answers import Solution, SolverResult
from drawbridge.solver.memo import CutOnNodeError, OutOfTimeError
from drawbridge.solver.world import PoolUse, View

DRIVER, NODES = "gpu.example.com", 2
CALL_SECONDS: Final = 0.05
# A call that takes more than this was not cut. On a busy machine, twice the limit was seen.
MOST_SECONDS: Final = 5 * CALL_SECONDS
FITS, CUT, LATE = "fits", "cut on a node", "out of time"
_ATTRIBUTES: Final = 8
_CALLS: Final = 3
_KINDS: Final = ("matchAttribute", "distinctAttribute")
Plain = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant asks of a node, and what the node publishes."""

    claims: int = 64
    requests: int = 32
    alternatives: int = 0
    count: int = 1
    # Requests with mode All, of each claim.
    all_mode: int = 0
    selectors: int = 0
    equal_selectors: bool = True
    match: int = 0
    distinct: int = 0
    near: int = 0
    joint: int = 0
    required: bool = False
    attributes: int = _ATTRIBUTES
    # Whether rules name the attributes in orders of their own, and some of the requests only.
    varied: bool = False
    devices_first: str = "packed"
    configs: int = 0
    admin: bool = False
    devices: int = 128
    in_use: int = 0
    shared: bool = False
    # The devices of one of so many groups have the same value.
    groups: int = 8
    partitions: int = 0
    counters: int = 0
    declarations: int = 0
    rounds: int = 0
    excludes: bool = False

    def changes(self) -> Mapping[str, object]:
        """Return what differs from the defaults."""
        standard = Shape()
        return {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(standard, name)
        }


SHAPES: Final[Mapping[str, Shape]] = {
    "near rules, refused": Shape(near=32),
    "near rules, preferred": Shape(claims=9, near=32),
    "near rules, preferred, that fit": Shape(claims=16, requests=2, near=32),
    "near rules, required": Shape(claims=9, near=32, required=True),
    "joint rules": Shape(claims=9, joint=32, required=True),
    "constraints": Shape(match=16, distinct=16, devices_first=""),
    "constraints that fit": Shape(claims=4, match=32, groups=1, devices_first=""),
    "constraints and alternatives": Shape(claims=16, alternatives=8, match=32, devices_first=""),
    "many claims": Shape(claims=128, devices_first=""),
    "mode All": Shape(claims=64, requests=1, all_mode=31, devices=32, devices_first=""),
    "configurations": Shape(claims=64, shared=True, configs=32, devices_first=""),
    "selectors in an annotation": Shape(claims=20, requests=1, declarations=60, rounds=17),
    "rules in an annotation": Shape(
        claims=20, requests=1, declarations=60, rounds=17, excludes=True
    ),
}


def claim(shape: Shape, number: int, random_: random.Random) -> Plain:
    """Make a claim of a shape."""
    names = [f"r{each}" for each in range(shape.requests)]
    every = [f"a{each}" for each in range(shape.attributes)]
    wholes = [f"all{each}" for each in range(shape.all_mode)]
    requests = [_request(shape, each, number) for each in names]
    requests += [
        {"name": each, "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
        for each in wholes
    ]
    constraints = [
        {"requests": names, kind: f"{DRIVER}/a{each % _ATTRIBUTES}"}
        for kind, many in zip(_KINDS, (shape.match, shape.distinct), strict=True)
        for each in range(many)
    ][:32]
    parameters = {"driver": DRIVER, "parameters": {"a": number}}
    configs = [{"requests": names, "opaque": parameters}] * shape.configs
    devices = {"requests": requests, "constraints": constraints, "config": configs}
    metadata: Plain = {"name": f"c{number}", "namespace": "tenant"}
    near = [
        {"requests": some, "attributes": order, "required": shape.required}
        for some, order in _parts(shape, shape.near, names, every, random_)
    ]
    joint = [
        {
            "primary": some[:1],
            "others": some[1:],
            "attributes": order,
            "required": shape.required,
        }
        for some, order in _parts(shape, shape.joint, names, every, random_)
        if len(some) > 1
    ]
    rules: Plain = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules"}
    rules |= {"near": near, "joint": joint}
    if shape.devices_first:
        rules["strategy"] = {"devices": shape.devices_first}
    if near or joint or shape.devices_first:
        metadata["annotations"] = {RULES_ANNOTATION: json.dumps(rules)}
    return {"metadata": metadata, "spec": {"devices": devices}}


def _request(shape: Shape, name: str, number: int) -> Plain:
    texts = [
        f"device.driver == '{DRIVER}' || {each} == {0 if shape.equal_selectors else number}"
        for each in range(shape.selectors)
    ]
    body: Plain = {
        "deviceClassName": "gpu",
        "count": shape.count,
        "selectors": [{"cel": {"expression": each}} for each in texts],
    }
    if not shape.alternatives:
        return {"name": name, "exactly": body | ({"adminAccess": True} if shape.admin else {})}
    several = [{"name": f"x{each}", **body} for each in range(shape.alternatives)]
    return {"name": name, "firstAvailable": several}


def _parts(
    shape: Shape, many: int, names: Sequence[str], every: Sequence[str], random_: random.Random
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the requests and the attributes of each rule."""
    for _ in range(many):
        some, order = list(names), [f"{DRIVER}/{each}" for each in every]
        if shape.partitions:
            order[0] = f"{DRIVER}/partition2"
        if shape.varied:
            random_.shuffle(order)
            some = random_.sample(some, random_.randint(1, len(some)))
        yield some, order


def nested_loops(rounds: int, number: int) -> str:
    """Return an expression that differs by device, with loops of this many rounds in each other."""
    loop = f"[{','.join(map(str, range(rounds)))}]"
    loops = f"{loop}.all(a,{loop}.all(b,{loop}.all(c,a+b+c<{number + 100})))"
    uuid = f'device.attributes["{DRIVER}"].uuid != "{number}"'
    return f"{loops} && {uuid}" if rounds else uuid


def plain_slice(shape: Shape, node: str) -> Plain:
    """Make the slice of a node."""
    metadata: Plain = {"name": f"{node}-{DRIVER}"}
    declared = [
        {
            "selector": f"!({nested_loops(shape.rounds, each)})",
            "compatibleOnlyWith": nested_loops(shape.rounds if shape.excludes else 0, each),
        }
        for each in range(shape.declarations)
    ]
    if declared:
        metadata["annotations"] = {COMPATIBILITY_ANNOTATION: json.dumps(declared)}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool}
    devices = [_device(shape, number) for number in range(shape.devices)]
    return {"metadata": metadata, "spec": {**spec, "devices": devices}}


def _device(shape: Shape, number: int) -> Plain:
    attributes: Plain = {f"a{each}": {"string": f"{number % shape.groups}"} for each in range(8)}
    attributes["uuid"] = {"string": f"GPU-{number}"}
    attributes |= {
        f"partition{2**size}": {"int": number >> size} for size in range(1, shape.partitions + 1)
    }
    return {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": "80Gi"}},
        "allowMultipleAllocations": shape.shared,
    }


def planner(shape: Shape, brief: Brief | None = None) -> Planner:
    """Return a planner of the nodes of a shape."""
    tables = [
        PartitionTable(DRIVER, "a0", f"{DRIVER}/part", tuple((i, i + 1) for i in range(0, 128, 2)))
    ] * min(1, shape.counters)
    made = Planner(partitions=tables, brief=brief)
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    made.update(_read(read_class({"metadata": {"name": "gpu"}, "spec": spec}), DeviceClass))
    for number in range(NODES):
        made.update(Node(f"n{number}"))
        made.update(_read(read_slice(plain_slice(shape, f"n{number}")), Slice))
    return made


def _read(read: Any, kind: type) -> Any:  # noqa: ANN401  # what a reader returns
    if not isinstance(read, kind):
        raise SystemExit(f"{read}")
    return read


class Call(NamedTuple):
    """The seconds of the processor that a call took, and how it ended."""

    seconds: float
    end: str


class _Asker:
    """Asks a planner about a shape: one that is cut, or without `brief` that of a copy."""

    def __init__(self, shape: Shape, brief: Brief | None = None) -> None:
        drawn = random.Random(1)
        self._claims = [
            _read(read_claim(claim(shape, number, drawn)), Claim) for number in range(shape.claims)
        ]
        self._planner = planner(shape, brief)
        if brief is None:
            self._planner.become_copy(lambda _: None, time.thread_time)
        held = PoolUse(frozenset(f"gpu-{number}" for number in range(shape.in_use)))
        self._nodes = [f"n{number}" for number in range(NODES)]
        self._view = View({PoolID(DRIVER, node): held for node in self._nodes})
        self._ids = map("share-{}".format, itertools.count()).__next__

    def ask(self, seconds: float) -> Call:
        """Return how a call ends that has so much time."""
        began = time.thread_time()
        ends = began + seconds
        try:
            answers = self._planner.solve_nodes(
                self._view,
                self._claims,
                self._nodes,
                ids=self._ids,
                checks_size=True,
                out_of_time=lambda: time.thread_time() >= ends,
            )
        except CutOnNodeError:
            end = CUT
        except OutOfTimeError:
            end = LATE
        else:
            end = " and ".join(sorted({_describe(each) for each in answers.values()}))
        return Call(time.thread_time() - began, end)


def _describe(answer: SolverResult) -> str:
    return FITS if isinstance(answer, Solution) else f"{answer.outcome}"


def time_calls(shape: Shape) -> Call:
    """Return the slowest of some calls."""
    brief = CutAlarm()
    brief.seconds = USUAL_SECONDS
    asker = _Asker(shape, brief)
    return max(asker.ask(CALL_SECONDS) for _ in range(_CALLS))


def run() -> None:
    """Print the listed shapes: the slowest call, and one in a copy, which ends after 500 ms a node.

    Ends the process if a call takes far too long, or if a shape does not fit whose name says so.
    """
    limit = f"{CALL_SECONDS * 1e3:.0f} ms"
    print(f"calls that end after {limit}, and how they end in a copy of the process")
    for name, shape in SHAPES.items():
        slowest, whole = time_calls(shape), _Asker(shape).ask(math.inf)
        print(
            f"  {name:<32}{slowest.seconds * 1e3:5.0f} ms  {slowest.end:<16}"
            f"{whole.seconds * 1e3:7.0f} ms  {whole.end}"
        )
        if slowest.seconds > MOST_SECONDS:
            raise SystemExit(f"{name}: a call takes more than {MOST_SECONDS * 1e3:.0f} ms")
        if name.endswith(" fit") != (whole.end == FITS):
            raise SystemExit(f"{name}: {whole.end}")
