"""The way back of a pod that others changed after us: right, or refused, never something else."""

import contextlib
import copy
import json
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import assume, example, settings
from hypothesis import given as every
from hypothesis import strategies as st
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import Original, Patch, restore_original
from drawbridge.translate.changes.undo import MAX_LENGTH, UndoStep, apply_undo, parse_undo
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.manifests.undone import undo_object
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn
from tests.translate.generated_pods import ASKING
from tests.translate.injected_webhooks import INJECTED, injected, theirs, without_theirs
from tests.translate.test_dialects import CASES, build_pod, load_configuration
from tests.translate.test_properties import CLUSTERS, asked

TABLE = load_cases(Path(__file__).parent / "cases" / "back.yaml")
BY = make_context(Configuration())


def pod_of(case: YamlValue) -> YamlValue:
    spec = case["pod"] if "pod" in case else {"containers": [{"name": "main", **case["container"]}]}
    return {"metadata": {"name": "p"}, "spec": spec}


def as_a_tool(pod: YamlValue) -> YamlValue:
    """Apply the way back as a JSON patch, knowing nothing of us; None where that fails."""
    way = json.loads(pod["metadata"]["annotations"][ORIGINAL_ANNOTATION])
    with contextlib.suppress(jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        return jsonpatch.apply_patch(pod, way)
    return None


@pytest.mark.parametrize("key", ["0", "9" * 5000], ids=["index", "number"])
def test_a_key_of_digits_is_no_index(key: str) -> None:
    annotation = json.dumps([{"op": "remove", "path": f"/metadata/labels/{key}"}])
    metadata: YamlValue = {"labels": {key: "a"}, "annotations": {ORIGINAL_ANNOTATION: annotation}}
    value: YamlValue = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}
    assert apply_edits(value, undo_object(value, "p").edits)["metadata"]["labels"] == {}


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_the_table_of_undo_patches(case: YamlValue) -> None:
    pod = pod_of(case)
    done = translate(pod, BY)
    assert done.edits
    after = jsonpatch.apply_patch(apply_edits(pod, done.edits), case["others"])
    gives = case["gives"]
    expected = None if gives is None else jsonpatch.apply_patch(pod, gives)
    assert restore_original(after) == expected
    if "drops" in case:  # what a JSON patch cannot say: that nothing is there
        assert as_a_tool(after) == pod
    else:
        assert as_a_tool(after) == (None if "fails" in case else expected)


@every_row("case", CASES)
def test_each_translated_request_of_the_tables_can_be_undone(case: YamlValue) -> None:
    pod = build_pod(case)
    done = translate(pod, make_context(load_configuration(case)))
    if done.edits:
        assert restore_original(apply_edits(pod, done.edits)) == pod


@settings(max_examples=drawn(16, thorough=80))
@every(ASKING, st.sampled_from(CLUSTERS), INJECTED)
def test_inserted_items_stay_and_the_original_requests_return(
    pod: YamlValue, by: TranslationContext, steps: list[tuple[str, int, int]]
) -> None:
    done = translate(pod, by)
    assume(done.edits)
    after = injected(apply_edits(pod, done.edits), asked(pod), steps)
    back = restore_original(after)
    assert without_theirs(back) == without_theirs(asked(pod))
    assert theirs(back) == theirs(after)
    assert as_a_tool(after) in (None, back)
    again = translate(after, by)
    assert not again.edits


@settings(max_examples=drawn(16, thorough=50))
@every(ASKING, st.sampled_from(CLUSTERS), INJECTED, INJECTED)
def test_undo_of_two_translations_finds_moved_items(
    pod: YamlValue,
    by: TranslationContext,
    steps: list[tuple[str, int, int]],
    more: list[tuple[str, int, int]],
) -> None:
    """A container that asks is put in front of the translated pod, and we are asked again."""
    sidecar = {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    done = translate(pod, by)
    assume(done.edits)
    between = injected(apply_edits(pod, done.edits), asked(pod), steps)
    between["spec"]["containers"].insert(0, copy.deepcopy(sidecar))
    done = translate(between, by)
    assume(done.edits)
    second = apply_edits(between, done.edits)
    whole = copy.deepcopy(asked(pod))
    whole["spec"]["containers"].insert(0, sidecar)
    assert without_theirs(restore_original(second)) == without_theirs(whole)
    assert as_a_tool(second) == restore_original(second)
    after = injected(second, whole, more)
    assert without_theirs(restore_original(after)) == without_theirs(whole)


STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "test"]),
            "path": st.sampled_from(
                [
                    *["/", "/kind", "/metadata", "/spec", "/spec/containers/0", "x/y"],
                    *["/spec/tolerations", "/spec/tolerations/0", "/spec/tolerations/1/name"],
                    *["/spec/tolerations/-", "/spec/tolerations/0/b", "/spec/tolerations/01"],
                    *["/spec/affinity", "/spec/affinity/c"],
                ]
            ),
            "value": st.sampled_from([None, {}, [], "x", {"name": "x"}, [{"name": "y"}]]),
        },
    ),
    max_size=6,
)


