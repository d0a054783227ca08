"""Every field of the Configuration has a reader, and changes an outcome."""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import yaml
from msgspec import inspect

from allocator.state.inputs import Inputs, make_state
from allocator.state.reports import ClaimFinding
from drawbridge.agreement.match_conditions import derive_conditions
from drawbridge.agreement.owned_pools import decide_node
from drawbridge.agreement.scope import PodMetadata, decide_pod_scope
from drawbridge.config.load import decode_configuration
from drawbridge.config.model import Configuration
from drawbridge.config.placement import owned_pools
from drawbridge.config.schema import ROWS
from drawbridge.dra.nodes import Node
from drawbridge.facts.model import Facts
from tests.allocator.clusters import gpu_slice, owns_all
from tests.allocator.test_live_state import live_state
from tests.allocator.test_vanished_pods import RELEASED, allocated, running
from tests.cli.running import command
from tests.config.test_load import HEAD
from tests.tables import every_row, read_yaml

ROOT: Final = Path(__file__).parent.parent.parent
EXAMPLE: Final = ROOT / "examples" / "configuration.yaml"
SAMPLES: Final = ROOT / "examples" / "inventory"
# They check, convert and describe every field.
NO_READERS: Final = {
    str(ROOT / f"drawbridge/config/{name}.py") for name in ("accept", "load", "schema")
}
CASES: Final = read_yaml((Path(__file__).parent / "cases" / "effects.yaml").read_text("utf-8"))
HEADER: Final = {"apiVersion", "kind"}  # they say what the file is
LABELS: Final = {"team": "research"}


class Case(NamedTuple):
    """A row with its files in a folder."""

    row: dict[str, Any]
    folder: Path

    def words(self, plain: dict[str, Any]) -> list[str]:
        """Return the options of a command for the files of the row and this configuration."""
        files = {"pods": self.row["pods"], "config": yaml.safe_dump({**HEAD, **plain})}
        words = ["-f", str(self.folder / "pods.yaml"), "--config", str(self.folder / "config.yaml")]
        if cluster := self.row.get("cluster"):
            files["cluster"] = "" if cluster == "SAMPLES" else cluster
            words += [
                "--cluster",
                str(SAMPLES if cluster == "SAMPLES" else self.folder / "cluster.yaml"),
            ]
        for name, text in files.items():
            value = text if isinstance(text, str) else yaml.safe_dump(text)
            (self.folder / f"{name}.yaml").write_text(value, "utf-8")
        return words


def _run(case: Case, plain: dict[str, Any]) -> object:
    question = case.row["question"]
    ours = question == "simulate" and plain.get("placement") == "bridge"
    words = ["--allocator", "drawbridge"] if ours else []
    return command(question, *case.words(plain), *words, "-o", "json")


def _decode(plain: dict[str, Any]) -> Configuration:
    configuration = decode_configuration({**HEAD, **plain})
    assert isinstance(configuration, Configuration), configuration
    return configuration


def _ask_scope(_: Case, plain: dict[str, Any]) -> object:
    return decide_pod_scope("team", LABELS, PodMetadata("a"), _decode(plain).scope)


def _ask_nodes(_: Case, plain: dict[str, Any]) -> object:
    return decide_node(owned_pools(_decode(plain)), LABELS)


def _ask_conditions(_: Case, plain: dict[str, Any]) -> object:
    return derive_conditions(_decode(plain))


def _ask_preemption(_: Case, plain: dict[str, Any]) -> object:
    async def ask() -> object:
        with patch("allocator.state.live_state.WaitingPods") as waiting:
            live_state(configuration=lambda: _decode(plain))
        return waiting.call_args.kwargs

    return {**asyncio.run(ask()), "server_time": None}


