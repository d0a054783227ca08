"""What a bounded cache drops, as a table: the steps of its use, and the keys that are left."""

from pathlib import Path
from typing import Final

import pytest

from drawbridge.bounded_cache import BoundedCache
from tests.tables import YamlValue, every_row, load_cases

CASES: Final = load_cases(Path(__file__).parent / "cases" / "bounded_cache.yaml")


def apply(cache: BoundedCache[str, str], step: YamlValue) -> None:
    match step:
        case {"put": key, **options}:
            cache.put(key, options.pop("value", key.upper()), **options)
        case {"get": key, "is": expected, **options}:
            assert cache.get(key, **options) == expected, step
        case {"has": key, "is": expected}:
            assert (key in cache) is expected, step
        case {"pop": key, "is": expected}:
            assert cache.pop(key) == expected, step
        case "clear":
            cache.clear()
        case _:
            pytest.fail(f"no such step: {step}")


@every_row("case", CASES, ids=[case["name"] for case in CASES])
def test_the_table_of_uses(case: YamlValue) -> None:
    cache: BoundedCache[str, str] = BoundedCache(*case["limits"])
    for step in case["steps"]:
        apply(cache, step)
    assert (dict(cache.items()), len(cache)) == (case["left"], len(case["left"]))
    assert list(dict(cache.items())) == list(case["left"])
    assert cache.cost == case.get("cost", 0)
