"""`drawbridge explain` of a pod that is for one node, which has not moved to a driver."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import command, on_api
from tests.cli.test_explain import NAMESPACE, files, translated
from tests.cli.test_explain_workloads import LABELS, waiting

NAME = "nvidia.com/gpu"
CODE = "[NodeNotMoved]"
TOLD = f"is for node n1, where a device plugin serves {NAME} {CODE}"


def cluster(units: str = "8", named: str = "n1") -> list[Any]:
    """Return a DaemonSet and its pod, which waits for a node, and node n1."""
    pod = waiting("train")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [named]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": {"spec": pod["spec"]}},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {NAME: units}},
    }
    return [NAMESPACE, translated()[1], node, daemon_set, pod]


@pytest.mark.parametrize("name", ["train", "ds/train"])
def test_a_pod_with_claims_is_told_that_its_node_has_the_plugin(name: str, tmp_path: Path) -> None:
    written = command("explain", name, "-n", "team-a", "-f", files(tmp_path, cluster()))
    live = on_api(tmp_path, cluster(), "explain", name, "-n", "team-a")
    for code, out, _ in (written, live):
        assert code == 1
        assert f"{TOLD}\n    Move the node to the driver" in out


@pytest.mark.parametrize(
    "objects", [cluster(units="0"), cluster(named="n2"), [*cluster()[:2], cluster()[4]]]
)
def test_nothing_is_told_of_other_nodes(objects: list[Any], tmp_path: Path) -> None:
    _, out, _ = command("explain", "train", "-n", "team-a", "-f", files(tmp_path, objects))
    assert "[PodPending]" in out
    assert CODE not in out


def test_a_pod_that_keeps_its_requests_is_not_told(tmp_path: Path) -> None:
    *others, pod = cluster()
    pod["metadata"].pop("annotations")
    pod["spec"].pop("resourceClaims")
    pod["spec"]["containers"][0]["resources"] = {"limits": {NAME: "1"}}
    _, out, _ = command("explain", "train", "-n", "team-a", "-f", files(tmp_path, [*others, pod]))
    assert "[PodPending]" in out
    assert CODE not in out


def test_a_request_that_stays_beside_claims_is_not_told(tmp_path: Path) -> None:
    *others, pod = cluster()
    pod["metadata"].pop("annotations")  # tells what was asked before
    pod["spec"]["containers"][0]["resources"]["limits"] = {NAME: "1"}
    _, out, _ = command("explain", "train", "-n", "team-a", "-f", files(tmp_path, [*others, pod]))
    assert "[PodPending]" in out
    assert CODE not in out


def test_who_may_not_read_nodes_is_told_the_rest(tmp_path: Path) -> None:
    code, out, err = on_api(
        tmp_path,
        cluster(),
        "explain",
        "train",
        "-n",
        "team-a",
        prepare=lambda api: api.fail(403, method="GET", part="/nodes", times=9),
    )
    assert code == 1, err
    assert "[PodPending]" in out
    assert CODE not in out
