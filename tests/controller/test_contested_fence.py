"""What the controller does if another client changes the list of pools of the fence."""

from typing import Any

import pytest

from controller.fence_rules import KEEP_SECONDS, LOSS_SECONDS, MAX_LOSSES
from drawbridge.api_error import ApiError
from tests.controller.test_fence_rules import DRIVER, ENTRY, POLICY, Scene, make_fenced


def test_a_client_that_empties_the_list_again_and_again_closes_the_nodes() -> None:
    """The fence is open each time, and the allocator would wait without an end."""
    scene = make_fenced("a")
    for expected in (*[True] * (MAX_LOSSES - 1), False, False):
        scene.install()
        assert scene.reconcile(5) is expected
        assert scene.pools == ["a"]
    (message,) = scene.messages
    assert "another client changes the variable pools" in message
    assert scene.reconcile(LOSS_SECONDS - 1) is False
    assert scene.reconcile(1) is True
    assert scene.pools == ["a"]


def test_an_own_write_without_a_response_is_no_contest() -> None:
    scene = Scene(ENTRY)
    for name in ("a", "b"):
        scene.node(name)

    def store_and_fail(_verb: str, value: dict[str, Any]) -> None:
        live = scene.policies.objects["", POLICY]
        scene.policies.put({**live, "spec": {**live["spec"], **value["spec"]}})
        raise ApiError(504, "Timeout")

    for _ in range(MAX_LOSSES):
        assert scene.reconcile() is True
        scene.slices.remove(f"b-{DRIVER}")
        scene.reconcile(1)
        scene.policies.before_write = store_and_fail
        with pytest.raises(ApiError):
            scene.reconcile(KEEP_SECONDS)
        scene.policies.before_write = lambda _verb, _value: None
        scene.reconcile()
        scene.node("b")
    assert scene.reconcile() is True


def test_what_another_leader_has_written_is_no_contest() -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    for _ in range(MAX_LOSSES + 1):
        scene.start()
        assert scene.reconciler.holds("a") is None
        assert scene.reconcile(5) is True
        scene.install()
    assert scene.messages == []


def test_a_policy_that_is_installed_again_is_no_contest() -> None:
    scene = make_fenced("a")
    for _ in range(MAX_LOSSES):
        scene.policies.remove(POLICY)
        assert scene.reconcile(5) is False
        scene.install()
        assert scene.reconcile(5) is True


def test_one_loss_counts_once_although_the_writes_that_mend_it_fail() -> None:
    scene = make_fenced("a")
    scene.install()

    def fail(*_: object) -> None:
        raise ApiError(500, "InternalError", "the storage is slow")

    scene.policies.before_write = fail
    for _ in range(4):
        with pytest.raises(ApiError):
            scene.reconcile(5)
    scene.policies.before_write = lambda *_: None
    assert scene.reconcile(5)
    assert scene.messages == []
