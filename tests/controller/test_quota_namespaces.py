"""Which namespaces a run of the quota mirror looks at, and what it knows of them at their turn."""

from collections.abc import Collection

import pytest

from controller.mirrored_quota import RECOUNT
from controller.protocols import Unstructured
from drawbridge.names import MIRRORED_QUOTA
from tests.controller.test_quota_mirror import GPUS, LIMIT, PODS, TEAM, Scene

SPACES = [f"team-{number}" for number in range(10)]


class ManyScene(Scene):
    """A scene with several namespaces, all of which are done."""

    def __init__(self, *, settled: bool = True) -> None:
        super().__init__({"quotas": {"gpus": LIMIT}})
        for name in SPACES:
            self.add_namespace(name)
        for _ in range(4 if settled else 0):
            self.seconds += 3
            self.reconcile()

    def change(self, namespace: str, limit: int, name: str = "gpus") -> None:
        """Change the limit of a namespace, or add another one."""
        metadata = {"name": name, "namespace": namespace}
        self.quotas.put({"metadata": metadata, "spec": {"hard": {PODS: limit}}})

    def look(self) -> Collection[str]:
        """Run once, and return the namespaces that are looked at."""
        looked: list[str] = []
        is_enforced = self.reconciler._is_enforced  # noqa: SLF001  # which are asked for

        def note(name: str) -> bool:
            looked.append(name)
            return is_enforced(name)

        self.reconciler._is_enforced = note  # noqa: SLF001
        self.reconcile()
        self.reconciler._is_enforced = is_enforced  # noqa: SLF001
        return looked

    def ours(self, namespace: str) -> dict[str, str]:
        """Return the mirrored entries of a namespace."""
        hard: dict[str, str] = self.quotas.objects[namespace, MIRRORED_QUOTA]["spec"]["hard"]
        return hard


@pytest.mark.parametrize("name", ["gpus", "another"])
def test_a_limit_that_changes_while_others_are_written_is_written_in_the_same_run(
    name: str,
) -> None:
    scene = ManyScene(settled=False)

    def write(_verb: str, _value: Unstructured) -> None:
        scene.seconds += 2
        if len(scene.writes) == 3:
            scene.change(SPACES[-1], 1, name)

    scene.quotas.before_write = write
    scene.reconcile()
    assert scene.ours(SPACES[-1])[GPUS] == "1"
    assert len(scene.writes) == 1 + len(SPACES)


def test_the_quotas_of_all_are_read_once_by_a_run_that_takes_no_time() -> None:
    scene = ManyScene()
    reads: list[str | None] = []
    every = scene.quotas.all
    scene.quotas.all = lambda namespace=None: (  # type: ignore[method-assign]
        reads.append(namespace) or every(namespace)
    )
    scene.reconcile()
    assert reads == [None]


def test_a_change_looks_at_its_namespace_and_a_run_without_a_change_at_all() -> None:
    scene = ManyScene()
    assert set(scene.look()) == {TEAM, *SPACES}
    scene.change("team-7", 12)
    assert scene.look() == ["team-7"]
    labels = {"metadata": {"name": "team-3", "labels": {"drawbridge.dev/translate": "enforce"}}}
    scene.seconds += 3
    scene.look()
    scene.look()
    assert set(scene.look()) == {TEAM, *SPACES}
    scene.namespaces.put({**labels, "spec": {}})
    assert scene.look() == ["team-3"]


def test_a_change_that_concerns_all_namespaces_does_not_wait_for_one_of_a_quota() -> None:
    scene = ManyScene()
    scene.change("team-7", 12)
    scene.reconciler.look_at_all()
    assert set(scene.look()) == {TEAM, *SPACES}


def test_a_namespace_gets_its_recount_while_the_quotas_of_others_change() -> None:
    scene = ManyScene()
    scene.change("team-7", 12)
    for limit in range(5):
        scene.change("team-2", limit)
        scene.reconcile()
        scene.seconds += 1
    assert scene.ours("team-7")[GPUS] == "12"
    assert RECOUNT in scene.ours("team-7")
