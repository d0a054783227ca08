"""What scalars mean to Kubernetes, without quotes, as values and as keys."""

from pathlib import Path
from typing import Any

from drawbridge.documents.construct import construct
from drawbridge.documents.nodes import compose
from drawbridge.documents.values import Value, equal_json, resolve_scalar
from tests.tables import every_row, load_cases

CASES = Path(__file__).parent / "cases"


def read(text: str) -> Value:
    root = compose(text)
    return None if root is None else construct(root)


@every_row("case", load_cases(CASES / "scalars.yaml"), ids=lambda case: case["name"])
def test_a_scalar_has_the_value_that_kubernetes_reads(case: dict[str, Any]) -> None:
    for text in [] if "value" not in case else case["reads"]:
        text = {True: "true", False: "false", None: "null"}.get(text, text)  # noqa: PLW2901
        assert equal_json(resolve_scalar(text), case["value"]), text
    for text in case.get("texts", []):
        assert resolve_scalar(text) == text


@every_row("case", load_cases(CASES / "keys.yaml"), ids=lambda case: case["text"])
def test_a_key_becomes_text(case: dict[str, Any]) -> None:
    assert read(case["text"]) == {case["key"]: "x"}


@every_row(
    ("text", "value"),
    [
        ("x: &x {a: 1, b: 2}\nz:\n  <<: *x\n  b: 3", {"a": 1, "b": 3}),
        ("x: &x {a: 1, b: 2}\nz:\n  b: 3\n  <<: *x", {"a": 1, "b": 2}),
        ("x: &x {a: 1}\ny1: &y {a: 2, c: 3}\nz:\n  <<: [*x, *y]\n  d: 1", {"a": 1, "c": 3, "d": 1}),
        ("z:\n  '<<': {a: 1}", {"<<": {"a": 1}}),
        ("z:\n  !!str <<: {a: 1}", {"<<": {"a": 1}}),
        ("z:\n  !!merge <<: {a: 1}", {"a": 1}),
        ("x: &x {a: 1}\nw: &w\n  <<: *x\n  b: 2\nz:\n  <<: *w", {"a": 1, "b": 2}),
    ],
)
def test_merge_keys_apply_in_the_order_written(text: str, value: Value) -> None:
    whole = read(text)
    assert isinstance(whole, dict)
    assert whole["z"] == value


def test_aliases_are_expanded_and_share_nothing() -> None:
    whole = read("a: &a {b: [1]}\nc: *a")
    assert isinstance(whole, dict)
    assert whole["a"] == whole["c"]
    assert whole["a"] is not whole["c"]


@every_row(("value", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, False), ([], {})])
def test_values_of_different_types_are_not_equal(value: Value, other: Value) -> None:
    assert not equal_json(value, other)
    assert not equal_json([value], [other])
    assert not equal_json({"a": value}, {"a": other})
    assert equal_json({"a": value}, {"a": value})
