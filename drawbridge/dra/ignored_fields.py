"""Finds fields that no API version of an object has, so that the API server drops them.

Compares the `spec` of an object with its wire type. A misspelt field would otherwise only be missed
where it was needed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import inspect

from drawbridge.dra import codes
from drawbridge.dra.counted import count_noun
from drawbridge.dra.decode import Object, Reader
from drawbridge.dra.similar_names import suggest
from drawbridge.finding import Finding

# Objects of which only labels and annotations are decoded.
_METADATA: Final = "metadata"


class IgnoredFields:
    """Finds ignored fields of the kinds of some readers; caches the types."""

    def __init__(self, *readers: Reader[Any]) -> None:
        self._readers = {each.kind: each for each in readers}
        self._types: dict[type[Object], inspect.Type] = {}

    def find(self, value: object, about: str) -> tuple[Finding, ...]:
        """Return a finding for each unknown field; equal fields of a list are counted."""
        if not isinstance(value, Mapping):
            return ()
        reader = self._readers.get(f"{value.get('kind')}")
        shape = reader.shapes.get(f"{value.get('apiVersion')}") if reader else None
        if shape is None:
            return ()
        if shape not in self._types:
            self._types[shape] = inspect.type_info(shape)
        top = self._types[shape]
        fields = top.fields if isinstance(top, inspect.StructType) else ()
        spec = next((each.type for each in fields if each.encode_name == "spec"), None)
        unknown: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for general, path, hint in _walk(value.get("spec"), spec, "spec", "spec"):
            unknown.setdefault((general, hint), []).append((path, hint))
        return tuple(
            _describe(general, hint, [path for path, _ in found], about)
            for (general, hint), found in unknown.items()
        )


def _describe(general: str, hint: str, paths: list[str], about: str) -> Finding:
    name = general.rpartition(".")[2]
    where = f" in {count_noun(len(paths), 'place')}" if len(paths) > 1 else ""
    message = f"unknown field {name}{where} is ignored{hint}"
    return codes.FIELD_IGNORED.at(paths[0], message, object=about)


def _walk(
    value: object, info: inspect.Type | None, general: str, path: str
) -> Iterator[tuple[str, str, str]]:
    """Yield each unknown field: its path without indices, its path, and the nearest name."""
    match info:
        case inspect.UnionType():
            members = [each for each in info.types if not isinstance(each, inspect.NoneType)]
            if len(members) == 1:
                yield from _walk(value, members[0], general, path)
        case inspect.StructType() if isinstance(value, Mapping):
            yield from _walk_struct(value, info, general, path)
        case inspect.VarTupleType() | inspect.ListType() if isinstance(value, list | tuple):
            for i, element in enumerate(value):
                yield from _walk(element, info.item_type, f"{general}[]", f"{path}[{i}]")
        case inspect.DictType() if isinstance(value, Mapping):
            for key, element in value.items():
                yield from _walk(element, info.value_type, f"{general}[]", f"{path}[{key}]")


def _walk_struct(
    value: Mapping[Any, object], info: inspect.StructType, general: str, path: str
) -> Iterator[tuple[str, str, str]]:
    types = {field.encode_name: field.type for field in info.fields}
    for name, inner in value.items():
        if name in types:
            if name != _METADATA:
                yield from _walk(inner, types[name], f"{general}.{name}", f"{path}.{name}")
            continue
        yield f"{general}.{name}", f"{path}.{name}", suggest(f"{name}", types)
