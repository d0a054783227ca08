"""The configuration in use, by what the API server has of it and of the offered one."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from controller import configuration
from controller.configuration import ConfigurationReconciler
from drawbridge.agreement.configuration_in_use import ConfigurationConfigMap, read_condition
from drawbridge.api_error import ApiError
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONFIGURATION_KEY,
)
from tests.cluster.fake.configuration import HEAD, accept, offer
from tests.cluster.memory_store import START, MemoryStore
from tests.controller.harness import FakeReporter

OTHER, WRONG = f"{HEAD}unsetGroups: all\n", f"{HEAD}placement: natve\n"


class Scene:
    """A reconciler in a process that has last used a text."""

    def __init__(self, last: str, *stored: dict[str, Any]) -> None:
        self.maps: MemoryStore[ConfigurationConfigMap] = MemoryStore(ConfigurationConfigMap)
        self.reporter = FakeReporter()
        for each in stored:
            self.put(each)
        self.reconciler = ConfigurationReconciler(
            self.maps, "own", lambda: last, self.reporter, lambda: START
        )

    def put(self, value: dict[str, Any]) -> None:
        """Store a ConfigMap."""
        self.maps.put({**value, "metadata": {**value["metadata"], "namespace": ""}})

    def reconcile(self) -> str:
        """Run once, and return the text in use."""
        asyncio.run(self.reconciler.reconcile())
        return self.in_use

    @property
    def in_use(self) -> str:
        """The text in use."""
        value = self.maps.cached(("", CONFIGURATION_IN_USE_CONFIG_MAP)).value
        return (value.data or {}).get(CONFIGURATION_KEY, "")

    @property
    def status(self) -> str:
        """Whether the offered configuration is in use, as the copy says."""
        condition = read_condition(self.maps.cached(("", CONFIGURATION_IN_USE_CONFIG_MAP)).value)
        assert condition is not None
        return condition.status


def test_a_new_leader_whose_watches_are_behind_keeps_what_is_in_use() -> None:
    scene = Scene(HEAD, offer(OTHER), accept(OTHER))
    assert scene.reconcile() == OTHER
    scene.put(offer(WRONG))
    assert scene.reconcile() == OTHER
    assert scene.status == "False"
    assert "ConfigurationRejected" in scene.reporter.codes


@pytest.mark.parametrize("offered", [HEAD, WRONG])
def test_what_another_leader_accepts_meanwhile_is_not_replaced(
    offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(HEAD, offer(offered), accept(HEAD, offered=f"{HEAD}x: 1\n"))
    read = scene.maps.read

    async def read_before_others(name: str, namespace: str = "") -> dict[str, Any] | None:
        value = await read(name, namespace)
        if name == CONFIGURATION_CONFIG_MAP:
            scene.put(offer(OTHER))
            scene.put(accept(OTHER))
        return value

    monkeypatch.setattr(scene.maps, "read", read_before_others)
    with pytest.raises(ApiError) as caught:
        scene.reconcile()
    assert caught.value.conflict
    assert scene.maps.objects["", CONFIGURATION_IN_USE_CONFIG_MAP]["data"] == {
        CONFIGURATION_KEY: OTHER
    }


@pytest.mark.parametrize("last", [HEAD, ""])
def test_an_edited_copy_is_repaired_with_what_the_process_has_used(last: str) -> None:
    edited = accept(OTHER)
    edited["data"][CONFIGURATION_KEY] += "# edited\n"
    scene = Scene(last, offer(WRONG), edited)
    assert scene.reconcile() == last


def test_a_deleted_original_leaves_what_is_in_use() -> None:
    scene = Scene(HEAD, offer(OTHER))
    assert scene.reconcile() == OTHER
    assert scene.status == "True"
    scene.maps.remove(CONFIGURATION_CONFIG_MAP)
    assert scene.reconcile() == OTHER
    assert scene.status == "False"


def test_a_configuration_that_may_not_be_read_is_reported_and_the_one_in_use_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The role is that of an earlier version, which did not allow it."""
    scene = Scene(HEAD, offer(OTHER), accept(HEAD))
    read = scene.maps.read

    async def forbid(name: str, namespace: str = "") -> dict[str, Any] | None:
        if name == CONFIGURATION_CONFIG_MAP:
            raise ApiError(403, "Forbidden", "cannot get resource configmaps")
        return await read(name, namespace)

    with monkeypatch.context() as patch:
        patch.setattr(scene.maps, "read", forbid)
        with pytest.raises(ApiError):  # tried again soon: no watch tells of a new role
            scene.reconcile()
        assert scene.in_use == HEAD
    assert scene.status == "False"
    (finding,) = scene.reporter.findings
    assert (finding.code, "cannot get resource configmaps" in finding.message) == (
        "ConfigurationRejected",
        True,
    )
    assert scene.reconcile() == OTHER
    assert scene.status == "True"


@pytest.mark.parametrize("code", [0, 401, 503])
def test_an_api_server_that_cannot_answer_now_refuses_no_configuration(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(HEAD, offer(OTHER), accept(HEAD))
    before = dict(scene.maps.objects)
    read = scene.maps.read

    async def fail(name: str, namespace: str = "") -> dict[str, Any] | None:
        if name == CONFIGURATION_CONFIG_MAP:
            raise ApiError(code)
        return await read(name, namespace)

    monkeypatch.setattr(scene.maps, "read", fail)
    with pytest.raises(ApiError):
        scene.reconcile()
    assert (scene.maps.objects, scene.reporter.codes) == (before, [])


def test_the_event_loop_goes_on_while_large_texts_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def reading(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def note(value: object) -> object:
            threads.append(threading.current_thread())
            return read(value)

        return note

    for name in ("read_offered", "read_accepted"):
        monkeypatch.setattr(configuration, name, reading(getattr(configuration, name)))
    scene = Scene(HEAD, offer(WRONG), accept(OTHER))
    assert scene.reconcile() == OTHER
    assert len(threads) == 2
    assert threading.main_thread() not in threads
