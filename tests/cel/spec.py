"""Reads and evaluates the public CEL conformance tests.

The files are in the folder conformance/. Their values have protobuf's JSON form.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.cel.ast import Call, CelNode, Comprehension, Ident, MessageLiteral, Select, walk
from drawbridge.cel.checker import Checked, Resolved, ResolvedName
from drawbridge.cel.compile import compile_tree
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.environment import Environment
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.parser import parse
from drawbridge.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    type_of,
)
from drawbridge.cel.values import MISSING, CelValue, TypeValue, Uint, equal, make_map

FOLDER = Path(__file__).parent / "conformance"

Plain = dict[str, Any]


class Test(NamedTuple):
    """One conformance test, with its file and section."""

    file: str
    section: str
    plain: Plain

    @property
    def name(self) -> str:
        """Return the unique name of the test."""
        return f"{self.file}/{self.section}/{self.plain['name']}"


def tests() -> Iterator[Test]:
    """Yield all tests in the folder."""
    for path in sorted(FOLDER.glob("*.json")):
        for section in json.loads(path.read_text(encoding="utf-8"))["section"]:
            for plain in section["test"]:
                yield Test(path.stem, section["name"], plain)


def value(plain: Plain) -> CelValue:  # noqa: PLR0911  # one for each kind of value
    """Convert a value."""
    (kind, content), *_ = plain.items()
    match kind:
        case "int64_value":
            return int(content)
        case "uint64_value":
            return Uint(content)
        case "double_value":
            return float(content)
        case "bytes_value":
            return base64.b64decode(content)
        case "null_value":
            return None
        case "type_value":
            return TypeValue(content)
        case "list_value":
            return [value(each) for each in content.get("values", ())]
        case "map_value":
            entries = content.get("entries", ())
            return make_map((value(each["key"]), value(each["value"])) for each in entries)
        case "bool_value" | "string_value":
            return content
    raise NotImplementedError(kind)


_WELL_KNOWN = {"TIMESTAMP": TIMESTAMP, "DURATION": DURATION, "ANY": Type("any")}
_PRIMITIVE = {
    "BOOL": BOOL, "INT64": INT, "UINT64": UINT, "DOUBLE": DOUBLE, "STRING": STRING, "BYTES": BYTES,
}  # fmt: skip


def type_(plain: Plain) -> Type:  # noqa: C901, PLR0911  # one for each kind of type
    """Convert a type."""
    (kind, content), *_ = plain.items()
    match kind:
        case "primitive":
            return _PRIMITIVE[content]
        case "well_known":
            return _WELL_KNOWN[content]
        case "wrapper":
            return Type("wrapper", params=(_PRIMITIVE[content],))
        case "dyn":
            return DYN
        case "null":
            return NULL
        case "type":
            return type_of(type_(content) if content else DYN)
        case "type_param":
            return Type("param", content)
        case "list_type":
            return list_of(type_(content["elem_type"]))
        case "map_type":
            return map_of(type_(content["key_type"]), type_(content["value_type"]))
        case "abstract_type":
            return opaque(content["name"], *map(type_, content.get("parameter_types", ())))
    raise NotImplementedError(kind)


def environment(plain: Plain) -> Environment:
    """Return the environment that a test requires."""
    variables: dict[str, Type] = {}
    functions = []
    for declared in plain.get("type_env", ()):
        if "ident" in declared:
            variables[declared["name"]] = type_(declared["ident"]["type"])
        else:
            functions.append(_function(declared))
    given = (*libraries("1.37", stored=True), Library("test", tuple(functions)))
    return Environment(variables, given, "1.37")


def _function(declared: Plain) -> Function:
    overloads = tuple(
        Overload(
            overload["overload_id"],
            tuple(type_(param) for param in overload.get("params", ())),
            type_(overload["result_type"]),
            _unbound,
            member=overload.get("is_instance_function", False),
        )
        for overload in declared["function"]["overloads"]
    )
    return Function(declared["name"], overloads)


def _unbound(*_: CelValue) -> CelValue:
    raise EvaluationError("no_such_overload", "the function has no meaning")


def bindings(plain: Plain) -> Mapping[str, CelValue]:
    """Return the values of the variables."""
    return {name: value(bound["value"]) for name, bound in plain.get("bindings", {}).items()}


def answer(plain: Plain) -> tuple[CelValue, Type]:
    """Evaluate a test's expression; raises CompileError or EvaluationError."""
    made = environment(plain)
    if plain.get("disable_check"):
        return _unchecked(plain, made), DYN
    program = made.compile(plain["expr"])
    if plain.get("check_only"):
        return MISSING, program.type
    return program.evaluate(bindings(plain)).value, program.type


def _unchecked(plain: Plain, made: Environment) -> CelValue:
    """Evaluate without a checker: every name is a variable, every call is dispatched."""
    node = parse(plain["expr"], made._options)  # noqa: SLF001  # there is no public way around checks
    declared = made._declarations  # noqa: SLF001
    names: dict[int, ResolvedName] = {}
    calls: dict[int, Resolved] = {}
    given = bindings(plain)
    local = {
        name
        for child in walk(node)
        if isinstance(child, Comprehension)
        for name in (child.variable, child.second_variable, child.accumulator)
    }
    for part in walk(node):
        if isinstance(part, Ident | Select):
            if _spelt(part).partition(".")[0] in local:
                names |= {part.id: ResolvedName(part.name, None)} if isinstance(part, Ident) else {}
                continue
            name = _spelt(part).removeprefix(".")
            if name in given or isinstance(part, Ident):
                type_name = None if name in given else declared.types.get(name)
                names[part.id] = ResolvedName(name, type_name)
        elif isinstance(part, MessageLiteral):
            names[part.id] = ResolvedName(part.name, None)
        elif isinstance(part, Call):
            calls[part.id] = _resolved(part, declared.functions)
    used = tuple(dict.fromkeys(name.name for name in names.values()))
    checked = Checked(node, {}, names, calls, aggregates=())
    compiled = compile_tree(checked, used)
    frame = [0, 0, *(given.get(name, MISSING) for name in used), *[MISSING] * compiled.slots]
    return compiled.run(frame)


def _resolved(call: Call, functions: Mapping[str, Function]) -> Resolved:
    if isinstance(call.target, Ident | Select):
        qualified = functions.get(f"{_spelt(call.target)}.{call.function}")
        if qualified is not None:
            return Resolved(qualified, (), True)  # noqa: FBT003
    function = functions.get(call.function, Function(call.function, ()))
    return Resolved(function, (), False)  # noqa: FBT003


def _spelt(node: CelNode) -> str:
    if isinstance(node, Ident):
        return node.name
    return f"{_spelt(node.operand)}.{node.field}" if isinstance(node, Select) else "?"


def same(expected: CelValue, actual: CelValue) -> bool:
    """Tell whether two values are the same, NaN included."""
    if isinstance(expected, float) and expected != expected:  # noqa: PLR0124  # NaN
        return isinstance(actual, float) and actual != actual  # noqa: PLR0124
    if type(expected) is not type(actual) and not isinstance(expected, list | dict):
        return False
    return equal(expected, actual)
