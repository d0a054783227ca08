"""Claims are described in words: each request once, with its selectors in the chosen form."""

import pytest

from drawbridge.documents.values import Value
from drawbridge.dra.rules import Joint, Near, Rules, encode_rules
from drawbridge.names import RULES_ANNOTATION
from drawbridge.report.claim_requests import describe_claim, short_selectors, summarize_claim

ALL = [{"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]
ALTERNATIVES = [
    {
        "name": "a",
        "firstAvailable": [
            {"name": "x", "deviceClassName": "c", "count": 2},
            {"name": "y", "deviceClassName": "d"},
        ],
    }
]
COUNTS = [
    {
        "name": "a",
        "firstAvailable": [
            *({"name": f"{n}", "deviceClassName": "c", "count": n} for n in (1, 2, 3)),
            {"name": "last", "deviceClassName": "d", "count": 3},
        ],
    }
]
EQUAL = [{"name": n, "exactly": {"deviceClassName": "c", "count": 1}} for n in ("a", "b")]
GUARDED = '"model" in device.attributes["x.io"] && device.attributes["x.io"].model == "m"'
SELECTED = [
    {
        "name": "a",
        "exactly": {
            "deviceClassName": "c",
            "capacity": {"requests": {"cores": "30", "memory": "3Gi"}},
            "selectors": [{"cel": {"expression": GUARDED}}],
            "adminAccess": True,
        },
    }
]


def claim(requests: list[Value], constraints: list[Value] | None = None) -> Value:
    return {"spec": {"devices": {"requests": requests, "constraints": constraints}}}


@pytest.mark.parametrize(
    ("requests", "lines"),
    [
        (ALL, ["all devices of class c"]),
        (ALTERNATIVES, ["2 devices of class c, or else 1 device of class d"]),
        (COUNTS, ["1, 2 or 3 devices of class c, or else 3 devices of class d"]),
        (EQUAL, ["a, b: each 1 device of class c"]),
        (
            SELECTED,
            ['1 device of class c with cores 30 and memory 3Gi where model == "m" (admin access)'],
        ),
    ],
    ids=["all devices", "alternatives", "numbers", "equal requests", "selectors"],
)
def test_equal_requests_are_described_on_one_line(requests: list[Value], lines: list[str]) -> None:
    assert list(describe_claim(claim(requests), short_selectors)) == lines


def test_rules_of_the_annotation_are_described_like_constraints() -> None:
    rules = Rules(
        joint=(Joint(("a",), ("b",), ("x.io/root", "x.io/numa")),),
        near=(Near(("a",), ("x.io/root",), required=False),),
    )
    metadata: Value = {"annotations": {RULES_ANNOTATION: encode_rules(rules)}}
    described = describe_claim({"metadata": metadata, "spec": {"devices": {"requests": EQUAL}}})  # type: ignore[dict-item]
    assert list(described)[1:] == [
        "in the same groups by x.io/root or x.io/numa: a and b",
        "if possible with the same x.io/root: a",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", 3, None])
def test_unreadable_rules_are_not_described(text: Value) -> None:
    read: Value = {**claim(EQUAL), "metadata": {"annotations": {RULES_ANNOTATION: text}}}  # type: ignore[dict-item]
    assert list(describe_claim(read)) == list(describe_claim(claim(EQUAL)))


def test_expressions_are_complete_by_default() -> None:
    (line,) = describe_claim(claim(SELECTED))
    assert f" where {GUARDED} " in line


@pytest.mark.parametrize(("length", "shown"), [(64, "x" * 64), (65, "x" * 64 + "...")])
def test_the_end_of_a_long_expression_is_replaced_by_dots(length: int, shown: str) -> None:
    exactly: Value = {
        "deviceClassName": "c",
        "selectors": [{"cel": {"expression": "x" * length}}],
    }
    (line,) = describe_claim(claim([{"name": "a", "exactly": exactly}]), short_selectors)
    assert line == f"1 device of class c where {shown}"


def test_a_summary_has_all_requests_on_one_line_without_expressions() -> None:
    constraints: list[Value] = [{"requests": ["a", "b"], "matchAttribute": "x.io/root"}]
    assert summarize_claim(claim([*EQUAL, *SELECTED], constraints)) == (
        "1 device of class c and 1 device of class c and "
        "1 device of class c with cores 30 and memory 3Gi matching 1 selector (admin access), "
        "with the same x.io/root"
    )


def test_constraints_of_one_kind_share_a_line() -> None:
    constraints: list[Value] = [
        {"requests": ["a", "b"], "matchAttribute": "x.io/root"},
        {"requests": ["c", "d"], "matchAttribute": "x.io/root"},
        {"distinctAttribute": "x.io/numa"},
    ]
    assert list(describe_claim(claim(EQUAL, constraints)))[1:] == [
        "with the same x.io/root: a and b; c and d",
        "with different x.io/numa: all requests",
    ]
