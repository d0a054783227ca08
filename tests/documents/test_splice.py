"""Edits written back into their text."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from drawbridge.documents.document import Document, Source
from drawbridge.documents.former_lines import put_back_lines
from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.paths import parse_pointer
from drawbridge.documents.read import read_documents, read_objects
from drawbridge.documents.splice import FormerLines, apply_to_text, rewrite_file
from drawbridge.documents.values import Value, equal_json
from drawbridge.finding import Finding
from tests.tables import every_row, load_cases

CASES = Path(__file__).parent / "cases"


def first(text: str) -> Document:
    return next(read_documents(Source("x", text.encode())))


@every_row("case", load_cases(CASES / "edits.yaml"), ids=lambda case: case["name"])
def test_edits_leave_all_other_text_unchanged(case: dict[str, Any]) -> None:
    edits = [
        Edit(edit["op"], parse_pointer(edit["path"]), edit.get("value")) for edit in case["edits"]
    ]
    done = apply_to_text(first(case["before"]), edits)
    if "after" in case:
        assert isinstance(done, bytes), done
        assert done.decode() == case["after"]
    else:
        assert isinstance(done, Finding)
        assert done.code == "EditRefused"
        assert case["why"] in done.message
        assert done.remedy == case.get("remedy", done.remedy)


POD = """\
# two pods
apiVersion: v1
kind: Pod
metadata:
  name: x   # the name
  labels: {app: a, "b": "1"}
spec:
  containers:
  # the first
  - name: main
    image: "foo:1"
    resources:
      limits:
        # devices
        nvidia.com/gpu: 1 # one
        cpu: 4

      requests: {cpu: 1}
    args: ["-c", 'x']
  - image: y
    name: two
    env:
      - name: A
        value: |
          multi

          line
      -
        name: B
  empty: {}
  none:
  text: >-
    folded
    text
  shared: &s
    - a
  again: *s
# the end
"""

WORDS = (
    st.text(st.characters(blacklist_categories=["Cs", "Cn", "Co"]), max_size=8)
    | st.sampled_from(["yes", "1", "a: b", "- x", "#", "null", "x\ny\n", "x\n", " x\ny", "{a}"])
    | st.sampled_from(["'", '"', "\\", "a #b", "---", "...", "2001-01-01", "1e3", "0x1", "=", "<<"])
    | st.sampled_from(["\t", "é", "\U0001f600", "\x85", "\x07"])
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Value, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every path in a value."""
    paths = [path] if path else []
    if isinstance(value, dict):
        for key, child in value.items():
            paths += places(child, (*path, key))
    elif isinstance(value, list):
        for at, child in enumerate(value):
            paths += places(child, (*path, at))
    return paths


@st.composite
def edits(draw: st.DrawFn, value: Value) -> list[Edit]:
    """Some edits that fit one after the other."""
    made: list[Edit] = []
    for _ in range(draw(st.integers(1, 4))):
        paths = places(value)
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        op = draw(st.sampled_from(["add", "replace", "remove", "insert"]))
        if op == "insert":
            last = draw(WORDS) if isinstance(path[-1], str) else "-"
            edit = Edit("add", (*path[:-1], last), draw(VALUES))
        else:
            edit = Edit(op, path, None if op == "remove" else draw(VALUES))  # type: ignore[arg-type]
        value = apply_edits(value, [edit])
        made.append(edit)
    return made


def style(text: str, form: str) -> str:
    if form == "crlf":
        return text.replace("\n", "\r\n")
    if form == "unended":
        return text.rsplit("\n# the end", 1)[0]
    if form == "ended":
        return f"{text}...\n# after the document\n"
    if form == "ended at the end":
        return f"{text}..."
    if form == "wide":
        return text.replace("name: x   #", 'name: "x\u2028\x85 \u00fc\u2029" #')
    return text


