"""The controller owns the match conditions of the webhook only until it has written them."""

import pytest

from controller.protocols import Unstructured
from drawbridge.agreement.match_conditions import GUARD_KIND, KIND, TRANSITION_NAME
from drawbridge.api_error import ApiError
from drawbridge.names import WEBHOOK_CONFIGURATION
from tests.controller.test_match_conditions import Scene, asks

MANAGERS = [{"manager": each, "operation": "Apply"} for each in ("kubectl", "drawbridge")]


def own(applied: Unstructured) -> Unstructured:
    """Return what is stored of an apply; the store of the tests follows no managers."""
    return {**applied, "metadata": {**applied["metadata"], "managedFields": MANAGERS}}


def test_the_ownership_of_the_fields_is_released_as_soon_as_they_are_written() -> None:
    scene = Scene()
    store = scene.stores[KIND]
    store.admit = own
    scene.reconcile()
    assert scene.applied == [f"apply {KIND}", f"merge {KIND}"]
    assert scene.written["metadata"]["managedFields"] == MANAGERS[:1]


def test_conditions_that_an_apply_does_not_remove_stay_owned() -> None:
    """Each run would write twice, and begin the next one."""
    scene = Scene()
    left = {"name": TRANSITION_NAME, "expression": "true"}

    def keep(applied: Unstructured) -> Unstructured:
        for each in applied["webhooks"]:
            each["matchConditions"] = [*each.get("matchConditions", ()), left]
        return own(applied)

    scene.stores[KIND].admit = keep
    for _ in range(2):
        scene.reconcile()
        assert f"apply {KIND}" in scene.applied
        assert f"merge {KIND}" not in scene.applied


def test_ownership_of_fields_that_changed_meanwhile_is_released_later() -> None:
    scene = Scene(asks())
    held = scene.stores[KIND].objects["", WEBHOOK_CONFIGURATION]
    held["metadata"]["managedFields"] = MANAGERS
    for code in (404, 409):  # which the watch shows later
        scene.error = ApiError(code, "", "changed meanwhile")
        assert scene.reconcile() == [f"merge {KIND}"]
    assert scene.reconcile() == [f"merge {KIND}"]
    held = scene.stores[KIND].objects["", WEBHOOK_CONFIGURATION]
    held["metadata"]["managedFields"] = MANAGERS[:1]
    assert scene.reconcile() == []


@pytest.mark.parametrize("code", [0, 401, 403, 429, 500])
def test_ownership_that_cannot_be_released_keeps_no_other_one(code: int) -> None:
    scene = Scene(asks())
    for store in scene.stores.values():
        store.objects["", WEBHOOK_CONFIGURATION]["metadata"]["managedFields"] = MANAGERS
    tried = list[str]()
    for _ in range(2):
        scene.error = ApiError(code, "Denied", "a policy")
        with pytest.raises(ApiError):
            scene.reconcile()
        tried += scene.applied
    assert f"merge {GUARD_KIND}" in tried
