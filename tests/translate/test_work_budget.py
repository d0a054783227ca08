"""The work for one pod is limited by its size, whatever its shape."""

import json
import sys
from types import FrameType

import msgspec
import pytest

from bench._hostile_shapes import SHAPES, container, pod, share
from bench.hostile import contexts, make_pod, work
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import EditError, apply_edits
from drawbridge.facts.model import Facts
from drawbridge.translate.changes.patch import MAX_ANNOTATION_BYTES, restore_original
from drawbridge.translate.changes.undo import apply_undo, parse_undo
from drawbridge.translate.legacy.asks import Ask, ContainerRole, DeviceUser, Kind
from drawbridge.translate.legacy.init_containers import share_devices
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests.workloads import find_other_requests
from drawbridge.translate.pods import TranslationContext, translate
from drawbridge.translate.targets.claims import MAX_CLAIMS
from drawbridge.translate.work_budget import (
    BASE_UNITS,
    BYTES_PER_UNIT,
    WorkBudget,
    WorkLimitError,
    count_values,
)
from tests.tables import YamlValue, every_row
from tests.thorough import drawn

SIZE = drawn(16, thorough=48) * 1024
# Calls of functions for each unit of work, and for each byte where nothing is charged.
CALLS_PER_UNIT, CALLS_PER_BYTE = 6, 2
ALONE = TranslationContext(facts=Facts())
CONTEXTS = contexts()
CLUSTER = TranslationContext(facts=CONTEXTS["facts"].facts)


