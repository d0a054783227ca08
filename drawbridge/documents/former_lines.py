"""Notes the lines that an edit of a YAML document replaces, in comments at the end of the document.

An edit that takes the values back then also gives back comments, order, quotes and line ends. Any
user can write such comments, so they never decide a value: the caller compares the values.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from drawbridge.documents.cuts import (
    TextChange,
    apply_changes,
    line_start,
    next_line,
    split_lines,
)

_HEAD: Final = "# Lines before the translation, which `drawbridge undo` puts back:"
# Where the lines go: the number of the first line, how many lines they replace, and a checksum.
_HUNK: Final = re.compile(r"#@(\d{1,7})\+(\d{1,7}) ([0-9a-f]{8})")
_LINE, _OTHER_END, _NO_FINAL_END = "#|", "#:", "#\\"
# Line breaks of YAML besides LF, which would end a comment: such a line is a string of JSON.
_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")
_QUOTED: Final = '#"'
_NOTE: Final = re.compile(
    rf'^{re.escape(_HEAD)}[^\n]*(?:\n|\Z)(?:#[@|:"\\][^\n]*(?:\n|\Z))*', re.MULTILINE
)
# The marker that ends a document. A comment after it belongs to the next one.
_DOCUMENT_END: Final = re.compile(r"^\.\.\.(?=[ \t\r\n]|\Z)", re.MULTILINE)
_REACH: Final = 200  # lines that a hunk is looked for, above and below its place
# Anybody can write a note. Of a larger one, or one whose lines are elsewhere, nothing comes back.
_MOST_HUNKS: Final = 10_000
_MOST_READ: Final = 8_000_000  # characters in which the hunks of a note are looked for
_LEAST_READ: Final = 64  # that a look costs


class _Hunk(NamedTuple):
    """Lines before an edit, and the number of lines that replace them from a line number on."""

    number: int
    replaced: int
    before: list[str]


def note_lines(text: str, changes: Sequence[TextChange], newline: str) -> str:
    """Return the text with the changes applied, and a note of the lines that they replace."""
    changed = apply_changes(text, changes)
    after = split_lines(changed)
    note = [_HEAD]
    for hunk in _make_hunks(text, changes):
        note.append(
            f"#@{hunk.number}+{hunk.replaced}"
            f" {_checksum(_ends_of(after, hunk.number, hunk.replaced))}"
        )
        note += (_write_line(line, newline) for line in hunk.before)
    marker = _DOCUMENT_END.search(changed)
    at = marker.start() if marker else len(changed)
    if not text.endswith("\n"):
        note.append(_NO_FINAL_END)
    end = "" if changed.endswith("\n", 0, at) else newline
    return f"{changed[:at]}{end}{newline.join(note)}{newline}{changed[at:]}"


def _write_line(line: str, newline: str) -> str:
    """Return a line of a note, whose lines end with `newline`."""
    content = line.removesuffix("\n").removesuffix("\r")
    if _BREAKS.search(content):
        return f"#{json.dumps(line)}"
    is_other = line != content and line != content + newline
    return f"{_OTHER_END if is_other else _LINE}{content}"


def put_back_lines(text: str) -> str | None:
    """Return the text with the lines of its last note put back; None if they do not fit."""
    cut = _cut_note(text)
    if cut is None:
        return None
    lines = split_lines(cut.text)
    places = _find_places(lines, cut.hunks)
    if places is None:
        return None
    pieces: list[str] = []
    end = 0
    for at, (hunk, _) in zip(places, cut.hunks, strict=True):
        if at < end:
            return None
        pieces += lines[end:at]
        pieces += hunk.before
        end = at + hunk.replaced
    restored = "".join([*pieces, *lines[end:]])
    if not cut.final_end:
        restored = restored.removesuffix("\n").removesuffix("\r")
    return restored


def says_unended(text: str) -> bool:
    """Whether the last note says that the text before had no line end after its last line."""
    cut = _cut_note(text)
    return cut is not None and not cut.final_end


def remove_notes(text: str) -> str:
    """Return the text without its notes."""
    return _NOTE.sub("", text)


class _Cut(NamedTuple):
    """A text without its last note, and the content of the note."""

    text: str
    hunks: list[tuple[_Hunk, str]]
    final_end: bool


def _cut_note(text: str) -> _Cut | None:
    notes = list(_NOTE.finditer(text))
    if not notes:
        return None
    note = notes[-1]
    first, *rest = split_lines(note[0])
    newline = "\r\n" if first.endswith("\r\n") else "\n"
    other = "\n" if newline == "\r\n" else "\r\n"
    hunks: list[tuple[_Hunk, str]] = []
    final_end = True
    for whole in rest:
        line = whole.removesuffix("\n").removesuffix("\r")
        if match := _HUNK.fullmatch(line):
            hunks.append((_Hunk(int(match[1]), int(match[2]), []), match[3]))
        elif line == _NO_FINAL_END:
            final_end = False
        elif hunks and line.startswith(_QUOTED):
            if (quoted := _read_quoted(line)) is None:
                return None
            hunks[-1][0].before.append(quoted)
        elif hunks:
            end_of_line = other if line.startswith(_OTHER_END) else newline
            hunks[-1][0].before.append(line[len(_LINE) :] + end_of_line)
    return _Cut(text[: note.start()] + text[note.end() :], hunks, final_end)


def _read_quoted(line: str) -> str | None:
    """Return the line that is a string of JSON after the sign of a comment; None if it is not."""
    try:
        return msgspec.json.decode(line[1:], type=str)
    except (ValueError, UnicodeError):
        return None


def _make_hunks(text: str, changes: Iterable[TextChange]) -> Iterator[_Hunk]:
    """Yield the whole lines that changes replace, without those that stay equal."""
    moved = 0  # lines that earlier hunks added
    counted, number = 0, 0
    for start, end, group in _group_by_lines(text, changes):
        before = split_lines(text[start:end])
        inner = [TextChange(c.start - start, c.end - start, c.text) for c in group]
        after = split_lines(apply_changes(text[start:end], inner))
        number += text.count("\n", counted, start)
        counted = start
        first = _count_equal(before, after)
        last = _count_equal(before[first:][::-1], after[first:][::-1])
        count = len(after) - first - last
        yield _Hunk(number + moved + first, count, before[first : len(before) - last])
        moved += len(after) - len(before)


def _group_by_lines(
    text: str, changes: Iterable[TextChange]
) -> Iterator[tuple[int, int, list[TextChange]]]:
    """Yield ranges of whole lines with the changes in them, in order."""
    start = end = 0
    group: list[TextChange] = []
    for change in sorted(changes, key=lambda each: (each.start, each.end)):
        begins = line_start(text, change.start)
        if group and begins >= end:
            yield start, end, group
            group = []
        if not group:
            start = begins
        group.append(change)
        whole = change.start < change.end == line_start(text, change.end)
        end = max(end, change.end if whole and not change.text else next_line(text, change.end))
    if group:
        yield start, end, group


def _count_equal(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the equal lines at the beginning."""
    number = 0
    for left, right in zip(before, after, strict=False):
        if left != right:
            break
        number += 1
    return number


