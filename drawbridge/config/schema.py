"""Generate the JSON Schema and the reference page of the Configuration from its types."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from drawbridge.config import string_formats
from drawbridge.config.model import REQUIRED, Configuration

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class FieldRow(NamedTuple):
    """One field of the reference page.

    `place` is the dotted path, with `[]` for the entries of a list and `{}` for those of a map.
    `struct` is the name of the type that contains the field.
    """

    place: str
    type: str
    default: str
    description: str
    struct: str


def _rows(info: inspect.Type, place: str) -> Iterator[FieldRow]:
    """Yield the fields of a type, each object before its own fields."""
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            for field in fields:
                at = f"{place}.{field.encode_name}" if place else field.encode_name
                yield FieldRow(
                    at,
                    describe_type(field.type),
                    _default(field),
                    _description(field.type),
                    cls.__name__,
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


def _description(info: inspect.Type) -> str:
    schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def describe_type(info: inspect.Type) -> str:  # noqa: PLR0911  # one line for each kind of type
    """Describe a type for the reference page."""
    match info:
        case inspect.Metadata(type=inner):
            return describe_type(inner)
        case inspect.UnionType(types=types):
            members = [each for each in types if not isinstance(each, inspect.NoneType)]
            return " or ".join(describe_type(each) for each in members)
        case inspect.VarTupleType(item_type=item):
            return f"list of {describe_type(item)}"
        case inspect.DictType(key_type=key, value_type=item):
            return f"map of {describe_type(key)} to {describe_type(item)}"
        case inspect.CustomType(cls=cls) if issubclass(
            cls, string_formats.Text | string_formats.NonNegativeQuantity
        ):
            return cls.NAME
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in sorted(map(str, values)))
        case inspect.EnumType(cls=enumeration):
            return ", ".join(f"`{member.value}`" for member in enumeration)
        case _:
            return _simple(info)


def _simple(info: inspect.Type) -> str:
    match info:
        case inspect.IntType(ge=low, le=high) if high is not None:
            return f"number from {low} to {high}"
        case inspect.IntType(ge=low) if low is not None:
            return f"number, at least {low}"
        case inspect.StructType():
            return "object"
        case inspect.BoolType():
            return "`true`, `false`"
        case inspect.FloatType():
            return "number"
        case _:
            return "text"


def _default(field: inspect.Field) -> str:
    """Return the default as written in a file, or "required"."""
    if field.required or field.encode_name in REQUIRED:
        return "required"
    made = field.default_factory
    value = field.default if made is msgspec.NODEFAULT else made()
    if value is None:
        return "not set"
    # The rows of its fields show the defaults of an object.
    return "" if isinstance(value, msgspec.Struct) else f"`{_json(value)}`"


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value, enc_hook=string_formats.to_plain)).strip('"')


ROWS: Final = tuple(_rows(inspect.type_info(Configuration), ""))


def configuration_schema() -> dict[str, Any]:
    """Return the JSON Schema."""
    _, defs = msgspec.json.schema_components(
        [Configuration], schema_hook=string_formats.json_schema, ref_template="#/$defs/{name}"
    )
    root = defs.pop(Configuration.__name__)
    root["required"] = list(REQUIRED)
    return {"$schema": DIALECT, **root, "$defs": defs}


def render_page() -> str:
    """Render the reference page of all fields, `docs/configuration.md`."""
    lines = [
        *_INTRODUCTION.splitlines(),
        "",
        "## Fields",
        "",
        *_table([row for row in ROWS if not _OF_SELECTOR.search(row.place)]),
        "",
        "## Selectors",
        "",
        "Each selector above is a label selector of Kubernetes.",
        "",
        *_table(_selector_rows()),
    ]
    return "\n".join(lines) + "\n"


def _selector_rows() -> list[FieldRow]:
    """Return the fields of a selector, which are those of all selectors, from the selector on."""
    places = ((row, _OF_SELECTOR.search(row.place)) for row in ROWS)
    return list({found[1]: row._replace(place=found[1]) for row, found in places if found}.values())


# A field of a selector, whatever has the selector.
_OF_SELECTOR: Final = re.compile(r"elector\.(match.*)")
_INTRODUCTION: Final = r"""# Configuration

One file configures Drawbridge. Loading is strict: an unknown field, a value of the wrong type or
a field without effect is an error that names the field. Only the fields of bridge placement may stay
with `placement: native`; `drawbridge check -v` names them (`BridgeNotUsed`). No field is mandatory
except `apiVersion` and `kind`: with the defaults, it is enough to label a namespace. This page is
generated from the types in the code (`make docs`).

[examples/configuration.yaml](../examples/configuration.yaml) sets every field and explains each
one. `drawbridge config print` prints the configuration with all defaults.

With `--config FILE`, the command prints the configuration of a file, or all of its errors:

```console
$ printf 'scope: {rollout: {percent: 101}}\nunsetgroups: all\n' | drawbridge config print --config -
...
<stdin>:1: error: Configuration scope.rollout.percent: percent is 101, outside 0 to 100 [WrongValue]
...
<stdin>:2: error: Configuration unsetgroups: unknown field unsetgroups; did you mean unsetGroups? [FieldUnknown]
    Correct the spelling or remove the field.
```

`drawbridge config schema` prints the JSON Schema of the file for editors and CI pipelines.
"""  # noqa: E501  # what is printed is not wrapped


def _table(chosen: list[FieldRow]) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for row in chosen:
        yield f"| `{row.place}` | {row.type} | {row.default} | {row.description} |"
