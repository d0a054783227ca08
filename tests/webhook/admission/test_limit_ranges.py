"""LimitRanges on what is taken out of a pod."""

from pathlib import Path

import msgspec
import pytest

from documents.patch import patched
from tests.tables import Plain, cases
from webhook.admission.limit_ranges import LimitRange, findings, kept
from webhook.admission.removed_requests import Asked, asked

CASES = cases(Path(__file__).parent / "cases" / "limits.yaml")
GPU = "nvidia.com/gpu"


def container(name: str, limit: int, request: int) -> Plain:
    resources = {"limits": {"cpu": 1, GPU: limit}, "requests": {GPU: request}}
    return {"name": name, "resources": resources}


def pod_of(case: Plain) -> tuple[Plain, Plain]:
    """Give the pod, and the pod without its devices."""
    parts = {"containers": [container("main", case["main"], case.get("requests", case["main"]))]}
    if "init" in case:
        parts["initContainers"] = [container("init", case["init"], case["init"])]
    bare = {
        part: [{**each, "resources": {"limits": {"cpu": 1}, "claims": []}} for each in listed]
        for part, listed in parts.items()
    }
    return {"spec": parts}, {"spec": bare}


def range_of(limit: Plain) -> LimitRange:
    plain = {"metadata": {"name": "r"}, "spec": {"limits": [limit]}}
    return msgspec.convert(plain, LimitRange)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_limits(case: Plain) -> None:
    before, after = pod_of(case)
    told = findings(asked(before, after), [range_of(case["limit"])])
    lines = [f"{each.code}: {each.message}" for each in told]
    expected = case.get("told", [])
    assert len(lines) == len(expected), lines
    assert all(map(str.startswith, lines, expected)), lines


@pytest.mark.parametrize("part", ["max", "min", "default", "defaultRequest"])
def test_where_a_default_could_come_back_none_is_written(part: str) -> None:
    before, after = pod_of({"main": 2, "init": 1})
    edits = kept(asked(before, after), [range_of({"type": "Container", part: {GPU: 0}})])
    done: Plain = patched(after, edits)
    for each in (*done["spec"]["containers"], *done["spec"]["initContainers"]):
        assert each["resources"] == {
            "limits": {"cpu": 1, GPU: "0"},
            "requests": {GPU: "0"},
            "claims": [],
        }


def test_nothing_is_written_for_other_names_or_without_a_range() -> None:
    before, after = pod_of({"main": 2})
    taken = asked(before, after)
    assert kept(taken, [range_of({"type": "Container", "max": {"cpu": 2}})]) == ()
    assert kept(taken, []) == ()
    assert kept(Asked(), [range_of({"type": "Container", "max": {GPU: 2}})]) == ()


def test_an_empty_range_says_nothing() -> None:
    before, after = pod_of({"main": 2})
    empty = msgspec.json.decode(b'{"metadata":{},"spec":{"limits":null}}', type=LimitRange)
    assert findings(asked(before, after), [empty]) == ()
