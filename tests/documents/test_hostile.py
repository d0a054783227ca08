"""Any bytes give documents with values or findings, and nothing else."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.documents import jsontext
from drawbridge.documents.codes import CODES
from drawbridge.documents.document import Document, Source
from drawbridge.documents.patch import Edit
from drawbridge.documents.problems import UnreadableError
from drawbridge.documents.read import read_documents, read_objects
from drawbridge.documents.splice import apply_to_text
from drawbridge.finding import Finding

POD = """\
# a pod
apiVersion: v1
kind: Pod
metadata: {name: x, labels: {"a.b/c": 'd'}}
spec:
  containers:
  - &c
    name: main
    args: ["-c", |-]
    resources:
      limits: {nvidia.com/gpu: 1, cpu: 0x10}
  - <<: *c
    name: !!str 2
    text: |+
      lines

      and: "lines"
---
- op: add
"""
PODS = (
    POD,
    POD.replace("|-]", "x]"),
    '{"apiVersion": "v1", "kind": "List", "items": [{"a": [1, 2.5e3, null, "\\u00e4"]}]}{"b": 1}',
)
BITS = (
    st.sampled_from(["\n", "---\n", "...", "- ", ": ", "{", "}", "[", "]", '"', "'", "|", ">", ","])
    | st.sampled_from(["&c ", "*c", "!!int ", "<<: ", "? ", "#", "~", "a: 1\n", "%", "\t", "\r"])
    | st.sampled_from(["\x00", "\ufeff", "\x85", "\u2028", "{{ ", "${X}", "$patch: delete"])
    | st.sampled_from(["\\u003a", "\\ud800", "1e999", ".inf"])
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A manifest with some of its parts lost, doubled or replaced."""
    text = draw(st.sampled_from(PODS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(BITS | st.just(text[start:end] * 2)) + text[end:]
    data = text.encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :]
    return data


def check(document: Document, data: bytes) -> None:
    """What holds of every document of every input."""
    last = data.count(b"\n") + 1
    for located in document.findings:
        assert located.finding.code in CODES
        assert located.finding.message
        assert located.finding.remedy
        assert located.finding.object == document.name or document.value is None
        assert 1 <= located.line <= last
        assert located.column >= 1
    assert not (document.findings and document.value is not None)
    json.dumps(document.value, allow_nan=False)
    for path in ("", "metadata.name", "spec.containers[1].text", "items[0].a[4]"):
        line, column = document.locate(path)
        assert 1 <= line <= last
        assert column >= 1
    done = apply_to_text(document, [Edit("add", ("x",), {"y": [1]})])
    assert isinstance(done, bytes | Finding)


INPUTS = (
    mutated()
    | st.binary()
    | st.text().map(str.encode)
    | st.lists(BITS).map(lambda parts: "".join(parts).encode())
)


@pytest.mark.parametrize("name", ["x.yaml", "x.json"])
@given(data=INPUTS)
def test_any_bytes_give_documents(name: str, data: bytes) -> None:
    whole = list(read_documents(Source(name, data)))
    assert b"".join(document.raw for document in whole) == data
    for document in whole:
        check(document, data)
    for document in read_objects(Source(name, data)):
        check(document, data)


TEXTS = st.sampled_from(["a", "b", ":", "", "\\u003a", "\\u0061", "\\\\", '\\"', "{", "]"])


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON in which keys are often given twice."""
    kind = draw(
        st.sampled_from(["object", "list", "text", "number"][: None if depth else 0] or ["text"])
    )
    if kind == "text":
        return f'"{draw(TEXTS)}"'
    if kind == "number":
        return draw(st.sampled_from(["1", "-0", "1.5", "1e3", "null", "true"]))
    inner = draw(st.lists(json_texts(depth=depth - 1), max_size=3))
    space = draw(st.sampled_from(["", " ", "\n"]))
    if kind == "list":
        return "[" + f",{space}".join(inner) + "]"
    return "{" + f",{space}".join(f'"{draw(TEXTS)}"{space}: {value}' for value in inner) + "}"


def has_twice(text: str) -> bool:
    """Whether a key is given twice in one object, found in another way."""
    twice: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.append(len({key for key, _ in items}) < len(items))
        return dict(items)

    json.loads(text, object_pairs_hook=pairs)
    return any(twice)


@given(json_texts())
def test_a_duplicate_json_key_is_always_found(text: str) -> None:
    try:
        value = jsontext.decode(text.encode())
    except UnreadableError as error:
        value, said = None, {problem.code.name for problem in error.problems}
    else:
        said = set()
    assert said == ({"DuplicateKey"} if has_twice(text) else set())
    assert said or value == json.loads(text)


def item(number: int) -> bytes:
    labels = ",".join(f'"label-{i}": "value-{i}"' for i in range(200))
    metadata = f'{{"name":"n{number}","labels":{{{labels}}}}}'
    return f'{{"apiVersion":"v1","kind":"X","metadata":{metadata}}}'.encode()


def test_a_long_list_in_json_is_read_item_by_item() -> None:
    items = b",".join(item(number) for number in range(500))
    data = b'{"kind": "List", "apiVersion": "v1", "items": [' + items + b"]}"
    source = Source("x", data)
    tracemalloc.start()
    try:
        count = sum(not document.findings for document in read_objects(source))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 500
    # All values at once would be several times the text.
    assert peak < len(data) / 4


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 20_000_000,
        b'{"a": "' + b"x" * 20_000_000,
        b'{"a": [' + b'{"b": 1},\n' * 600_000,
        b"a: &a [" + b"x, " * 6_000_000,
        b'{"items": [' + b"1, " * 6_000_000 + b'2], "kind": "List"',
    ],
    ids=["brackets", "text", "objects", "flow", "list"],
)
def test_megabytes_of_noise_give_findings_with_little_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        reported = {
            told.finding.code for obj in read_objects(Source("x", data)) for told in obj.findings
        }
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reported <= {"DocumentTooLarge", "JsonSyntax", "MoreUnreadable"}
    assert reported
    assert peak < 4 * len(data)
