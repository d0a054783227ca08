"""Which workloads the undo of a translation restarts."""

from collections.abc import Collection

import pytest

from drawbridge.audit.undo import restore_mode
from drawbridge.models.cluster import BLOCKED, Change, ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served
from drawbridge.models.rollouts import PodRollout

NODES = frozenset({"n"})
UNITS = {"nvidia.com/gpu": 1}


def _kind(owner: str, *, can_restart: bool) -> PodKind:
    asked = AskedOfNode(UNITS, {}, NODES, NODES)
    translated = AskedOfNode({}, {"gpu.nvidia.com": 1.0}, NODES, NODES)
    rollout = PodRollout(can_restart=can_restart)
    return PodKind("a", owner, {}, asked, translated, units=UNITS, rollout=rollout)


def test_the_search_for_restarts_ends_when_another_owner_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restart, restarts = ModelCluster.restart, list[Collection[str]]()

    def stop_another(cluster: ModelCluster, owners: Collection[str]) -> None:
        restarts.append(owners)
        assert len(restarts) < 10, "the search does not end"
        cluster.changes.append(Change(BLOCKED, 1))
        restart(cluster, owners)

    monkeypatch.setattr(ModelCluster, "restart", stop_another)
    kinds = _kind("Deployment/web", can_restart=True), _kind("Deployment/held", can_restart=False)
    node = ModelNode("n", {"nvidia.com/gpu": 8}, {"gpu.nvidia.com": 8.0})
    old = [ModelPod(number, "n", Served.PLUGIN) for number in range(2)]
    new = [each._replace(served=Served.DRIVER, is_translated=True) for each in old]
    before, after = (ModelCluster(ClusterStart(kinds, e, [node])) for e in (old, new))
    commands, kept = restore_mode(before, [after], "a", {"a": "report"})
    assert any("restart deployment/web" in each for each in commands)
    assert kept == ("Deployment/held",)
