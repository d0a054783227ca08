"""Finds fields that an API version of an object does not have, so that the API server drops them.

Compares the `spec` of an object with its wire type. A misspelt or misplaced field would otherwise
only be missed where it was needed. A field is misplaced if it belongs one level deeper, such as
`deviceClassName` in `exactly`, or if it wraps fields that belong in its place, such as `basic`.
That is often the form of another API version.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

from msgspec import inspect

from drawbridge.dra import codes
from drawbridge.dra.counted import count_noun, join_words
from drawbridge.dra.decode import Object, Reader
from drawbridge.dra.decode_errors import last_path_element
from drawbridge.dra.similar_names import suggest
from drawbridge.finding import Finding

# Objects of which only labels and annotations are decoded.
_METADATA: Final = "metadata"
_Check: TypeAlias = Callable[[object], bool]


class _IgnoredField(NamedTuple):
    """A field that its struct does not have; `general` is the path of the struct without indices.

    `inside` is the field of the struct that has this field.
    """

    name: str
    struct: inspect.StructType
    general: str
    path: str
    inside: str = ""
    is_wrapper: bool = False


class IgnoredFields:
    """Finds ignored fields of the kinds of some readers; caches the types."""

    def __init__(self, *readers: Reader[Any]) -> None:
        self._readers = {each.kind: each for each in readers}
        self._types: dict[type[Object], inspect.Type] = {}
        self._checks: dict[type[Object], _Check | None] = {}

    def find(self, value: object, about: str) -> tuple[Finding, ...]:
        """Return a finding for each unknown field; equal fields of a list are counted."""
        if not isinstance(value, Mapping):
            return ()
        reader, version = self._readers.get(f"{value.get('kind')}"), f"{value.get('apiVersion')}"
        if reader is None or version not in reader.shapes:
            return ()
        shape = reader.shapes[version]
        spec = _step(self._type(shape), "spec")
        if shape not in self._checks:
            self._checks[shape] = _make_check(spec)
        if (has_only_fields := self._checks[shape]) and has_only_fields(value.get("spec")):
            return ()
        groups: dict[tuple[str, str], list[_IgnoredField]] = {}
        for field in _walk(value.get("spec"), spec, "spec", "spec"):
            groups.setdefault((field.general, field.inside or f".{field.name}"), []).append(field)
        return tuple(self._describe(each, reader, version, about) for each in groups.values())

    def _type(self, shape: type[Object]) -> inspect.Type:
        if shape not in self._types:
            self._types[shape] = inspect.type_info(shape)
        return self._types[shape]

    def _describe(
        self, fields: Sequence[_IgnoredField], reader: Reader[Any], version: str, about: str
    ) -> Finding:
        """Return the finding about equal fields, or about fields with the same place."""
        first = fields[0]
        path = f"{first.path}.{first.name}"
        count = len({each.path for each in fields})
        where = f" in {count_noun(count, 'place')}" if count > 1 else ""
        if not first.inside and not first.is_wrapper:
            hint = suggest(first.name, (each.encode_name for each in first.struct.fields))
            message = f"unknown field {first.name}{where} is ignored{hint}"
            return codes.FIELD_IGNORED.at(path, message, object=about)
        other = self._find_version(reader, first)
        form = (
            f": this is the form of {other.rpartition('/')[2]}, but apiVersion is {version}"
            if other
            else ""
        )
        instead = f", or set apiVersion to {other}" if other else ""
        names = list(dict.fromkeys(each.name for each in fields))
        if first.is_wrapper:
            message = f"the fields in {first.name} belong directly in"
            message = f"{message} {last_path_element(first.path)}{where}{form}"
            remedy = f"Move the fields up and remove {first.name}{instead}."
        else:
            verb = "belongs" if len(names) == 1 else "belong"
            place = f"{last_path_element(first.path)}.{first.inside}"
            message = f"{join_words(names, 'and')} {verb} in {place}{where}{form}"
            remedy = f"Move {join_words(names, 'and')} into {place}{instead}."
        return codes.FIELD_MISPLACED.at(path, message, object=about, remedy=remedy)

    def _find_version(self, reader: Reader[Any], field: _IgnoredField) -> str:
        """Return the newest API version that has a field where it is; empty if none has."""
        for version, shape in reader.shapes.items():
            info: inspect.Type | None = self._type(shape)
            for step in (*re.findall(r"\[\]|[^.\[\]]+", field.general), field.name):
                info = _step(info, step)
            if info is not None:
                return version
        return ""


def _step(info: inspect.Type | None, step: str) -> inspect.Type | None:
    """Return the type of a field of a struct, or of the elements (`[]`) of a list or map."""
    match _without_null(info):
        case inspect.StructType() as info:
            return next((each.type for each in info.fields if each.encode_name == step), None)
        case (inspect.VarTupleType() | inspect.ListType()) as info if step == "[]":
            return info.item_type
        case inspect.DictType() as info if step == "[]":
            return info.value_type
        case _:
            return None


def _without_null(info: inspect.Type | None) -> inspect.Type | None:
    """Return the type of an optional value that is there."""
    if not isinstance(info, inspect.UnionType):
        return info
    members = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    return members[0] if len(members) == 1 else None


@dataclass(frozen=True, slots=True)
class _StructCheck:
    """Tells whether a value has only fields of its struct, and their values, too."""

    names: frozenset[str]
    inner: Sequence[tuple[str, _Check]]

    def __call__(self, value: object) -> bool:
        """Return whether the value has no other fields."""
        if not isinstance(value, dict):
            return not isinstance(value, Mapping)
        if not value.keys() <= self.names:
            return False
        return not self.inner or all(
            check(value[name]) for name, check in self.inner if name in value
        )

    def all_of(self, values: Collection[object]) -> bool:
        """Return whether no value of a list or a map has other fields."""
        if self.inner or not set(map(type, values)) <= {dict}:
            return all(map(self, values))
        # Most structs by far are attributes: five times as fast for them.
        return all(map(self.names.issuperset, cast("Collection[dict[str, object]]", values)))


def _make_check(info: inspect.Type | None) -> _Check | None:
    """Make the function that tells whether a value has only fields of its type.

    A slice has thousands of fields, and most slices have no other. None if a value of the type has
    no fields of structs.
    """
    match _without_null(info):
        case inspect.StructType() as info:
            inner = [
                (field.encode_name, check)
                for field in info.fields
                if field.encode_name != _METADATA and (check := _make_check(field.type))
            ]
            return _StructCheck(frozenset(field.encode_name for field in info.fields), inner)
        case (inspect.VarTupleType() | inspect.ListType()) as info:
            of_item = _make_check(info.item_type)
            return of_item and partial(_all_items, of_item)
        case inspect.DictType() as info:
            of_value = _make_check(info.value_type)
            return of_value and partial(_all_values, of_value)
        case _:
            return None


def _all_items(check: _Check, value: object) -> bool:
    return not isinstance(value, list | tuple) or _all(check, value)


def _all_values(check: _Check, value: object) -> bool:
    if not isinstance(value, dict):
        return not isinstance(value, Mapping)
    return _all(check, value.values())


def _all(check: _Check, values: Collection[object]) -> bool:
    return check.all_of(values) if isinstance(check, _StructCheck) else all(map(check, values))


def _walk(
    value: object, info: inspect.Type | None, general: str, path: str
) -> Iterator[_IgnoredField]:
    match _without_null(info):
        case inspect.StructType() as info if isinstance(value, Mapping):
            for name, inner in value.items():
                field = _step(info, name)
                if field is None:
                    yield _place(f"{name}", inner, info, general, path)
                elif name != _METADATA:
                    yield from _walk(inner, field, f"{general}.{name}", f"{path}.{name}")
        case (inspect.VarTupleType() | inspect.ListType()) as info if isinstance(
            value, list | tuple
        ):
            for i, element in enumerate(value):
                yield from _walk(element, info.item_type, f"{general}[]", f"{path}[{i}]")
        case inspect.DictType() as info if isinstance(value, Mapping):
            for key, element in value.items():
                yield from _walk(element, info.value_type, f"{general}[]", f"{path}[{key}]")


def _place(
    name: str, value: object, info: inspect.StructType, general: str, path: str
) -> _IgnoredField:
    """Return an ignored field with the place where it belongs, if that is near."""
    names = [each.encode_name for each in info.fields]
    inside = next((each for each in names if _step(_step(info, each), name) is not None), "")
    wraps = isinstance(value, Mapping) and bool(value) and all(key in names for key in value)
    return _IgnoredField(name, info, general, path, inside, is_wrapper=wraps and not inside)
