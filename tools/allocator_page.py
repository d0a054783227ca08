"""Renders what the page about the architecture says of the allocator's memory and its records.

A bounded memory is an attribute with a cache; the comment above it says what it has.
"""

import ast
import importlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from allocator.state.pod_table import MAX_RECORDS
from allocator.state.record_states import TRANSITIONS, RecordEvent, RecordState
from allocator.state.records import Record

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "architecture.md"
_GOES_FIRST: Final[Mapping[str, str]] = {
    "BoundedCache": "the least recently used",
    "FairCache": "the oldest of the namespace with most",
    "deque": "the oldest",
}
_OTHERWISE: Final = "otherwise"
_NOT_PARTS: Final = frozenset({"uid", "namespace"})


def render() -> str:
    """Return the page with its generated parts; the rest stays as it is."""
    text = PAGE.read_text("utf-8")
    for name, part in (("states of a pod", _render_states()), ("memories", _render_memories())):
        begin, end = f"<!-- {name}: by tools/allocator_page.py -->\n", f"<!-- end of {name} -->"
        before, is_begun, rest = text.partition(begin)
        _, is_ended, after = rest.partition(end)
        if not is_begun or not is_ended:
            raise ValueError(f"{PAGE} has no part {name}")
        text = before + begin + part + end + after
    return text


# --- the states ---


def _render_states() -> str:
    """Draw the moves; where several states can follow, the pod is what its other parts say."""
    lines = ["```mermaid", "stateDiagram-v2", f"    state {_OTHERWISE} <<choice>>"]
    edges: dict[tuple[str, str], list[RecordEvent]] = {}
    for event, moves in TRANSITIONS.items():
        for state, later in moves.items():
            target = _name(next(iter(later))) if len(later) == 1 else _OTHERWISE
            edges.setdefault((_name(state), target), []).append(event)
    lines += [
        f"    {one} --> {other}: {'; '.join(events)}" for (one, other), events in edges.items()
    ]
    several = {state for to in _targets() if len(to) > 1 for state in to}
    lines += [f"    {_OTHERWISE} --> {_name(each)}" for each in RecordState if each in several]
    return "\n".join([*lines, "```", ""])


def _targets() -> Iterator[Collection[RecordState]]:
    """Yield the states that can follow, of each move."""
    for moves in TRANSITIONS.values():
        yield from moves.values()


def _name(state: RecordState) -> str:
    return "[*]" if state is RecordState.UNKNOWN else state


# --- the memories ---


def _render_memories() -> str:
    parts = ", ".join(f"`{name}`" for name in Record.__struct_fields__ if name not in _NOT_PARTS)
    lines = [
        "| module | what | limit | what goes first |",
        "|---|---|---|---|",
    ]
    goes = "the oldest without devices of the namespace with most"
    what = f"A record of each pod: {parts}"
    lines.append(f"| `allocator.state.pod_table` | {what} | {MAX_RECORDS:,} | {goes} |")
    for package in ("allocator", "drawbridge/solver"):
        for file in sorted((ROOT / package).rglob("*.py")):
            lines += _read_memories(file)
    return "\n".join([*lines, ""])


def _read_memories(file: Path) -> Iterator[str]:
    """Yield a row for each attribute of a module that is a cache."""
    text = file.read_text("utf-8")
    lines, module = text.splitlines(), ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.AnnAssign | ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        kind = ast.unparse(node.value.func)
        if kind in _GOES_FIRST:
            argument = [*node.value.args, *(each.value for each in node.value.keywords)][0]
            limit = getattr(importlib.import_module(module), ast.unparse(argument))
            what = _comment_above(lines, node.lineno)
            if not what:
                raise ValueError(f"{file}:{node.lineno}: a comment says what this memory has")
            yield f"| `{module}` | {what} | {limit:,} | {_GOES_FIRST[kind]} |"


def _comment_above(lines: list[str], number: int) -> str:
    """Return the comment that ends on the line before."""
    comment: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.lstrip().startswith("#"):
            break
        comment.insert(0, line.strip().removeprefix("# "))
    return " ".join(comment).removesuffix(".")
