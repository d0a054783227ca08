"""Tables of cases: YAML that reads like a specification, with a shorthand for what is long.

`{$text: 65}` is a text of so many letters; `{$list: 33, of: ...}` so many copies, with `$i` in
texts and keys replaced by the number of the copy; `{$map: 33, key: ..., of: ...}` likewise.
"""

from pathlib import Path
from typing import Any, TypeAlias

import yaml

# What YAML and JSON give: tables are taken apart without saying their types again.
YamlValue: TypeAlias = Any


def load_cases(table: Path) -> list[YamlValue]:
    """Read the cases of a table, in order, with the shorthand written out."""
    read: list[YamlValue] = expand(yaml.safe_load(table.read_text(encoding="utf-8")))
    return read


def expand(value: YamlValue, number: int | None = None) -> YamlValue:  # noqa: PLR0911  # one a form
    """Write the shorthand out."""
    match value:
        case {"$text": size}:
            return "x" * size
        case {"$list": count, "of": one}:
            return [expand(one, i) for i in range(count)]
        case {"$map": count, "key": key, "of": one}:
            return {expand(key, i): expand(one, i) for i in range(count)}
        case dict():
            return {expand(k, number): expand(v, number) for k, v in value.items()}
        case list():
            return [expand(item, number) for item in value]
        case str() if number is not None:
            return value.replace("$i", str(number))
        case _:
            return value