@pytest.mark.parametrize("form", ["plain", "crlf", "unended"])
@given(data=st.data())
def test_the_text_has_the_edited_value(form: str, data: st.DataObject) -> None:
    document = first(style(POD, form))
    before = copy.deepcopy(document.value)
    made = data.draw(edits(document.value))
    done = apply_to_text(document, made)
    assert equal_json(document.value, before)
    if isinstance(done, Finding):
        assert done.code == "EditRefused"
        reject()
    assert equal_json(first(done.decode()).value, apply_edits(before, made))
    touched = {edit.path[0] for edit in made} | {e.path[1] for e in made if len(e.path) > 1}
    kept = {"metadata": "  name: x   # the name", "spec": "        nvidia.com/gpu: 1 # one"}
    for key, line in kept.items():
        if key not in touched:
            assert line in done.decode()
    assert done.decode().startswith("# two pods")


@pytest.mark.parametrize("form", ["plain", "crlf", "unended", "ended", "ended at the end", "wide"])
@given(data=st.data())
def test_noted_lines_come_back_byte_for_byte(form: str, data: st.DataObject) -> None:
    document = first(style(POD, form))
    made = data.draw(edits(document.value))
    done = apply_to_text(document, made, FormerLines.NOTE)
    if isinstance(done, Finding):
        reject()
    back = [Edit("replace", (), document.value)]
    # Lines that others insert above move the places of the note.
    for more in ("", "# another comment\n" * 3):
        changed = first(f"{more}{done.decode()}")
        assert equal_json(changed.value, apply_edits(document.value, made))
        restored = apply_to_text(changed, back, FormerLines.PUT_BACK)
        assert restored == more.encode() + document.raw


NOTED = """\
a: 1
b: 3
# Lines before the translation, which `drawbridge undo` puts back:
#@1+1 %s
#|b: 2 # two
"""


@every_row(
    "note",
    [
        ("b: 2 # two", "15f5bc7d", "a: 1\nb: 2 # two\n"),
        # Other lines, other values, and what is not a note: the value comes back without comments.
        ("b: 2 # two", "00000000", "a: 1\nb: 2\n"),
        ("b: 9 # two", "15f5bc7d", "a: 1\nb: 2\n"),
        ("b: [", "15f5bc7d", "a: 1\nb: 2\n"),
        ('b: 2\n#"b: \\ud800', "15f5bc7d", "a: 1\nb: 2\n"),
        ("b: 2\n#@9999999+9999999 15f5bc7d", "15f5bc7d", "a: 1\nb: 2\n"),
    ],
)
def test_a_note_gives_lines_and_no_values(note: tuple[str, str, str]) -> None:
    line, checksum, after = note
    document = first((NOTED % checksum).replace("b: 2 # two", line))
    assert apply_to_text(document, [Edit("replace", ("b",), 2)], FormerLines.PUT_BACK) == (
        after.encode()
    )


def _with_note(hunks: str) -> Document:
    return first(NOTED.replace("#@1+1 %s\n#|b: 2 # two\n", hunks))


_FOUND = "#@1+1 15f5bc7d\n#|b: 2 # two\n"
_HEADING = NOTED.splitlines(keepends=True)[2]


@every_row(
    "hunks",
    {
        "two on the same lines": _FOUND * 2,
        "too many": "#@0+0 e2ae3b04\n" * 10_000 + _FOUND,
        "headings without hunks behind it": _FOUND + _HEADING * 5_000,
    }.values(),
)
def test_of_a_note_that_nobody_writes_nothing_comes_back_and_nothing_stays(hunks: str) -> None:
    done = apply_to_text(_with_note(hunks), [Edit("replace", ("b",), 2)], FormerLines.PUT_BACK)
    assert done == b"a: 1\nb: 2\n"