# What an earlier way back put back where something was again, a later one finds there.
AGAIN: YamlValue = [
    {"op": "replace", "path": "/spec/affinity/c", "value": {"name": "x"}},
    {"op": "add", "path": "/spec/affinity", "value": {"name": "x"}},
]


@settings(max_examples=drawn(60, thorough=300))
@example(AGAIN, None)
@every(STEPS, st.sampled_from([[], [{"name": "x"}, {"name": "y", "b": []}], {"0": 1}, None]))
def test_a_forged_undo_patch_gives_a_pod_or_none(written: YamlValue, held: YamlValue) -> None:
    pod: YamlValue = {
        "kind": "Pod",
        "spec": {"tolerations": held, "affinity": {"c": 1}, "containers": [{"name": "main"}]},
        "metadata": {"annotations": {ORIGINAL_ANNOTATION: json.dumps(written)}},
    }
    before = copy.deepcopy(pod)
    back: YamlValue = restore_original(pod)
    assert back is None or (back["kind"], back["spec"]["containers"]) == ("Pod", [{"name": "main"}])
    patch = Patch(pod)
    patch.put(("spec", "schedulerName"), "x")
    patch.add_undo()
    assert pod == before
    assert parse_undo(get_value(patch.pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)))
    assert restore_original(patch.pod) is not None


def test_values_merged_by_an_earlier_undo_are_merged_once() -> None:
    written = [{"op": "add", "path": "/spec/affinity/c", "value": each} for each in ([1], [2])]
    patch = Patch(
        {
            "spec": {"affinity": {}},
            "metadata": {"annotations": {ORIGINAL_ANNOTATION: json.dumps(written)}},
        }
    )
    patch.put(("spec", "schedulerName"), "x")
    patch.add_undo()
    back: YamlValue = restore_original(patch.pod)
    assert back["spec"]["affinity"] == {"c": [2, 1]}


@every_row(
    "text",
    [
        '[{"op":"test","path":"/a"}]',
        '[{"op":"add","path":"","value":{}}]',
        '[{"op":"test","path":"","value":{}}]',
        '[{"op":"remove","path":["a"]}]',
        '[{"op":"move","from":"/a","path":"/b"}]',
        '[{"op":["add"],"path":"/a","value":1}]',
        '[{"op":"copy","from":"/a","path":"/b"}]',
        '[{"op":"test","path":"/a","value":' + "[" * 900 + "]" * 900 + "}]",
        json.dumps([["-", "/a"]] * 9000),
        json.dumps([{"op": "add", "path": "/a", "value": "x" * MAX_LENGTH}]),
    ],
)
def test_an_invalid_undo_patch_is_not_parsed(text: str) -> None:
    assert parse_undo(text) == ()


def test_a_moved_item_is_found_in_a_long_list() -> None:
    pod: YamlValue = {"spec": {"tolerations": [{"name": f"{i}"} for i in range(100_000)]}}
    steps = [
        UndoStep("test", ("spec", "tolerations", "0", "name"), "9999"),
        UndoStep("remove", ("spec", "tolerations", "0")),
    ]
    assert apply_undo(pod, steps)[1][1] == UndoStep("remove", ("spec", "tolerations", 9999))


def test_each_undo_patch_that_fits_in_the_annotation_can_be_read() -> None:
    limits = {"limits": {"nvidia.com/gpu": 1}}
    containers = [{"name": f"c{i}", "resources": limits} for i in range(1100)]
    pod: YamlValue = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    done = translate(pod, replace(BY, original=Original.SHORT))
    after: YamlValue = apply_edits(pod, done.edits)
    assert parse_undo(after["metadata"]["annotations"][ORIGINAL_ANNOTATION])


def test_the_undo_patch_is_small() -> None:
    """Of a pod with 64 containers it takes an eighth of what annotations may have."""
    container = {"resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}}}
    containers = [{"name": f"container-{i}", **copy.deepcopy(container)} for i in range(64)]
    pod: YamlValue = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    done = translate(pod, BY)
    assert done.edits
    after: YamlValue = apply_edits(pod, done.edits)
    assert len(after["metadata"]["annotations"][ORIGINAL_ANNOTATION]) < MAX_LENGTH / 4
