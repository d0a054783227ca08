"""A simulation in a live cluster leaves the devices that nodes hold for pods that wait."""

import json
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from drawbridge.cluster.server_clock import ServerClock
from drawbridge.ledger.node_holds import NodeHold, write_node_hold
from drawbridge.names import HOLD_ANNOTATION
from tests.cli.running import on_api
from tests.cli.simulating import CLUSTER, nodes, pod
from tests.cluster.fake.api import FakeApi
from tests.tables import read_yaml_documents

_HOUR = 3600.0


def _hold(api: FakeApi, seconds: float, *, other: bool) -> None:
    """Let a node hold one of its two devices for pod `train`, or for an earlier one."""
    waiting = api.put(*read_yaml_documents(pod("train")))
    uid = "earlier" if other else waiting["metadata"]["uid"]
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    text = write_node_hold(NodeHold("default/train", uid, until))
    node = api.get("nodes", "n1")
    assert node is not None
    node["metadata"]["annotations"] = {HOLD_ANNOTATION: text}
    api.put(node)


@pytest.mark.parametrize(
    ("asking", "seconds", "other", "placed"),
    [
        (("a", "b", "c"), _HOUR, False, 2),
        (("a", "b", "train"), _HOUR, False, 3),  # it uses what is held for it
        (("a", "b", "c"), _HOUR, True, 3),  # the pod is another one
        (("a", "b", "c"), -1.0, False, 3),  # it has ended
    ],
)
def test_held_devices_are_for_their_pod(
    tmp_path: Path, *, asking: tuple[str, ...], seconds: float, other: bool, placed: int
) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text("".join(map(pod, asking)), encoding="utf-8")
    words = ("simulate", "-f", str(pods), "--context", "--allocator", "drawbridge", "-o", "json")
    objects = read_yaml_documents(CLUSTER)
    hold = partial(_hold, seconds=seconds, other=other)
    printed = on_api(tmp_path, objects, *words, prepare=hold)
    simulated = json.loads(printed[1])
    chosen = nodes(simulated)
    assert len([each for each in chosen if each]) == placed, chosen
    assert "n1" in chosen
    holders = [each for device in simulated["ledger"]["devices"] for each in device["holders"]]
    held = [each["pod"] for each in holders if each["state"] == "held"]
    assert held == ["default/train"] * (3 - placed)


def test_a_hold_ends_by_the_clock_of_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = time.time() - 2 * _HOUR
    monkeypatch.setattr(ServerClock, "now", lambda _: behind)
    pods = tmp_path / "pods.yaml"
    pods.write_text("".join(map(pod, "abc")), encoding="utf-8")
    words = ("simulate", "-f", str(pods), "--context", "--allocator", "drawbridge")
    # By the own clock it has ended.
    hold = partial(_hold, seconds=-_HOUR, other=False)
    printed = on_api(tmp_path, read_yaml_documents(CLUSTER), *words, prepare=hold)
    assert "held for default/train" in printed[1]


def test_held_devices_are_drawn(tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text("".join(map(pod, "ab")), encoding="utf-8")
    words = ("simulate", "-f", str(pods), "--context", "--allocator", "drawbridge")
    hold = partial(_hold, seconds=_HOUR, other=False)
    printed = on_api(tmp_path, read_yaml_documents(CLUSTER), *words, prepare=hold)
    assert "held for default/train" in printed[1]