def test_what_the_hunks_of_a_note_are_looked_for_in_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0

    def count(ends: Iterable[str]) -> str:
        nonlocal reads
        reads += sum(map(len, ends))
        return f"{reads // 20_000 % 100:08}"

    monkeypatch.setattr("drawbridge.documents.former_lines._checksum", count)
    lines = f"# {'x' * 10_000}\n" * 1_000
    # Each is found after a hundred looks.
    text = lines + _HEADING + "#@500+1 00000000\n" * 1_000
    assert put_back_lines(text) is None
    assert 0 < reads <= 8_000_000


PRETTY = '{\n  "a": {"b": [1, 2, {"c": null}]},\n  "d": [\n    "x",\n    {}\n  ],\n  "e": {}\n}\n'


@pytest.mark.parametrize("text", [PRETTY, PRETTY.replace("\n", "").replace(" ", "")])
@given(data=st.data())
def test_json_text_has_the_edited_value(text: str, data: st.DataObject) -> None:
    document = first(text)
    made = data.draw(edits(document.value))
    done = apply_to_text(document, made)
    assert isinstance(done, bytes), done
    assert equal_json(first(done.decode()).value, apply_edits(document.value, made))


def test_most_edits_of_an_ordinary_pod_are_not_refused() -> None:
    document = first(POD)
    refused = []
    for path in places(document.value):
        for edit in (Edit("remove", path), Edit("replace", path, {"a": [1, {"b": "c"}]})):
            done = apply_to_text(document, [edit])
            if isinstance(done, Finding):
                refused.append(edit)
    # What an alias refers to cannot go or change; everything else can.
    assert {edit.path[:2] for edit in refused} == {("spec", "shared")}


TWO = """\
apiVersion: v1
kind: List
items:
- kind: A
  apiVersion: v1
  x: 1 # one
- kind: B
  apiVersion: v1
  x: &x {y: 1}
  z: *x
---
apiVersion: v1
kind: C
x: 1
"""


def test_a_file_is_rewritten_with_the_edits_of_its_objects() -> None:
    source = Source("x", TWO.encode())
    a, b, c = read_objects(source)
    written, refused = rewrite_file(
        source,
        [(c, [Edit("remove", ("x",))]), (a, [Edit("replace", ("x",), 2)])],
    )
    assert written.decode() == TWO.replace("x: 1 # one", "x: 2 # one").replace("C\nx: 1\n", "C\n")
    assert refused == ()
    assert rewrite_file(source, [(b, [])]) == (source.data, ())


def test_a_refused_object_stays_and_hides_no_other() -> None:
    source = Source("x", TWO.encode())
    a, b, _ = read_objects(source)
    written, refused = rewrite_file(
        source, [(a, [Edit("replace", ("x",), 2)]), (b, [Edit("replace", ("x", "y"), 2)])]
    )
    assert written.decode() == TWO.replace("x: 1 # one", "x: 2 # one")
    (located,) = refused
    assert (located.finding.code, located.finding.object) == ("EditRefused", "B#2")
    assert (located.finding.path, located.line) == ("x.y", 9)


ITEMS = """\
{"kind": "List",
 "items": [
  {"kind": "A", "apiVersion": "v1"},
  {"kind": "B",
   "apiVersion": "v1"}]}
"""


def test_the_items_of_a_list_in_json_are_rewritten_in_place() -> None:
    source = Source("x", ITEMS.encode())
    a, b = read_objects(source)
    edits = [(b, [Edit("add", ("x",), 1)]), (a, [Edit("add", ("x",), {})])]
    written, refused = rewrite_file(source, edits)
    assert refused == ()
    after_a = ITEMS.replace('"v1"},', '"v1", "x": {}},')
    assert written.decode() == after_a.replace('"v1"}]}', '"v1",\n   "x": 1}]}')


def test_an_unreadable_document_is_not_edited() -> None:
    done = apply_to_text(first("a: ["), [Edit("add", ("b",), 1)])
    assert isinstance(done, Finding)
    assert done.code == "EditRefused"
