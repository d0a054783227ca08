"""Paths, and where in the text they lead."""

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.documents.document import Source
from drawbridge.documents.paths import Path, format_path, get_value, parse_path, parse_pointer
from drawbridge.documents.read import read_documents
from tests.tables import every_row

TEXT = """\
# comment
apiVersion: v1
metadata:
  labels:
    a.b/c: x
    '1': y
spec:
    containers:
    - name: a
      resources:
        limits: {cpu: 1, "nvidia.com/gpu": 2}
    -
      name: b
    - *x
"""


@every_row(
    ("path", "place"),
    [
        ("", (2, 1)),
        ("apiVersion", (2, 1)),
        ("metadata.labels[a.b/c]", (5, 5)),
        ("metadata.labels[1]", (6, 5)),
        ("spec.containers", (8, 5)),
        ("spec.containers[0]", (9, 7)),
        ("spec.containers[0].name", (9, 7)),
        ("spec.containers[0].resources.limits[nvidia.com/gpu]", (11, 26)),
        ("spec.containers[1].name", (13, 7)),
        # What is not there is found at what would have it.
        ("metadata.annotations[x]", (3, 1)),
        ("spec.containers[0].resources.requests.cpu", (10, 7)),
        ("spec.containers[7].name", (8, 5)),
        ("spec.containers.name", (8, 5)),
        ("nothing", (2, 1)),
    ],
)
def test_a_path_is_located_at_the_nearest_line(path: str, place: tuple[int, int]) -> None:
    text = TEXT.replace("*x", "{name: c}")
    (document,) = read_documents(Source("x.yaml", text.encode()))
    assert document.locate(path) == place


def test_lines_are_counted_from_the_beginning_of_the_file() -> None:
    *_, document = read_documents(Source("x.yaml", b"a: 1\r\n---\r\n# c\r\n---\r\nb:\r\n- c\r\n"))
    assert document.locate("b[0]") == (6, 3)


KEYS = st.text(st.characters(blacklist_characters="]", blacklist_categories=["Cs"]), min_size=1)


@given(st.lists(KEYS | st.integers(0, 99)))
def test_a_written_path_is_parsed_back(path: list[str | int]) -> None:
    assert parse_path(format_path(tuple(path))) == tuple(map(str, path))


@every_row(
    ("path", "shown"),
    [
        (("spec", "containers", 0, "resources"), "spec.containers[0].resources"),
        (("metadata", "labels", "a.b/c"), "metadata.labels[a.b/c]"),
        (("a-b", "$c", "_d"), "a-b.$c._d"),
        (("1",), "[1]"),
        ((0, "a"), "[0].a"),
        ((), ""),
    ],
)
def test_keys_other_than_plain_words_have_brackets(path: Path, shown: str) -> None:
    assert format_path(path) == shown


def test_pointers_are_parsed() -> None:
    assert parse_pointer("") == ()
    assert parse_pointer("/spec/a~1b/m~0n/0/-") == ("spec", "a/b", "m~n", "0", "-")
    assert parse_pointer("/~01/") == ("~1", "")


def test_a_path_without_a_value_gives_none() -> None:
    value = {"a": [{"b": 1}]}
    assert get_value(value, ("a", 0, "b")) == get_value(value, ("a", "0", "b")) == 1
    for path in (("a", 1), ("a", "x"), ("a", -1), ("a", 0, "b", "c"), ("z",)):
        assert get_value(value, path) is None
