"""Tables of test cases: in YAML, with a shorthand for long values, and as one test.

`{$text: 65}` is a text of 65 letters. `{$list: 33, of: ...}` is a list of 33 copies, and
`{$map: 33, key: ..., of: ...}` a map of 33 copies. `$i` in their texts and keys is
the number of the copy.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
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


def write_yaml(documents: Iterable[object]) -> str:
    """Write documents as a stream; libyaml takes a fifth of the time of PyYAML's own writer."""
    text: str = yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
    return text


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


Ids: TypeAlias = Callable[[Any], Any] | Sequence[str] | None


def every_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Ids = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with every row of a table, as one test that names all rows that fail.

    The arguments are those of `pytest.mark.parametrize`, for which it stands in at tables of many
    short rows: a test of its own takes some milliseconds, before it begins. The rows share the
    fixtures of the test.
    """
    parameters = names.split(",") if isinstance(names, str) else names
    parameters = tuple(name.strip() for name in parameters)
    table = [_values(row, len(parameters)) for row in rows]
    assert table, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failures: list[BaseException] = []
            for number, (given, values) in enumerate(table):
                try:
                    test(**dict(zip(parameters, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001  # reported below
                    failure.add_note(f"row: {given or _label(number, values, ids)}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def _values(row: Any, parameters: int) -> tuple[object, tuple[Any, ...]]:  # noqa: ANN401  # a value, a tuple or a `pytest.param`
    """Return the name that a row gives itself, and its values."""
    if isinstance(row, pytest.ParameterSet):
        assert not row.marks, "a row is no test, so marks have no effect"
        return row.id, tuple(row.values)
    return None, (row,) if parameters == 1 else tuple(row)


def _label(number: int, values: tuple[Any, ...], ids: Ids) -> str:
    """Return the name of a row that failed; the text of a value can be longer than memory."""
    if isinstance(ids, Sequence):
        return ids[number]
    return "-".join(str(ids(value)) if ids else reprlib.repr(value) for value in values)[:200]
