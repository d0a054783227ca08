"""The limit of the container is read where it is, and nothing else counts as one."""

from pathlib import Path

import pytest

from drawbridge.process.memory_limit import read_memory_limit

V1 = "memory/memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "2147483648\n"}, 2147483648),
        ({"memory.max": "max\n"}, None),
        ({V1: "1073741824\n"}, 1073741824),
        ({V1: "9223372036854771712\n"}, None),
        ({"memory.max": "\N{SNOWMAN}"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_a_container(files: dict[str, str], limit: int | None, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert read_memory_limit(tmp_path) == limit
