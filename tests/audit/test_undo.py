"""What the undo of a step puts back, and which workloads that of a translation restarts."""

import json
import shlex
from collections.abc import Collection, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from drawbridge.audit.undo import restore_mode
from drawbridge.models.cluster import BLOCKED, Change, ClusterStart, ModelCluster
from drawbridge.models.nodes import ModelNode
from drawbridge.models.pods import AskedOfNode, ModelPod, PodKind, Served
from drawbridge.models.rollouts import PodRollout
from tests.audit.follow import audit
from tests.audit.test_cases import CASES, objects
from tests.tables import every_row

WITH_DAEMONS = [
    pytest.param(case, id=case["case"])
    for case in CASES
    if any(each.get("kind") == "DaemonSet" for each in case.get("objects", ()))
]
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


@every_row("case", WITH_DAEMONS)
def test_the_undo_of_keeping_apart_puts_back_what_was_there(
    case: dict[str, Any], tmp_path: Path
) -> None:
    before = [*objects(case)]
    steps = {each["title"]: each for each in audit(before, tmp_path)["steps"]}
    step = steps.get("Keep plugins and drivers apart", {"commands": [], "undo": []})
    after = deepcopy(before)
    _type(step["commands"], after)
    _type(step["undo"], after)
    assert _without_empty(after) == _without_empty(before)


def _type(commands: Iterable[str], cluster: Iterable[dict[str, Any]]) -> None:
    """Type commands that label nodes and patch DaemonSets; those of charts are not typed."""
    by_name = {(e["kind"], _name(e)): e for e in cluster if "name" in e["metadata"]}
    for text in commands:
        words = shlex.split(text)
        if words[:3] == ["kubectl", "label", "nodes"]:
            changes = [each for each in words[3:] if "/" in each]
            for node in (each for each in words[3:] if "/" not in each and each[0] != "-"):
                labels = by_name["Node", f"/{node}"]["metadata"]["labels"]
                for key, equals, value in (each.partition("=") for each in changes):
                    _merge(labels, {key: value} if equals else {key[:-1]: None})
        elif words[0] == "kubectl" and words[3] == "patch":
            name = words[2] + words[4].removeprefix("daemonset")
            _merge(by_name.get(("DaemonSet", name), {}), json.loads(words[-1]))


def _name(value: dict[str, Any]) -> str:
    return f"{value['metadata'].get('namespace', '')}/{value['metadata']['name']}"


def _merge(value: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, new in patch.items():
        if new is None:
            value.pop(key, None)
        elif isinstance(new, dict):
            _merge(value.setdefault(key, {}), new)
        else:
            value[key] = new


def _without_empty(value: object) -> object:
    """Return a value without empty fields, which say nothing."""
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, None)}
    return [*map(_without_empty, value)] if isinstance(value, list) else value
