"""Files to documents: what is read, what is refused, and where it stands."""

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.documents import codes
from drawbridge.documents.document import Document, Source
from drawbridge.documents.read import MAX_BYTES, MAX_UNREADABLE, read_documents, read_objects
from tests.tables import every_row, load_cases, write_yaml

CASES = Path(__file__).parent / "cases"
FIRST = "apiVersion: v1\nkind: First\n---\n"
LAST = "---\napiVersion: v1\nkind: Last\n"


def read(data: bytes | str, name: str = "x.yaml") -> list[Document]:
    return list(read_objects(Source(name, data if isinstance(data, bytes) else data.encode())))


def told(document: Document) -> list[str]:
    return [located.finding.code for located in document.findings]


@every_row("case", load_cases(CASES / "refused.yaml"), ids=lambda case: case["name"])
def test_an_unreadable_document_is_a_finding_and_hides_no_other(case: dict[str, Any]) -> None:
    text = case["text"] if case["text"].endswith("\n") else case["text"] + "\n"
    first, bad, last = read(FIRST + text + LAST)
    assert (first.value, last.value) == (
        {"apiVersion": "v1", "kind": "First"},
        {"apiVersion": "v1", "kind": "Last"},
    )
    assert bad.value is None
    located = bad.findings[0]
    assert located.finding.code == case["code"]
    assert located.finding.path == case.get("path", "")
    assert located.finding.object == case["object"]
    assert located.line == 3 + case["line"]
    assert case.get("message", "") in located.finding.message
    assert bad.raw.decode() == "---\n" + text


@every_row("case", load_cases(CASES / "refused.yaml"), ids=lambda case: case["name"])
def test_similar_valid_documents_are_read(case: dict[str, Any]) -> None:
    text = case["near"] if case["near"].endswith("\n") else case["near"] + "\n"
    for document in read(FIRST + text + LAST):
        assert document.findings == ()


def test_half_of_a_surrogate_pair_in_json_is_named() -> None:
    good, bad = (
        Source("x.json", rb'{"a": "%s"}' % text) for text in (rb"\ud83d\ude00", rb"\ud83d-")
    )
    (document,) = read_documents(good)
    assert document.value == {"a": "\U0001f600"}
    (finding,) = next(read_documents(bad)).findings
    assert "\\ud83d is half of a surrogate pair" in finding.finding.message


def test_every_code_has_a_case() -> None:
    tabled = {case["code"] for case in load_cases(CASES / "refused.yaml")}
    elsewhere = {"FileUnreadable", "NotUtf8", "JsonSyntax", "DocumentTooLarge", "NestedTooDeep"}
    assert set(codes.CODES) == tabled | elsewhere | {"MoreUnreadable", "EditRefused"}


def test_bytes_that_are_not_utf_8_affect_one_document_only() -> None:
    bad, good = read(b"a: \xc3\xa4\nb: \xff\n---\napiVersion: v1\nkind: X\n")
    assert told(bad) == ["NotUtf8"]
    assert (bad.findings[0].line, bad.findings[0].column) == (2, 4)
    assert good.value == {"apiVersion": "v1", "kind": "X"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(encoding: str) -> None:
    (document,) = read("apiVersion: v1\nkind: X\n".encode(encoding))
    assert told(document) == ["NotUtf8"]
    assert encoding[:6].upper() in document.findings[0].finding.message


def test_a_byte_order_mark_is_not_part_of_the_value() -> None:
    for text in ("apiVersion: v1\nkind: X\n", '{"apiVersion": "v1", "kind": "X"}'):
        (document,) = read(b"\xef\xbb\xbf" + text.encode())
        assert document.value == {"apiVersion": "v1", "kind": "X"}
        assert document.locate("kind") == ((2, 1) if "\n" in text else (1, 22))


def test_a_yaml_document_may_have_16_mebibytes_and_no_byte_more() -> None:
    head = b"apiVersion: v1\nkind: X\ntext: "
    fits = head + b"x" * (MAX_BYTES - len(head))
    (document,) = read(fits)
    assert document.findings == ()
    bad, good = read(fits + b"x\n---\napiVersion: v1\nkind: X\n")
    assert told(bad) == ["DocumentTooLarge"]
    assert good.findings == ()


def test_a_json_list_may_have_any_size_but_its_items_may_not() -> None:
    item = '{"apiVersion": "v1", "kind": "X", "text": "%s"}'
    small, large = item % ("x" * (MAX_BYTES // 2)), item % ("x" * MAX_BYTES)
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{small}, {large}, {small}, {small}]}}'
    assert [told(document) for document in read(text)] == [[], ["DocumentTooLarge"], [], []]


def test_an_item_that_is_too_large_is_not_decoded() -> None:
    items = '{"text": "a"}', f'{{"text": "{"x" * MAX_BYTES}"}}'
    text = f'{{"apiVersion": "v1", "kind": "XList", "items": [{items[0]}, {items[1]}]}}'
    asked: list[bytes] = []
    _, large = read_objects(
        Source("x.json", text.encode()), lambda raw, _version, _kind: asked.append(raw)
    )
    assert asked == [items[0].encode()]
    assert told(large) == ["DocumentTooLarge"]


@pytest.mark.parametrize("levels", [100, 101])
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_values_nest_a_hundred_deep(form: str, levels: int) -> None:
    inner = "[" * (levels - 1) + "]" * (levels - 1)
    text = f'{{"apiVersion": "v1", "kind": "X", "a": {inner}}}'
    if form == "yaml":
        text = f"apiVersion: v1\nkind: X\na: {inner}\n"
    (document,) = read(text)
    assert told(document) == ([] if levels == 100 else ["NestedTooDeep"])


