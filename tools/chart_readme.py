"""Renders the README of the Helm chart: a table of the values, from the comments above them."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

_LINE: Final = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?P<rest>.*)$")
_INTRODUCTION: Final = Path(__file__).with_name("chart.md")
_HEADER: Final = "\n| value | default | meaning |\n|---|---|---|\n"


def render(values: str) -> str:
    """Return the page for the text of values.yaml."""
    parsed = yaml.load(values, yaml.CSafeLoader)
    rows = [
        f"| `{path}` | {_format(_get(parsed, path))} | {text} |"
        for path, text in read_comments(values)
    ]
    return _INTRODUCTION.read_text("utf-8") + _HEADER + "\n".join(rows) + "\n"


def read_comments(values: str) -> list[tuple[str, str]]:
    """Return the path and the comment of each value that has a comment, in order."""
    rows: list[tuple[str, str]] = []
    path: list[str] = []
    comment: list[str] = []
    for line in values.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip().lstrip("#").strip())
            continue
        key = _LINE.match(line)
        if key is None:
            comment = []
            continue
        depth = len(key["indent"]) // 2
        path = [*path[:depth], key["key"]]
        if comment:
            rows.append((".".join(path), " ".join(comment)))
        comment = []
    return rows


def find_uncommented(values: str) -> set[str]:
    """Return the values of the first two levels without a comment."""
    commented = {path for path, _ in read_comments(values)}
    parsed = yaml.load(values, yaml.CSafeLoader)
    return {path for path in _list_paths(parsed) if path not in commented}


def _list_paths(parsed: dict[str, Any]) -> list[str]:
    paths = []
    for key, value in parsed.items():
        nested = isinstance(value, dict) and value and key not in ("configuration", "commonLabels")
        paths += [f"{key}.{name}" for name in value] if nested else [key]
    return paths


def _get(value: Any, path: str) -> Any:  # noqa: ANN401  # YAML
    for name in path.split("."):
        value = value[name]
    return value


def _format(value: Any) -> str:  # noqa: ANN401  # YAML
    if isinstance(value, dict) and value:
        inner = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
        return f"`{inner.strip()}`"
    text = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"
