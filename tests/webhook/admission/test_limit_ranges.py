"""LimitRanges for device requests that a translation removes."""

from pathlib import Path

import msgspec
import pytest

from drawbridge.documents.patch import apply_edits
from tests.tables import YamlValue, every_row, load_cases
from webhook.admission.limit_ranges import LimitRange, check_pod, keep_zero_amounts
from webhook.admission.removed_requests import RemovedRequests, find_removed_requests

CASES = load_cases(Path(__file__).parent / "cases" / "limits.yaml")
GPU = "nvidia.com/gpu"


def container(name: str, limit: int, request: int) -> YamlValue:
    resources = {"limits": {"cpu": 1, GPU: limit}, "requests": {GPU: request}}
    return {"name": name, "resources": resources}


def build_pods(case: YamlValue) -> tuple[YamlValue, YamlValue]:
    """Return the pod, and the pod without its device requests."""
    parts = {"containers": [container("main", case["main"], case.get("requests", case["main"]))]}
    first = []
    if "sidecar" in case:
        requests = case.get("sidecar_requests", case["sidecar"])
        sidecar = container("sidecar", case["sidecar"], requests)
        first.append({**sidecar, "restartPolicy": "Always"})
    # As another webhook adds them.
    parts["containers"] += [{"name": name} for name in case.get("without", [])]
    first += [{"name": name} for name in case.get("init_without", [])]
    if "init" in case:
        first.append(container("init", case["init"], case["init"]))
    if first:
        parts["initContainers"] = first
    bare = {
        part: [{**each, "resources": {"limits": {"cpu": 1}, "claims": []}} for each in listed]
        for part, listed in parts.items()
    }
    return {"spec": parts}, {"spec": bare}


def build_range(*limits: YamlValue) -> LimitRange:
    plain = {"metadata": {"name": "r"}, "spec": {"limits": limits}}
    return msgspec.convert(plain, LimitRange)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_limit_range_cases(case: YamlValue) -> None:
    before, after = build_pods(case)
    findings = check_pod(
        find_removed_requests(before, after), [build_range(case["limit"], *case.get("limits", []))]
    )
    lines = [f"{each.code}: {each.message}" for each in findings]
    expected = case.get("findings", [])
    assert len(lines) == len(expected), lines
    assert all(map(str.startswith, lines, expected)), lines


@pytest.mark.parametrize("part", ["max", "min", "default", "defaultRequest"])
def test_zero_is_kept_where_a_default_could_return(part: str) -> None:
    before, after = build_pods({"main": 2, "init": 1})
    edits = keep_zero_amounts(
        find_removed_requests(before, after), [build_range({"type": "Container", part: {GPU: 0}})]
    )
    done: YamlValue = apply_edits(after, edits)
    for container in (*done["spec"]["containers"], *done["spec"]["initContainers"]):
        assert container["resources"] == {
            "limits": {"cpu": 1, GPU: "0"},
            "requests": {GPU: "0"},
            "claims": [],
        }


@pytest.mark.parametrize("part", ["limits", "requests"])
def test_a_name_that_stays_in_one_part_is_not_removed(part: str) -> None:
    before, _ = build_pods({"main": 2})
    kept = {**before["spec"]["containers"][0], "resources": {part: {GPU: 2}}}
    assert find_removed_requests(before, {"spec": {"containers": [kept]}}).names == ()


def test_nothing_is_kept_for_other_names_or_without_a_range() -> None:
    before, after = build_pods({"main": 2})
    removed = find_removed_requests(before, after)
    assert keep_zero_amounts(removed, [build_range({"type": "Container", "max": {"cpu": 2}})]) == ()
    assert keep_zero_amounts(removed, []) == ()
    assert (
        keep_zero_amounts(RemovedRequests(), [build_range({"type": "Container", "max": {GPU: 2}})])
        == ()
    )


def test_an_empty_range_gives_no_findings() -> None:
    before, after = build_pods({"main": 2})
    empty = msgspec.json.decode(b'{"metadata":{},"spec":{"limits":null}}', type=LimitRange)
    assert check_pod(find_removed_requests(before, after), [empty]) == ()