def count_calls(value: YamlValue, context: TranslationContext) -> int:
    """Count the calls of Python and built-in functions while a pod is handled."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work(value, context)
    finally:
        sys.setprofile(None)
    return calls


@every_row("name", SHAPES)
def test_no_shape_takes_more_work_than_its_size_allows(name: str) -> None:
    text = make_pod(SHAPES[name], SIZE)
    limit = CALLS_PER_UNIT * (BASE_UNITS + SIZE // BYTES_PER_UNIT) + CALLS_PER_BYTE * SIZE
    for context in CONTEXTS.values():
        assert count_calls(msgspec.json.decode(text), context) <= limit


def test_the_comparison_of_many_init_containers_is_charged_before_it_begins() -> None:
    asks = [
        Ask(name=f"{role.name}-{i}", kind=Kind.GPU, row="x/y", users=(DeviceUser((), "c", role),))
        for role in (ContainerRole.APP, ContainerRole.INIT)
        for i in range(200)
    ]
    budget = WorkBudget(None)
    share_devices(asks[199:201], budget)
    assert 0 < budget.spent < BASE_UNITS
    with pytest.raises(WorkLimitError):
        share_devices(asks, WorkBudget(None))


def test_a_larger_pod_gets_more_units() -> None:
    small, large = WorkBudget({}), WorkBudget({"a": "x" * 10_000})
    small.charge(BASE_UNITS)
    with pytest.raises(
        WorkLimitError, match=f"2 bytes, for which the limit is {BASE_UNITS:,} units"
    ):
        small.charge(1)
    large.charge(BASE_UNITS + 10_000 // BYTES_PER_UNIT)
    with pytest.raises(WorkLimitError):
        large.charge(10)


def test_a_pod_that_is_not_json_gets_the_base() -> None:
    budget = WorkBudget({"a": ["\ud800"] * 10_000})
    with pytest.raises(WorkLimitError, match="has 0 bytes"):
        budget.charge(BASE_UNITS + 1)


def test_values_are_counted_without_recursion() -> None:
    deep: YamlValue = []
    for _ in range(5_000):
        deep = [deep]
    assert count_values(deep) == 5_001
    assert count_values({"a": ["x" * 10_240, 1]}) == 24


def test_a_pod_with_too_much_work_is_refused_before_anything_is_made() -> None:
    containers = [container(f"c{i}", share(i)) for i in range(800)]
    translated = translate(pod({"initContainers": containers, "containers": containers}), ALONE)
    assert [(f.code, f.severity, f.path) for f in translated.findings] == [
        ("PodTooComplex", "error", "spec")
    ]
    assert not translated.edits
    assert not translated.templates
    assert "units of work" in translated.findings[0].message


def test_a_pod_of_many_containers_is_translated() -> None:
    containers = [container(f"c{i}", {"nvidia.com/gpu": 1}) for i in range(100)]
    translated = translate(
        pod({"containers": containers}), TranslationContext(facts=CONTEXTS["facts"].facts)
    )
    assert len(translated.templates) == 4
    assert all(finding.severity != "error" for finding in translated.findings)


def claims_of(count: int) -> YamlValue:
    return pod({"containers": [container(f"c{i}", share(i)) for i in range(count)]})


def test_a_pod_has_a_limited_number_of_claims() -> None:
    most = translate(claims_of(MAX_CLAIMS), CLUSTER)
    assert len(most.templates) == MAX_CLAIMS
    more = translate(claims_of(MAX_CLAIMS + 1), CLUSTER)
    assert [each.code for each in more.findings if each.severity == "error"] == ["TooManyClaims"]
    assert not more.edits
    assert not more.templates


def annotated(text: str) -> YamlValue:
    return pod({"containers": [container("main", {"nvidia.com/gpu": 1})]}, {"a": text})


@pytest.mark.parametrize("letter", ["x", "\u4e2d", "\ud800"])
def test_the_annotations_of_the_translated_pod_fit_the_api_server(letter: str) -> None:
    own: YamlValue = apply_edits(annotated(""), translate(annotated(""), CLUSTER).edits)
    used = sum(len(f"{k}{v}".encode()) for k, v in own["metadata"]["annotations"].items())
    width = len(letter.encode("utf-8", "surrogatepass"))
    room = (MAX_ANNOTATION_BYTES - used) // width
    assert translate(annotated(letter * room), CLUSTER).edits
    translated = translate(annotated(letter * (room + 1)), CLUSTER)
    (finding,) = (each for each in translated.findings if each.severity == "error")
    assert finding.code == "AnnotationsTooLarge"
    assert f"the limit is {MAX_ANNOTATION_BYTES}" in finding.message
    assert not translated.edits
    assert not translated.templates


def test_undo_with_too_much_work_leaves_the_pod_as_it_is() -> None:
    step = {"op": "add", "path": "/spec/containers/0/args/0", "value": "x"}
    main = {"name": "main", "args": ["a"] * 200_000}
    text = json.dumps([step] * 4_000, separators=(",", ":"))
    value = pod({"containers": [main]}, {"drawbridge.dev/original": text})
    assert restore_original(value) is None
    with pytest.raises(EditError, match="units of work"):
        apply_undo(value, parse_undo(text), WorkBudget(value))
    few = pod({"containers": [main]}, {"drawbridge.dev/original": json.dumps([step] * 40)})
    restored: YamlValue = restore_original(few)
    assert len(restored["spec"]["containers"][0]["args"]) == 200_040


def test_a_message_names_a_few_of_many_containers() -> None:
    init = [container("init", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10})]
    limits = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 20}
    main = [container("main", limits)]
    others = [container(f"other-{i}", limits) for i in range(20)]
    value = pod({"initContainers": [*others, *init], "containers": main})
    messages = [each.message for each in read_pod(value, Configuration()).findings]
    shared = (
        "main, other-0, other-1, other-2, other-3, other-4, other-5, other-6 and 13 more containers"
    )
    names = "nvidia.com/gpu, nvidia.com/gpumem"
    sees = f"sees more than it requests ({names})"
    assert messages == [f"init container init shares the devices of {shared} and {sees}"]


def test_reading_with_too_much_work_is_a_finding() -> None:
    containers = [container(f"c{i}", share(i)) for i in range(800)]
    requests = read_pod(
        pod({"initContainers": containers, "containers": containers}), Configuration()
    )
    assert [each.code for each in requests.findings] == ["PodTooComplex"]
    assert requests.asks == ()


@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "a.b/" * 50_000, "/a " * 60_000])
def test_a_patch_written_as_text_is_searched_in_linear_time(text: str) -> None:
    task = {"podSpecPatch": f"{text} nvidia.com/gpu: 1"}
    value: YamlValue = {"kind": "Workflow", "spec": {"templates": [task]}}
    assert [each.name for each in find_other_requests(value, ())] == ["nvidia.com/gpu"]