def _ask_vanished(_: Case, plain: dict[str, Any]) -> object:
    inputs = Inputs(_decode(plain), Facts())
    state = make_state(inputs, owns_all, serves_taint_rules=False)
    for each in (Node("n1"), gpu_slice("n1", 1), running(), allocated("p")):
        state.apply(None, each)
    state.apply(running(), None)
    state.apply(allocated("p"), RELEASED)
    return [each.finding.message for each in state.reports if isinstance(each, ClaimFinding)]


QUESTIONS: Final[dict[str, Callable[[Case, dict[str, Any]], object]]] = {
    "translate": _run,
    "check": _run,
    "simulate": _run,
    "scope": _ask_scope,
    "nodes": _ask_nodes,
    "conditions": _ask_conditions,
    "preemption": _ask_preemption,
    "vanished": _ask_vanished,
}


class _Recorder:
    """Stands for a field of a type, and records which files read it."""

    def __init__(self, field: Any, readers: set[str]) -> None:  # noqa: ANN401  # a descriptor
        self._field = field
        self._readers = readers

    def __get__(self, part: object, owner: type | None = None) -> object:
        if part is None:
            return self._field
        self._readers.add(sys._getframe(1).f_code.co_filename)  # noqa: SLF001  # who reads it
        return self._field.__get__(part, owner)

    def __set__(self, part: object, value: object) -> None:
        self._field.__set__(part, value)


def _find_fields(info: inspect.Type, place: str) -> Iterator[tuple[str, type, str]]:
    """Yield the place of each field of a type, with the type and the attribute that hold it."""
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                at = f"{place}.{field.encode_name}" if place else field.encode_name
                yield at, cls, field.name
                yield from _find_fields(field.type, at)
        case inspect.Metadata(type=inner):
            yield from _find_fields(inner, place)
        case inspect.VarTupleType(item_type=item):
            yield from _find_fields(item, f"{place}[]")
        case inspect.UnionType(types=types):
            for member in types:
                yield from _find_fields(member, place)


FIELDS: Final = {
    place: (cls, name) for place, cls, name in _find_fields(inspect.type_info(Configuration), "")
}


@contextmanager
def _recorded(places: Collection[str]) -> Iterator[dict[str, set[str]]]:
    readers: dict[str, set[str]] = {place: set() for place in places}
    replaced = [(*FIELDS[place], place) for place in places]
    originals = [(cls, name, cls.__dict__[name]) for cls, name, _ in replaced]
    for cls, name, place in replaced:
        setattr(cls, name, _Recorder(cls.__dict__[name], readers[place]))
    try:
        yield readers
    finally:
        for cls, name, field in originals:
            setattr(cls, name, field)


def test_every_field_has_a_case_that_it_changes() -> None:
    covered = [place for case in CASES for place in case["fields"]]
    assert sorted(covered) == sorted({row.place for row in ROWS} - HEADER)


def _find_places(value: object, place: str = "") -> Iterator[str]:
    if place in FIELDS:
        yield place.partition("elector.")[2] or place
    if isinstance(value, dict) and (
        not place or any(each.startswith(f"{place}.") for each in FIELDS)
    ):
        for name, item in value.items():
            yield from _find_places(item, f"{place}.{name}" if place else name)
    for item in value if isinstance(value, list) else ():
        yield from _find_places(item, f"{place}[]")


def test_the_example_sets_every_field() -> None:
    wanted = {place.partition("elector.")[2] or place for place in FIELDS}
    assert set(_find_places(read_yaml(EXAMPLE.read_text("utf-8")))) == wanted


@every_row("row", CASES, ids=lambda row: row["fields"][0])
def test_a_field_is_read_and_changes_an_outcome(row: dict[str, Any], tmp_path: Path) -> None:
    case = Case(row, tmp_path)
    ask = QUESTIONS[row["question"]]
    before = ask(case, row["before"])
    with _recorded(row["fields"]) as readers:
        after = ask(case, row["after"])
    assert before != after
    assert [place for place, files in readers.items() if files <= NO_READERS] == []