def _find_places(lines: Sequence[str], hunks: Sequence[tuple[_Hunk, str]]) -> list[int] | None:
    """Return the place of each hunk; None if one is not found.

    It is the nearest to its number, moved as far as the hunk above: lines are often inserted once.
    """
    places: list[int] = []
    moved, left = 0, _MOST_READ
    if len(hunks) > _MOST_HUNKS:
        return None
    for hunk, checksum in hunks:
        last = len(lines) - hunk.replaced
        for at in _places_near(hunk.number + moved):
            ends = _ends_of(lines, at, hunk.replaced)
            left -= _LEAST_READ + sum(map(len, ends))
            if left < 0:
                return None
            if 0 <= at <= last and _checksum(ends) == checksum:
                break
        else:
            return None
        places.append(at)
        moved = at - hunk.number
    return places


def _places_near(number: int) -> Iterator[int]:
    yield number
    for distance in range(1, _REACH):
        yield number + distance
        yield number - distance


def _checksum(ends: Iterable[str]) -> str:
    """Return the checksum of the first and the last of some lines."""
    joined = "\n".join(ends).encode()
    return f"{zlib.crc32(joined):08x}"


def _ends_of(lines: Sequence[str], at: int, count: int) -> tuple[str, str]:
    """Return the first and the last of some lines; of none, those around."""
    first, last = (at, at + count - 1) if count else (at - 1, at)
    return _line(lines, first), _line(lines, last)


def _line(lines: Sequence[str], at: int) -> str:
    return lines[at].rstrip("\r\n") if 0 <= at < len(lines) else ""
