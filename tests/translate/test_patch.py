"""Edits of a pod: made, written as a JSON patch, and undone."""

import contextlib
import itertools
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.documents.patch import Edit, EditError, apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import equal_json
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import Patch, restore_original, to_operations
from drawbridge.translate.changes.undo import parse_undo, to_pointer
from tests.tables import every_row

POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}, "requests": None}}
        ],
        "unknown": {"kept": [1, 2]},
    },
}
LIMITS = ("spec", "containers", 0, "resources", "limits")


def test_a_pointer_escapes_slashes_and_tildes() -> None:
    assert to_pointer(("a/b", "c~d", 0, "")) == "/a~1b/c~0d/0/"
    assert to_pointer(()) == ""


def test_operations_are_a_json_patch() -> None:
    edits = [Edit("add", ("a",), 1), Edit("replace", ("b/c",), None), Edit("remove", ("d", 0))]
    assert to_operations(edits) == [
        {"op": "add", "path": "/a", "value": 1},
        {"op": "replace", "path": "/b~1c", "value": None},
        {"op": "remove", "path": "/d/0"},
    ]


def test_missing_and_null_parents_are_created() -> None:
    patch = Patch({"spec": None})
    patch.put(("metadata", "annotations", "a"), "b")
    patch.append(("spec", "resourceClaims"), {"name": "c"})
    assert patch.pod == {
        "spec": {"resourceClaims": [{"name": "c"}]},
        "metadata": {"annotations": {"a": "b"}},
    }


def test_an_equal_value_is_not_edited() -> None:
    patch = Patch(POD)
    patch.put(("metadata", "name"), "p")
    patch.remove(("metadata", "labels", "none"))
    patch.remove(("spec", "containers", 7))
    assert patch.edits == []


def test_true_and_one_are_different_values() -> None:
    patch = Patch({"a": 1})
    patch.put(("a",), value=True)
    assert patch.edits == [Edit("replace", ("a",), value=True)]


def test_empty_limits_are_removed_and_resources_stay() -> None:
    patch = Patch(POD)
    patch.remove((*LIMITS, "nvidia.com/gpu"))
    assert patch.edits == [Edit("remove", LIMITS)]
    assert apply_edits(POD, patch.edits) == patch.pod
    other = Patch({"limits": {"nvidia.com/gpu": 1, "cpu": 1}})
    other.remove(("limits", "nvidia.com/gpu"))
    assert other.pod == {"limits": {"cpu": 1}}


def test_the_undo_patch_is_on_the_pod_and_can_be_parsed() -> None:
    patch = Patch(POD)
    patch.remove((*LIMITS, "nvidia.com/gpu"))
    patch.append(("spec", "resourceClaims"), {"name": "drawbridge"})
    patch.add_undo()
    written = patch.pod["metadata"]["annotations"][ORIGINAL_ANNOTATION]  # type: ignore[index,call-overload]
    assert {"op": "add", "path": to_pointer(LIMITS), "value": {"nvidia.com/gpu": 1}} in json.loads(
        written
    )
    assert restore_original(patch.pod) == POD


@pytest.mark.parametrize("path", [("metadata", "name", "a"), ("spec", "containers", "a")])
def test_a_value_of_the_wrong_type_is_not_replaced(path: tuple[str, ...]) -> None:
    patch = Patch(POD)
    with pytest.raises(EditError):
        patch.put(path, 1)
    with pytest.raises(EditError):
        patch.append(path[:-2], 1)
    assert patch.pod == POD


def test_without_edits_there_is_no_annotation() -> None:
    patch = Patch(POD)
    patch.add_undo()
    assert patch.edits == []


@every_row("keys", [*itertools.permutations(["image", "name", "tty"])])
def test_an_item_is_tested_with_its_name_at_each_step(keys: tuple[str, ...]) -> None:
    pod: dict[str, Any] = {"metadata": {}, "spec": {"schedulingGates": [{"name": "gate"}]}}
    patch = Patch(pod)
    for key in keys:
        patch.put(("spec", "schedulingGates", 0, key), "new")
    patch.add_undo()
    way = json.loads(patch.pod["metadata"]["annotations"][ORIGINAL_ANNOTATION])  # type: ignore[index,call-overload]
    assert way[3] == {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "new"}
    assert jsonpatch.apply_patch(patch.pod, way) == pod
    assert restore_original(patch.pod) == pod


