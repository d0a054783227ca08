"""Computes the text changes that turn the text of one value into the text of another.

Descends only where the old and new values differ. Entries and items keep their lines and comments
unless they are removed or replaced.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drawbridge.documents import jsontext, write
from drawbridge.documents.construct import key_name
from drawbridge.documents.cuts import (
    EditRefusedError,
    TextChange,
    column,
    comments_above,
    comments_below,
    line_end,
    line_start,
    next_line,
    starts_line,
)
from drawbridge.documents.nodes import SyntaxNode
from drawbridge.documents.values import Value, equal_json
from drawbridge.documents.write import TextStyle

_COLON = re.compile(r"[ \t]*:")
# From the end of an item's line to the dash of the next item.
_TO_DASH = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*-(?=\s|\Z)")
_INDENT = re.compile(r" *")
_LONGEST_LINE = 100


class _Part(NamedTuple):
    """An entry of a mapping or an item of a list: from its key or dash to its end."""

    start: int
    end: int
    survives: bool


class _New(NamedTuple):
    """A new entry or item; an item has no name."""

    name: str | None
    value: Value


def revise_text(
    text: str, style: TextStyle, root: SyntaxNode, old: Value, new: Value
) -> list[TextChange]:
    """Return the changes that turn the text of `root` from `old` to `new`.

    Raises EditRefusedError if the style of the text is not supported.
    """
    reviser = _Reviser(text, style)
    reviser.revise(root, old, new)
    return reviser.changes


class _Reviser:
    """Collects the changes of one text."""

    def __init__(self, text: str, style: TextStyle) -> None:
        self.text = text
        self.style = style
        self.changes: list[TextChange] = []

    def revise(self, root: SyntaxNode, old: Value, new: Value) -> None:
        if equal_json(old, new) or self.revise_inside(root, old, new):
            return
        if write.is_block(new) and not root.flow and not self.style.json:
            lines = write.write_block(new, self.style, column(self.text, root.start))
            self.replace(root.start, root.end, self.style.newline.join(lines))
        else:
            self.replace(root.start, root.end, self.on_line(new, root.start))

    def replace(self, start: int, end: int, text: str = "") -> None:
        self.changes.append(TextChange(start, end, text))

    def revise_inside(self, node: SyntaxNode, old: Value, new: Value) -> bool:
        """Revise the children of a node; False if none of them would stay."""
        jsontext.read_children(self.text, node)
        if node.kind == "mapping" and isinstance(old, dict) and isinstance(new, dict):
            return self.mapping(node, old, new)
        if node.kind == "sequence" and isinstance(old, list) and isinstance(new, list):
            return self.sequence(node, old, new)
        return False

    def mapping(self, node: SyntaxNode, old: dict[str, Value], new: dict[str, Value]) -> bool:
        entries = [(self.name(key), key, value) for key, value in node.entries()]
        names = {name for name, _, _ in entries}
        if missing := [name for name in old if name not in names and name not in new]:
            raise EditRefusedError(
                f"{missing[0]} comes from a merge key (<<)",
                "Replace the merge key with the values that it adds.",
            )
        parts = [
            _Part(key.start, max(key.end, value.end), name is None or name in new)
            for name, key, value in entries
        ]
        if not any(part.survives for part in parts):
            return False
        for name, key, value in entries:
            if name is not None and name in new and not equal_json(old[name], new[name]):
                self.value(node, key, value, old[name], new[name])
        added = [
            _New(name, value)
            for name, value in new.items()
            # An entry from a merge key is only written if its value changes.
            if name not in names and not (name in old and equal_json(old[name], value))
        ]
        self.change(node, parts, [*([()] * len(parts)), added])
        return True

    def name(self, key: SyntaxNode) -> str | None:
        return key.text if self.style.json else key_name(key)

    def sequence(self, node: SyntaxNode, old: list[Value], new: list[Value]) -> bool:
        children = node.children or []
        alignment = align_lists(old, new)
        starts = [child.start for child in children] if node.flow else self.dashes(node)
        parts = [
            _Part(start, child.end, partner is not None)
            for start, child, partner in zip(starts, children, alignment.kept, strict=True)
        ]
        if not any(part.survives for part in parts):
            return False
        for at, partner in enumerate(alignment.kept):
            if partner is not None and not equal_json(old[at], new[partner]):
                child = children[at]
                lines = self.as_block(
                    node, child, old[at], new[partner], column(self.text, starts[at]) + 2
                )
                if lines:
                    self.replace(child.start, child.end, self.style.newline.join(lines).lstrip(" "))
                elif not self.revise_inside(child, old[at], new[partner]):
                    self.replace_item(node, starts[at], child, new[partner])
        added = [[_New(None, new[n]) for n in numbers] for numbers in alignment.added]
        self.change(node, parts, added)
        return True

    def dashes(self, node: SyntaxNode) -> list[int]:
        """Find the dash of each item of a block list, which the parser does not report."""
        positions = []
        at = node.start
        marked = node.anchor is not None or node.tag is not None
        for number, child in enumerate(node.children or []):
            if number or marked:
                match = _TO_DASH.match(self.text, line_end(self.text, at))
                if match is None or match.end() > child.start:
                    raise EditRefusedError("the style of this list is not supported")
                at = match.end() - 1
            positions.append(at)
            at = child.end
        return positions

    def value(
        self, node: SyntaxNode, key: SyntaxNode, value: SyntaxNode, old: Value, new: Value
    ) -> None:
        """Revise the value of one entry."""
        lines = self.as_block(node, value, old, new, column(self.text, key.start) + self.style.step)
        if lines:
            after = self.text.index(":", key.end) + 1
            self.replace_with_lines(after, value, lines, column(self.text, key.start))
            return
        if self.revise_inside(value, old, new):
            return
        colon = _COLON.match(self.text, key.end)
        if colon is None:
            if not node.flow:
                raise EditRefusedError("keys with a question mark are not supported")
            self.replace(key.end, key.end, self.style.colon + self.on_line(new, key.start))
        elif node.flow and value.start == value.end:
            self.replace(colon.end(), colon.end(), f" {self.on_line(new, key.start)}")
        elif node.flow:
            self.replace(value.start, value.end, self.on_line(new, key.start, value.style))
        elif write.is_block(new) and not (value.flow and value.children):
            self.replace_below(colon.end(), value, new, column(self.text, key.start))
        else:
            self.replace_behind(colon.end(), value, new, column(self.text, key.start))

    def replace_item(self, node: SyntaxNode, start: int, item: SyntaxNode, new: Value) -> None:
        """Replace an item of a list."""
        indent, after = column(self.text, start), start + 1
        if node.flow:
            self.replace(item.start, item.end, self.on_line(new, item.start, item.style))
        elif write.is_block(new) and not (item.flow and item.children):
            same_line = item.start > after and "\n" not in self.text[after : item.start]
            to = column(self.text, item.start) if same_line else indent + 2
            lines = self.style.newline.join(write.write_block(new, self.style, to))
            self.put(after, item, lines)
        else:
            self.replace_behind(after, item, new, indent)

    def replace_behind(self, after: int, value: SyntaxNode, new: Value, indent: int) -> None:
        """Write a value after its colon or dash."""
        rest = self.text[value.end : line_end(self.text, value.end)]
        if isinstance(new, str) and write.is_literal(new) and not rest.strip():
            self.put(
                after, value, self.style.newline.join(write.write_below(new, self.style, indent))
            )
        else:
            self.put(after, value, self.on_line(new, value.start, value.style))

    def put(self, after: int, value: SyntaxNode, written: str) -> None:
        if value.start == value.end:
            self.replace(after, after, f" {written}")
        elif "\n" not in self.text[after : value.start]:
            self.replace(value.start, value.end, written)
        else:
            # Remove the lines below the key, but keep the comment after the key.
            self.replace(after, after, f" {written}")
            end = line_end(self.text, value.end)
            indent = column(self.text, value.start) - 1
            self.replace(line_end(self.text, after), comments_below(self.text, end, indent))

    def replace_below(self, after: int, value: SyntaxNode, new: Value, indent: int) -> None:
        """Write a collection below its key, in place of any earlier value."""
        deeper = indent + (self.style.list_step if isinstance(new, list) else self.style.step)
        lines = write.write_block(new, self.style, deeper)
        lines[0] = " " * deeper + lines[0]
        self.replace_with_lines(after, value, lines, indent)

    def replace_with_lines(
        self, after: int, value: SyntaxNode, lines: Sequence[str], indent: int
    ) -> None:
        """Write lines below a key, in place of any earlier value."""
        written = "".join(self.style.newline + line for line in lines)
        end = comments_below(self.text, line_end(self.text, max(value.end, after)), indent)
        if value.start == value.end:
            self.replace(end, end, written)
        elif "\n" in self.text[after : value.start]:
            self.replace(line_end(self.text, after), end, written)
        else:
            self.replace(after, value.end)
            self.replace(end, end, written)

    def as_block(
        self, parent: SyntaxNode, node: SyntaxNode, old: Value, new: Value, indent: int
    ) -> list[str]:
        """Return an object in braces as lines of a block if its line would become too long."""
        text = self.text[node.start : node.end]
        in_block = node.flow and node.kind == "mapping" and not parent.flow and not self.style.json
        if not in_block or "\n" in text or not isinstance(old, dict) or not isinstance(new, dict):
            return []
        trial = _Reviser(self.text, self.style)
        if node.anchor or node.tag or not trial.revise_inside(node, old, new):
            return []
        line = line_end(self.text, node.end) - line_start(self.text, node.start)
        if line + sum(len(e.text) - e.end + e.start for e in trial.changes) <= _LONGEST_LINE:
            return []
        raw = {
            self.name(
                key
            ): f"{self.text[key.start : key.end]}: {self.text[value.start : value.end]}"
            for key, value in node.entries()
            if value.end > value.start
        }
        lines: list[str] = []
        for name, value in new.items():
            if name in raw and equal_json(old[name], value):
                lines.append(" " * indent + raw[name])
            else:
                lines += write.write_entry(name, value, self.style, indent)
        return lines

    def on_line(self, new: Value, at: int, quote: str = "") -> str:
        """Write a value that cannot have its own lines; JSON may use several lines."""
        if self.style.json:
            start = line_start(self.text, at)
            if starts_line(self.text, at):
                indent = _INDENT.match(self.text, start)
                return write.write_indented(new, self.style, len(indent[0]) if indent else 0)
            return write.write_flow(new, self.style)
        if isinstance(new, dict | list):
            return write.write_flow(new, self.style)
        return write.write_scalar(new, self.style, quote)

    def change(
        self, node: SyntaxNode, parts: Sequence[_Part], added: Sequence[Sequence[_New]]
    ) -> None:
        """Remove the parts that do not survive, and add the new ones at their positions."""
        remove = self.remove_in_flow if node.flow else self.remove_lines
        remove(parts)
        for place, news in enumerate(added):
            if not news:
                continue
            before = next((part for part in reversed(parts[:place]) if part.survives), None)
            behind = next((part for part in parts[place:] if part.survives), None)
            add = self.add_in_flow if node.flow else self.add_lines
            add(news, before, behind)

    def remove_in_flow(self, parts: Sequence[_Part]) -> None:
        """Remove parts with the comma after them; the last parts with the comma before them."""
        last = max(at for at, part in enumerate(parts) if part.survives)
        for at, part in enumerate(parts[:last]):
            if not part.survives:
                self.replace(part.start, parts[at + 1].start)
        if last < len(parts) - 1:
            self.replace(parts[last].end, parts[-1].end)

    def remove_lines(self, parts: Sequence[_Part]) -> None:
        """Remove the lines of parts, with the comments about them."""
        lead = next(at for at, part in enumerate(parts) if part.survives)
        if lead and not starts_line(self.text, parts[0].start):
            self.remove_behind_dash(parts[:lead], parts[lead])
            parts = parts[lead:]
        for part in parts:
            if not part.survives:
                start = comments_above(self.text, part.start)
                self.replace(start, next_line(self.text, self.end_below(part)))

    def end_below(self, part: _Part) -> int:
        """Return the end of the last line of a part, or of the comments at its end."""
        end = line_end(self.text, part.end)
        return comments_below(self.text, end, column(self.text, part.start))

    def remove_behind_dash(self, removed: Sequence[_Part], stays: _Part) -> None:
        """Remove the parts right after a dash; the part that stays moves up to the dash."""
        end = self.end_below(removed[-1])
        if not self.text[end : stays.start].strip():
            self.replace(removed[0].start, stays.start)
            return
        # The comments about the part that stays are below the dash.
        self.replace(len(self.text[: removed[0].start].rstrip(" ")), end)

    def add_in_flow(self, news: Sequence[_New], before: _Part | None, behind: _Part | None) -> None:
        near = before or behind
        assert near is not None  # noqa: S101  # a part survives wherever one is added
        comma = self.style.comma
        if starts_line(self.text, near.start):
            comma = f",{self.style.newline}{' ' * column(self.text, near.start)}"
        written = [self.part(new, near.start) for new in news]
        if before is not None:
            self.replace(before.end, before.end, "".join(comma + text for text in written))
        else:
            self.replace(near.start, near.start, "".join(text + comma for text in written))

    def part(self, new: _New, at: int) -> str:
        text = self.on_line(new.value, at)
        if new.name is None:
            return text
        return f"{write.write_key(new.name, self.style)}{self.style.colon}{text}"

    def add_lines(self, news: Sequence[_New], before: _Part | None, behind: _Part | None) -> None:
        near = before or behind
        assert near is not None  # noqa: S101  # a part survives wherever one is added
        indent = column(self.text, near.start)
        lines = [
            line
            for new in news
            for line in (
                write.write_item(new.value, self.style, indent)
                if new.name is None
                else write.write_entry(new.name, new.value, self.style, indent)
            )
        ]
        newline = self.style.newline
        if before is not None:
            end = self.last_line(before.end)
            self.replace(end, end, "".join(newline + line for line in lines))
        else:
            lines[0] = lines[0].lstrip(" ")
            written = "".join(line + newline for line in lines)
            self.replace(near.start, near.start, written + " " * indent)

    def last_line(self, end: int) -> int:
        """Return the end of the line at an offset, or of the last remaining line before it."""
        end = line_end(self.text, end)
        for change in reversed(self.changes):
            whole_lines = not change.text and line_start(self.text, change.start) == change.start
            if whole_lines and 0 < change.start <= end <= change.end:
                end = line_end(self.text, line_start(self.text, change.start - 1))
        return end


@dataclass(frozen=True, slots=True)
class Alignment:
    """The new index of each old item or None, and the positions of the other new items.

    `added[i]` has the new items right before old item `i`; its last entry has those after all old
    items.
    """

    kept: tuple[int | None, ...]
    added: tuple[tuple[int, ...], ...]


def align_lists(old: Sequence[Value], new: Sequence[Value]) -> Alignment:
    """Pair equal items first, then items of equal name, then the others in order."""
    kept: list[int | None] = [None] * len(old)
    head = 0
    while head < min(len(old), len(new)) and equal_json(old[head], new[head]):
        kept[head] = head
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and equal_json(old[-1 - tail], new[-1 - tail]):
        kept[len(old) - 1 - tail] = len(new) - 1 - tail
        tail += 1
    _pair_similar(kept, old, new, range(head, len(new) - tail))
    _pair_remaining(kept, len(new))
    return Alignment(tuple(kept), _positions(kept, len(new)))


def _pair_similar(
    kept: list[int | None], old: Sequence[Value], new: Sequence[Value], middle: range
) -> None:
    at = middle.start
    end = len(old) - (len(new) - middle.stop)
    for number in middle:
        for candidate in range(at, end):
            if _is_similar(old[candidate], new[number]):
                kept[candidate] = number
                at = candidate + 1
                break


def _is_similar(old: Value, new: Value) -> bool:
    if isinstance(old, dict) and isinstance(new, dict) and "name" in old:
        return equal_json(old["name"], new.get("name"))
    return equal_json(old, new)


def _pair_remaining(kept: list[int | None], count: int) -> None:
    """Pair the items between two pairs in order; most likely they were changed in place."""
    free = iter(sorted(set(range(count)) - {number for number in kept if number is not None}))
    number = next(free, None)
    before = -1
    for position, partner in enumerate(kept):
        if partner is not None:
            before = partner
            continue
        following = next((n for n in kept[position:] if n is not None), count)
        while number is not None and number <= before:
            number = next(free, None)
        if number is not None and number < following:
            kept[position] = before = number
            number = next(free, None)


def _positions(kept: Sequence[int | None], count: int) -> tuple[tuple[int, ...], ...]:
    positions: list[tuple[int, ...]] = []
    at = 0
    for partner in kept:
        if partner is None:
            positions.append(())
        else:
            positions.append(tuple(range(at, partner)))
            at = partner + 1
    return (*positions, tuple(range(at, count)))
