"""What the Configuration looks like: its fields in words, as JSON Schema, as a page.

All of it is made from the model, so that none of it can say something else. Knows nothing of files
and nothing of what fields do.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from config import string_formats
from config.available_fields import (
    AVAILABLE_FIELDS,
    AvailableFields,
    is_available,
    is_partly_available,
)
from config.model import REQUIRED, Configuration
from dra.quantity import Quantity

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
UNAVAILABLE: Final = "Not available in this version."


class FieldRow(NamedTuple):
    """One field: its dotted place, type and default in words, prose, the struct it stands in.

    In a place, `[]` stands for the entries of a list and `{}` for those of a map.
    """

    place: str
    type: str
    default: str
    says: str
    inside: str


def _rows(info: inspect.Type, place: str) -> Iterator[FieldRow]:
    """Every field in what `info` describes, an object before what is in it."""
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                at = f"{place}.{field.encode_name}" if place else field.encode_name
                yield FieldRow(
                    at, describe_type(field.type), _default(field), _said(field.type), cls.__name__
                )
                yield from _rows(field.type, at)
        case inspect.Metadata(type=inner):
            yield from _rows(inner, place)
        case inspect.VarTupleType(item_type=item):
            yield from _rows(item, f"{place}[]")
        case inspect.DictType(value_type=item):
            yield from _rows(item, f"{place}{{}}")
        case inspect.UnionType(types=types):
            for member in types:
                yield from _rows(member, place)


def _said(info: inspect.Type) -> str:
    known = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((known or {}).get("description", ""))


def describe_type(info: inspect.Type) -> str:  # noqa: PLR0911  # one line for each kind of type
    """The type in a reader's words."""
    match info:
        case inspect.Metadata(type=inner):
            return describe_type(inner)
        case inspect.UnionType(types=types):
            given = [each for each in types if not isinstance(each, inspect.NoneType)]
            return " or ".join(describe_type(each) for each in given)
        case inspect.VarTupleType(item_type=item):
            return f"list of {describe_type(item)}"
        case inspect.DictType(key_type=key, value_type=item):
            return f"map of {describe_type(key)} to {describe_type(item)}"
        case inspect.CustomType(cls=cls) if issubclass(cls, string_formats.Text):
            return cls.NAME
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in sorted(map(str, values)))
        case inspect.EnumType(cls=enumeration):
            return ", ".join(f"`{member.value}`" for member in enumeration)
        case _:
            return _simple(info)


def _simple(info: inspect.Type) -> str:  # noqa: PLR0911  # the same
    match info:
        case inspect.IntType(ge=low, le=high) if high is not None:
            return f"number from {low} to {high}"
        case inspect.IntType(ge=low) if low is not None:
            return f"number, at least {low}"
        case inspect.StructType():
            return "object"
        case inspect.BoolType():
            return "`true`, `false`"
        case inspect.CustomType(cls=cls) if issubclass(cls, Quantity):
            return "quantity"
        case inspect.FloatType():
            return "number"
        case _:
            return "text"


def _default(field: inspect.Field) -> str:
    """The default as it would be written; nothing for a required field."""
    if field.required or field.encode_name in REQUIRED:
        return "required"
    made = field.default_factory
    value = field.default if made is msgspec.NODEFAULT else made()
    if value is None:
        return "not set"
    # An object's defaults are those of its fields.
    return "" if isinstance(value, msgspec.Struct) else f"`{_json(value)}`"


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value, enc_hook=string_formats.to_plain)).strip('"')


ROWS: Final = tuple(_rows(inspect.type_info(Configuration), ""))
PLACES: Final = frozenset(row.place for row in ROWS)


def unavailable_rows(built: AvailableFields) -> tuple[FieldRow, ...]:
    """The outermost fields that are declared but not honoured."""
    shut = [
        row
        for row in ROWS
        if not is_available(row.place, built) and not is_partly_available(row.place, built)
    ]
    places = dict.fromkeys((row.place for row in shut), ())
    return tuple(row for row in shut if not is_available(row.place, _without(places, row.place)))


def _without(places: AvailableFields, place: str) -> AvailableFields:
    return {each: () for each in places if each != place}


def configuration_schema(built: AvailableFields = AVAILABLE_FIELDS) -> dict[str, Any]:
    """The JSON Schema; what is not available is marked, and refused by it as by the loader."""
    _, defs = msgspec.json.schema_components(
        [Configuration], schema_hook=string_formats.json_schema, ref_template="#/$defs/{name}"
    )
    for row in unavailable_rows(built):
        field = defs[row.inside]["properties"][row.place.rpartition(".")[2]]
        field["description"] = f"{field['description']} {UNAVAILABLE}"
        field["not"] = {}
    whole = defs.pop(Configuration.__name__)
    for place, values in built.items():
        if values:
            field = whole["properties"][place]
            field["description"] += f" In this version only {' or '.join(values)}."
            field["enum"] = list(values)
            field.pop("$ref", None)
    whole["required"] = list(REQUIRED)
    return {"$schema": DIALECT, **whole, "$defs": defs}


def render_page(built: AvailableFields = AVAILABLE_FIELDS) -> str:
    """Render the reference page of all fields, `docs/configuration.md`."""
    refused = unavailable_rows(built)
    shut = {row.place: () for row in refused}
    lines = [
        *_INTRODUCTION.splitlines(),
        "",
        "## Fields",
        "",
        *_table([row for row in ROWS if not is_available(row.place, shut)], built),
        "",
        "## Declared, not yet available",
        "",
        "These fields are part of the format. Their features are not in this version, so a file",
        "that uses one is refused (`FieldUnavailable`) rather than accepted without effect.",
        "",
        *_table([row for row in ROWS if is_available(row.place, shut)], built),
    ]
    return "\n".join(lines) + "\n"


_INTRODUCTION: Final = r"""# Configuration

One file decides how Drawbridge behaves. It is strict: an unknown field, a value of the wrong
kind or a field without effect is an error that names the place. Nothing has to be set: the
defaults are right for somebody who only labels a namespace. This page is generated from the
types in the code (`make docs`).

A file with everything this version honours, explained line by line, is
[examples/configuration.yaml](../examples/configuration.yaml). What a file means once the
defaults are filled in:

```console
$ drawbridge config print
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: native
scope:
  excludeNamespaces:
  - kube-system
  rollout:
    percent: 100
legacy:
  renames: {}
  units: {}
  defaults: {}
  networks: {}
  labels: {}
targets: []
decisions:
  allowLossOf: []
  nativeExtendedNames: leave
findings: {}
compatibility: []
unsetGroups: alone
```

`--config FILE` does the same for a file, and says everything that is wrong with it:

```console
$ printf 'fleet: []\nunsetgroups: all\n' | drawbridge config print --config -
<stdin>:1: error: Configuration fleet: fleet is not available in this version: it would have no effect [FieldUnavailable]
...
<stdin>:2: error: Configuration unsetgroups: there is no field unsetgroups here; did you mean unsetGroups? [FieldUnknown]
    Correct the spelling or take the field out.
```

`drawbridge config schema` prints a JSON Schema for editors and pipelines.
"""  # noqa: E501  # what is printed is not wrapped


def _table(chosen: list[FieldRow], built: AvailableFields) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for row in chosen:
        values = built.get(row.place)
        only = f" In this version only `{'`, `'.join(values)}`." if values else ""
        yield f"| `{row.place}` | {row.type} | {row.default} | {row.says}{only} |"
