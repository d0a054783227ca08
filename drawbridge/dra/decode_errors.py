"""Find every error, with its path, in a value that msgspec cannot decode.

msgspec stops at the first error and omits map keys in paths. The walker compares the plain value
with the same struct types and reports all errors, such as `spec.devices[3].attributes[model].int`.
It drops nulls of optional fields, as the API server does, so that a value without findings decodes.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from drawbridge.brief import whole
from drawbridge.dra import codes
from drawbridge.dra.counted import join_words
from drawbridge.dra.opaque_json import OpaqueJSON
from drawbridge.dra.similar_names import find_similar, suggest
from drawbridge.finding import Code, Finding

# Bounds the memory and time for a hostile object.
MAX_FINDINGS = 1000
_MAX_SHOWN = 40  # characters of a value

# Converts a plain value to a type that msgspec does not support. Raises ValueError.
Hook = Callable[[type, Any], object]


class Schema:
    """The expected type of a value, and the hook for custom types inside it."""

    def __init__(self, shape: Any, hook: Hook | None = None) -> None:  # noqa: ANN401  # any type form
        self.shape = shape
        self.hook = hook

    @property
    def info(self) -> inspect.Type:
        """The description of the shape, which only the walker needs."""
        return _describe(self.shape)


@lru_cache(maxsize=256)
@whole
def _describe(shape: Any) -> inspect.Type:  # noqa: ANN401  # any type form
    # Our types alone determine how long this takes. Interrupted, it would begin again each time.
    return inspect.type_info(shape)


class WalkResult(NamedTuple):
    """The value without nulls of optional fields, and its errors."""

    value: object
    findings: tuple[Finding, ...]


def walk(value: object, schema: Schema, *, path: str = "", object: str = "") -> WalkResult:  # noqa: A002  # a field of Finding
    """Find every error in `value`. Paths in findings start with `path`."""
    walker = _Walker(schema.hook, object)
    try:
        walked = walker.value(value, schema.info, path)
    except _ErrorLimitError:
        message = (
            f"there are more than {MAX_FINDINGS} errors; the remaining errors are not reported"
        )
        walker.findings.append(codes.MORE_ERRORS.at(path, message, object=object))
        walked = value
    return WalkResult(walked, tuple(walker.findings))


def convert(
    value: object,
    schema: Schema,
    *,
    path: str = "",
    object: str = "",  # noqa: A002  # a field of Finding
) -> Any:  # noqa: ANN401  # an instance of the schema's shape
    """Convert a plain value to the type of the schema. Return a tuple of findings on errors."""
    try:
        return msgspec.convert(value, schema.shape, dec_hook=schema.hook)
    except (msgspec.ValidationError, RecursionError, ValueError, TypeError):
        pass
    walked = walk(value, schema, path=path, object=object)
    if walked.findings:
        return walked.findings
    try:
        return msgspec.convert(walked.value, schema.shape, dec_hook=schema.hook)
    except (msgspec.ValidationError, RecursionError, ValueError, TypeError) as error:
        # msgspec checks more than the walker, for example length constraints.
        return (codes.WRONG_VALUE.at(path, f"{error}", object=object),)


class _ErrorLimitError(Exception):
    """One object has more errors than the limit."""


class _Walker:
    """One walk: collects findings up to the limit."""

    def __init__(self, hook: Hook | None, about: str) -> None:
        self.hook = hook
        self.about = about
        self.findings: list[Finding] = []

    def add(self, code: Code, path: str, message: str, remedy: str | None = None) -> None:
        if len(self.findings) == MAX_FINDINGS:
            raise _ErrorLimitError
        self.findings.append(code.at(path, message, object=self.about, remedy=remedy))

    def wrong_type(self, path: str, info: inspect.Type, value: object) -> object:
        field, expected = last_path_element(path), describe_type(info)
        message = f"{field} must be {expected}, not {describe_value(value)}"
        words = [str(each) for each in _enumerated(info)]
        if words and isinstance(value, str):
            remedy = f"Set {field} to {find_similar(value, words) or expected}."
            self.add(codes.WRONG_VALUE, path, f"{message}{_hint(value, words)}", remedy)
        else:
            other = self._wrapped(value, info) or _type_remedy(field, expected, value)
            self.add(codes.WRONG_TYPE, path, message, other)
        return value

    def _wrapped(self, value: object, info: inspect.Type) -> str | None:
        """Return the object to write instead of a scalar, if one of its fields is enough."""
        is_scalar = isinstance(value, int | float) or _is_short(value)
        if not isinstance(info, inspect.StructType) or not is_scalar:
            return None
        required = [each for each in info.fields if each.required]
        for field in required if len(required) == 1 else () if required else info.fields:
            trial = _Walker(self.hook, self.about)
            trial.value(value, field.type, "")
            if not trial.findings:
                written = value if isinstance(value, str) else describe_value(value)
                return f"Write the value in a field: {{{field.encode_name}: {written}}}."
        return None

    def value(self, value: object, info: inspect.Type, path: str) -> object:  # noqa: PLR0911  # one per kind of type
        match info:
            case inspect.Metadata():
                return self.value(value, info.type, path)
            case inspect.StructType():
                return self.struct(value, info, path)
            case inspect.DictType():
                return self.map(value, info, path)
            case inspect.VarTupleType() | inspect.ListType():
                return self.list(value, info, path)
            case inspect.UnionType():
                return self.union(value, info, path)
            case inspect.CustomType():
                return self.custom(value, info, path)
            case inspect.RawType():
                return self.raw(value, path)
            case inspect.AnyType():
                return value
            case _:
                return self.scalar(value, info, path)

    def struct(self, value: object, info: inspect.StructType, path: str) -> object:
        if not isinstance(value, Mapping):
            return self.wrong_type(path, info, value)
        walked: dict[str, object] = {}
        for field in info.fields:
            name = field.encode_name
            at = f"{path}.{name}" if path else name
            if value.get(name) is not None:
                walked[name] = self.value(value[name], field.type, at)
            elif field.required:
                hint = _misspelt(name, value, info)
                self.add(codes.FIELD_MISSING, at, f"{name} is required{hint}")
        if info.forbid_unknown_fields:
            self.unknown(value, info, path)
        return walked

    def unknown(self, value: Mapping[Any, object], info: inspect.StructType, path: str) -> None:
        names = {field.encode_name for field in info.fields}
        for name in value:
            if name not in names:
                at = f"{path}.{name}" if path else f"{name}"
                hint = suggest(f"{name}", names)
                within = getattr(info.cls, "ENTRIES_FIELD", "")
                remedy = None
                if within and not hint and _is_short(value[name]):
                    remedy = f"Write it in {within}: {{{within}: {{{name}: {value[name]}}}}}."
                self.add(codes.FIELD_UNKNOWN, at, f"unknown field {name}{hint}", remedy)

    def map(self, value: object, info: inspect.DictType, path: str) -> object:
        if not isinstance(value, Mapping):
            return self.wrong_type(path, info, value)
        walked = {}
        for key, item in value.items():
            at = f"{path}[{key}]"
            if not isinstance(key, str):
                self.add(codes.WRONG_TYPE, at, f"the key {key} must be a string: quote it")
            else:
                if isinstance(
                    info.key_type, inspect.CustomType
                ):  # msgspec does not call the hook for keys
                    self.custom(key, info.key_type, at, key)
                walked[key] = self.value(item, info.value_type, at)
        return walked

    def list(
        self, value: object, info: inspect.VarTupleType | inspect.ListType, path: str
    ) -> object:
        if not isinstance(value, list | tuple):
            return self.wrong_type(path, info, value)
        return [self.value(each, info.item_type, f"{path}[{i}]") for i, each in enumerate(value)]

    def union(self, value: object, info: inspect.UnionType, path: str) -> object:
        """Return the value of the first member without errors."""
        members = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        if value is None and len(members) < len(info.types):
            return value
        if len(members) == 1:
            return self.value(value, members[0], path)
        for member in members:
            trial = _Walker(self.hook, self.about)
            walked = trial.value(value, member, path)
            if not trial.findings:
                return walked
        return self.wrong_type(path, info, value)

    def custom(
        self, value: object, info: inspect.CustomType, path: str, subject: str = ""
    ) -> object:
        """Check a value; a message names the `subject`, by default the last element of the path."""
        if self.hook is None:
            return value
        try:
            self.hook(info.cls, value)
        except (ValueError, TypeError) as error:
            self.add(codes.WRONG_VALUE, path, f"{subject or last_path_element(path)}: {error}")
        return value

    def raw(self, value: object, path: str) -> object:
        """Return the JSON of a value that stays undecoded."""
        try:
            return msgspec.Raw(OpaqueJSON.of(value).raw)
        except ValueError as error:
            self.add(codes.WRONG_VALUE, path, f"{last_path_element(path)}: {error}")
            return value

    def scalar(self, value: object, info: inspect.Type, path: str) -> object:  # noqa: PLR0911  # one per kind of type
        match info, value:
            case inspect.BoolType(), bool():
                return value
            case inspect.IntType(), int() if not isinstance(value, bool):
                return self.bounded(value, info, path)
            case inspect.FloatType(), int() | float() if not isinstance(value, bool):
                return value
            case inspect.StrType(), str():
                return value
            case (inspect.LiteralType(values=allowed), _) if value in allowed:
                return value
            case inspect.EnumType(cls=cls), _ if value in [member.value for member in cls]:
                return value
        return self.wrong_type(path, info, value)

    def bounded(self, value: int, info: inspect.IntType, path: str) -> object:
        low, high = info.ge, info.le
        if (low is not None and value < low) or (high is not None and value > high):
            message = (
                f"{last_path_element(path)} is {describe_value(value)}, outside {low} to {high}"
            )
            self.add(codes.WRONG_VALUE, path, message)
        return value


def describe_type(info: inspect.Type) -> str:  # noqa: PLR0911  # one per kind of type
    """Describe the expected type for a message."""
    match info:
        case inspect.StrType():
            return "a string"
        case inspect.IntType():
            return "an integer"
        case inspect.FloatType():
            return "a number"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType() | inspect.EnumType():
            return join_words(map(str, _enumerated(info)), "or")
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case inspect.VarTupleType() | inspect.ListType():
            return "a list"
        case inspect.CustomType(cls=cls):
            return f"a {cls.__name__.lower()}"
        case inspect.UnionType(types=types):
            members = [each for each in types if not isinstance(each, inspect.NoneType)]
            describe = describe_type if len(members) == 1 else _describe_with_least
            return join_words(map(describe, members), "or")
        case _:
            return "another type"


def _describe_with_least(info: inspect.Type) -> str:
    """Describe one of several types: a number that is too small fits none of them."""
    least = info.ge if isinstance(info, inspect.IntType) else None
    return describe_type(info) if least is None else f"an integer of at least {least}"


def describe_choice(value: object, allowed: Collection[str]) -> str:
    """Say that a value must be an allowed word: `must be A or B, not "b"; did you mean B?`."""
    words = f"must be {join_words(allowed, 'or')}, not {describe_value(value)}"
    return f"{words}{_hint(value, allowed)}"


def _hint(value: object, allowed: Collection[str]) -> str:
    return suggest(value, allowed) if isinstance(value, str) and len(allowed) > 1 else ""


def _enumerated(info: inspect.Type) -> tuple[object, ...]:
    """Return the values of an enumeration; empty for types with other values."""
    match info:
        case inspect.LiteralType(values=values):
            return values
        case inspect.EnumType(cls=cls):
            return tuple(member.value for member in cls)
        case inspect.UnionType(types=types):
            return tuple(chain.from_iterable(map(_enumerated, types)))
        case _:
            return ()


def _type_remedy(field: str, expected: str, value: object) -> str | None:
    """Return what to write if only the quotes of a value are wrong; None for the usual remedy."""
    match expected, value:
        case "a string", bool():
            return (
                f"Quote the value of {field}. YAML reads y, n, yes, no, on and off without quotes "
                "as true or false."
            )
        case "a string", int() | float():
            return f'Quote the value: {field}: "{describe_value(value)}".'
        case ("an integer", str()) if _is_short(value) and value.isascii() and value.isdigit():
            return f"Remove the quotes: {field}: {value}."
        case "true or false", "true" | "false":
            return f"Remove the quotes: {field}: {value}."
        case _:
            return None


def _is_short(value: object) -> bool:
    """Whether a message or a remedy can repeat the whole value."""
    return isinstance(value, str) and len(value) <= _MAX_SHOWN


def describe_value(value: object) -> str:  # noqa: PLR0911  # one per kind of value
    """Describe a value of any size for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"' if _is_short(value) else f'"{value[: _MAX_SHOWN - 3]}..."'
        case int() if value.bit_length() > 128:
            return "a number of more than 38 digits"
        case int() | float():
            return str(value)
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _misspelt(name: str, value: Mapping[Any, object], info: inspect.StructType) -> str:
    """Return a hint if an unknown field is similar to the missing one."""
    names = {field.encode_name for field in info.fields}
    unknown = [f"{each}" for each in value if each not in names]
    near = find_similar(name, unknown)
    return f"; is it the unknown field {near}?" if near else ""


def last_path_element(path: str) -> str:
    """Return the last element of a path for a message: a field, or an entry of a list or map."""
    end = len(path)
    while path.endswith("]", 0, end):  # keys of maps may have dots
        end = max(path.rfind("[", 0, end), 0)
    return path[path.rfind(".", 0, end) + 1 :] or "the document"