@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? ", "[{a: "])
def test_unlimited_nesting_is_a_finding(opening: str) -> None:
    for name in ("x.yaml", "x.json"):
        (document,) = read(opening * 100_000, name)
        assert told(document)[0] in {"NestedTooDeep", "JsonSyntax"}


def test_aliases_that_nest_through_merges_are_bounded() -> None:
    lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: *a{i - 1}}}" for i in range(1, 2000))]
    (document,) = read("\n".join(lines))
    assert told(document) == ["NestedTooDeep"]


def test_a_document_full_of_errors_has_a_limited_number_of_findings() -> None:
    (document,) = read("".join("a: 1\n" for _ in range(1000)))
    assert len(document.findings) == 20


def test_reading_stops_after_too_many_unreadable_documents() -> None:
    documents = read("a: [\n---\n" * (MAX_UNREADABLE + 500))
    assert len(documents) == MAX_UNREADABLE + 1
    assert told(documents[-1]) == ["MoreUnreadable"]
    assert b"".join(document.raw for document in documents) == documents[0].source.data


def test_truncated_json_is_reported_with_its_position() -> None:
    (document,) = read('{"apiVersion": "v1",\n "a": {"b": [1, 2,, 3]}}', "x.json")
    located = document.findings[0]
    assert told(document) == ["JsonSyntax"]
    assert (located.line, located.column, located.finding.path) == (2, 19, "a.b[2]")


def test_invalid_json_is_read_as_yaml_unless_the_file_name_ends_with_json() -> None:
    text = '{"apiVersion": "v1", "kind": "X",}'
    assert read(text)[0].value == {"apiVersion": "v1", "kind": "X"}
    assert told(read(text, "x.json")[0]) == ["JsonSyntax"]


def test_numbers_of_json_keep_their_type() -> None:
    (document,) = read(
        '{"apiVersion": "v1", "kind": "X", "a": [1, 1.0, -0, 1e2, 9223372036854775808]}'
    )
    assert isinstance(document.value, dict)
    assert json.dumps(document.value["a"]) == "[1, 1.0, 0, 100.0, 9223372036854775808]"


def test_documents_without_content_are_not_counted() -> None:
    documents = read("# one\n---\n---\na: b: c\n---\n# two\n---\napiVersion: v1\nkind: X\n---\n")
    assert [document.name for document in documents if not document.empty] == ["Document#1", "X#2"]
    assert [document.empty for document in documents] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ("{name: a, namespace: b}", "X/b/a"),
        ("{name: a}", "X/a"),
        ("{generateName: a-}", "X#1"),
        ("{name: 3}", "X#1"),
        ("[name]", "X#1"),
    ],
)
def test_objects_are_named_by_kind_namespace_and_name(metadata: str, name: str) -> None:
    (document,) = read(f"apiVersion: v1\nkind: X\nmetadata: {metadata}\n")
    assert document.name == name


LIST = """\
apiVersion: v1
kind: PodList
items:
- metadata: {name: a}
- apiVersion: v2
  kind: Pot
  metadata:
    name: b
"""


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_items_of_a_list_are_separate_objects(form: str) -> None:
    text = LIST
    if form == "json":
        (whole,) = read_documents(Source("x", LIST.encode()))
        text = json.dumps(whole.value, indent=2)
    first, other = read(text)
    assert (first.name, other.name) == ("Pod/a", "Pot/b")
    assert (first.item, other.item) == (("items", 0), ("items", 1))
    lines = text.split("\n")
    line, column = other.locate("metadata.name")
    assert "name" in lines[line - 1][column - 1 :]
    assert line > first.locate("metadata.name")[0]


def test_a_bad_item_of_a_list_in_json_hides_no_other() -> None:
    good = '{"apiVersion": "v1", "kind": "X"}'
    bad = ['{"a": 1, "a": 2}', "null", "3", '{"kind": "X"}']
    text = f'{{"kind": "List", "apiVersion": "v1", "items": [{good}, {", ".join(bad)}, {good}]}}'
    documents = read(text)
    assert [told(document) for document in documents] == [
        *([], ["DuplicateKey"], ["NotAnObject"], ["NotAnObject"], ["NotAnObject"], []),
    ]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_list_in_a_list_is_an_error_that_hides_no_other(form: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    inner = {"apiVersion": "v1", "kind": "List", "items": [pod]}
    # Another kind can have a name that ends like that of a list.
    other = {"apiVersion": "example.com/v1", "kind": "AllowList", "items": [1]}
    value = {"apiVersion": "v1", "kind": "List", "items": [inner, pod, other]}
    text = json.dumps(value) if form == "json" else write_yaml([value])
    assert [told(document) for document in read(text)] == [["ListInList"], [], []]


def test_a_duplicate_items_key_is_a_finding() -> None:
    (document,) = read('{"kind": "List", "apiVersion": "v1", "items": [], "items": []}')
    assert told(document) == ["DuplicateKey"]


def test_findings_are_located_in_compact_json() -> None:
    item = '{"apiVersion":"v1","kind":"X","metadata":{"name":"ä"},"a":[{"b":1}]}'
    text = f'{{"kind":"List","apiVersion":"v1","items":[{item},{item}]}}'
    second = read(text)[1]
    line, column = second.locate("a[0].b")
    assert line == 1
    assert text[column - 1 :].startswith('"b":1}]}]}')
