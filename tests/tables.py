"""Tables of test cases in YAML, with a shorthand for long values.

`{$text: 65}` is a text of 65 letters. `{$list: 33, of: ...}` is a list of 33 copies, and
`{$map: 33, key: ..., of: ...}` a map of 33 copies. `$i` in their texts and keys is
the number of the copy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

# A decoded YAML or JSON value. Tests access its parts without type checks.
YamlValue: TypeAlias = Any


def load_cases(table: Path) -> list[YamlValue]:
    """Read the cases of a table in order, and expand the shorthand."""
    cases: list[YamlValue] = expand(read_yaml(table.read_text(encoding="utf-8")))
    return cases


def read_yaml(text: str | bytes) -> YamlValue:
    """Read one document; libyaml takes an eighth of the time of PyYAML's own parser."""
    return yaml.load(text, yaml.CSafeLoader)


def read_yaml_documents(text: str | bytes) -> Iterator[YamlValue]:
    """Read all documents."""
    documents: Iterator[YamlValue] = yaml.load_all(text, yaml.CSafeLoader)
    return documents


def expand(value: YamlValue, number: int | None = None) -> YamlValue:  # noqa: PLR0911  # one per form
    """Expand the shorthand."""
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