def test_undo_of_a_second_translation_also_undoes_the_first() -> None:
    first = Patch(POD)
    first.remove((*LIMITS, "nvidia.com/gpu"))
    first.add_undo()
    second = Patch(first.pod)
    second.put(("spec", "schedulerName"), "default")
    second.add_undo()
    assert restore_original(second.pod) == POD


@pytest.mark.parametrize("mine", [[], [{"name": "mine"}]])
def test_claims_that_others_add_later_stay(mine: list[Any]) -> None:
    patch = Patch({"spec": {"resourceClaims": mine} if mine else {}})
    patch.append(("spec", "resourceClaims"), {"name": "drawbridge"})
    patch.add_undo()
    patch.append(("spec", "resourceClaims"), {"name": "later"})
    patch.put(("metadata", "annotations", "later"), "too")
    assert restore_original(patch.pod) == {
        "metadata": {"annotations": {"later": "too"}},
        "spec": {"resourceClaims": [*mine, {"name": "later"}]},
    }


@every_row(
    "text",
    [
        "",
        "no JSON",
        "{}",
        "[1]",
        '[{"op": "move", "path": "/a", "from": "/b"}]',
        '[{"op": "remove", "path": 7}]',
        '[{"op": "remove", "path": "/not/there"}]',
        '[{"op": "remove", "path": ""}]',
        "[" * 100000,
    ],
)
def test_a_forged_undo_patch_does_no_harm(text: str) -> None:
    assert restore_original({"metadata": {"annotations": {ORIGINAL_ANNOTATION: text}}}) is None


def test_a_lone_surrogate_in_a_pod_can_be_encoded() -> None:
    written = '[{"op":"add","path":"/metadata/labels","value":{"a":"\\ud800"}}]'
    patch = Patch(
        {"metadata": {"annotations": {ORIGINAL_ANNOTATION: written}}, "spec": {"name": "é"}}
    )
    patch.put(("spec", "a"), 1)
    patch.add_undo()
    text = get_value(patch.pod, ("metadata", "annotations", ORIGINAL_ANNOTATION))
    assert isinstance(text, str)
    assert text.encode()
    assert "\\ud800" in text


def test_an_invalid_undo_patch_is_replaced() -> None:
    patch = Patch({"metadata": {"annotations": {ORIGINAL_ANNOTATION: "nonsense"}}, "spec": {}})
    patch.put(("spec", "schedulerName"), "a")
    patch.add_undo()
    assert restore_original(patch.pod) == {"metadata": {"annotations": {}}, "spec": {}}


def test_a_pod_without_an_undo_patch_is_not_restored() -> None:
    assert restore_original(POD) is None
    assert restore_original({"metadata": {"annotations": {ORIGINAL_ANNOTATION: 7}}}) is None
    assert parse_undo("[]") == ()


KEYS = st.sampled_from(["a", "b/c", "limits", "d~e"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(KEYS, min_size=2, max_size=4).map(lambda keys: ("spec", "affinity", *keys))
STEPS = st.lists(st.tuples(st.sampled_from(["put", "append", "remove"]), PATHS, VALUES), max_size=6)


@given(st.dictionaries(KEYS, VALUES, max_size=3), STEPS)
def test_any_edits_can_be_undone_and_written_as_a_json_patch(
    pod: dict[str, Any], steps: list[tuple[str, Any, Any]]
) -> None:
    pod = {"spec": {"affinity": pod}}
    patch = Patch(pod)
    for what, path, value in steps:
        # What is in the way stays, and the edit is refused whole.
        with contextlib.suppress(EditError):
            if what == "put":
                patch.put(path, value)
            elif what == "append":
                patch.append(path, value)
            else:
                patch.remove(path)
    patch.add_undo()
    assert jsonpatch.apply_patch(pod, to_operations(patch.edits)) == patch.pod
    if patch.edits:
        assert equal_json(restore_original(patch.pod), pod)
