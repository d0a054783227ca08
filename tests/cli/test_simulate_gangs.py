"""`simulate` places the members of a gang together, or none of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import command

SLICE = """\
---
apiVersion: v1
kind: Node
metadata: {{name: {node}, labels: {{zone: {node}}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {node}}}
spec:
  driver: d.io
  nodeName: {node}
  pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: a}}, {{name: b}}]
"""
CLUSTER = (
    """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""
    + SLICE.format(node="n1")
    + SLICE.format(node="n2")
)
BRIDGE = """\
---
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools: [{driver: d.io, nodeSelector: {}, unfenced: true}]
"""


def group(name: str, minimum: int) -> str:
    return f"""\
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {{name: {name}, namespace: default}}
spec: {{schedulingPolicy: {{gang: {{minCount: {minimum}}}}}}}
"""


def member(name: str, gang: str = "", *, claim: bool = True, **spec: Any) -> str:  # noqa: ANN401  # JSON
    whole = {"containers": [{"name": "main"}], **spec}
    if claim:
        whole["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "one"}]
    if gang:
        whole["schedulingGroup"] = {"podGroupName": gang}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}
    return f"---\n{json.dumps(pod)}\n"


class Placed:
    """What the simulation printed."""

    def __init__(self, folder: Path, pods: str, *words: str, cluster: str = CLUSTER) -> None:
        path = folder / "cluster.yaml"
        path.write_text(cluster, encoding="utf-8")
        ran = command(
            "simulate", "--cluster", str(path), "-f", "-", "-o", "json", *words, stdin=pods
        )
        self.code, self.err = ran.code, ran.err
        self.data: Any = json.loads(ran.out)
        self.nodes = {each["pod"].partition("/")[2]: each["node"] for each in self.data["pods"]}

    def messages(self, pod: str) -> list[str]:
        """Return the reasons of a pod."""
        (entry,) = (each for each in self.data["pods"] if each["pod"] == f"default/{pod}")
        return [f"{each['code']}: {each['message']}" for each in entry["reasons"]]


def gang_of(size: int, name: str = "train", **spec: Any) -> str:  # noqa: ANN401  # JSON
    return "".join(member(f"{name}-{number}", name, **spec) for number in range(size))


def test_all_members_of_a_gang_that_fits_are_placed(tmp_path: Path) -> None:
    done = Placed(tmp_path, gang_of(4) + group("train", 4))
    assert done.code == 0
    assert sorted(done.nodes.values()) == ["n1", "n1", "n2", "n2"]


def test_a_gang_that_does_not_fit_holds_nothing(tmp_path: Path) -> None:
    pods = gang_of(5) + group("train", 5) + gang_of(4, "other")
    done = Placed(tmp_path, pods)
    assert done.code == 1
    assert [node for name, node in done.nodes.items() if name.startswith("train")] == [None] * 5
    assert None not in {node for name, node in done.nodes.items() if name.startswith("other")}
    assert done.messages("train-0")[0] == (
        "GangNotPlaced: PodGroup default/train needs 5 members together, and 4 of 5 that wait fit"
    )


def test_a_gang_above_its_minimum_is_placed_as_far_as_it_fits(tmp_path: Path) -> None:
    done = Placed(tmp_path, gang_of(5) + group("train", 3))
    assert done.code == 1
    assert list(done.nodes.values()).count(None) == 1
    assert not any("GangNotPlaced" in each for each in done.messages("train-4"))


def test_a_gang_without_its_object_needs_all_members(tmp_path: Path) -> None:
    done = Placed(tmp_path, gang_of(5))
    assert set(done.nodes.values()) == {None}


def test_a_group_whose_pods_are_scheduled_alone_is_no_gang(tmp_path: Path) -> None:
    policy = group("train", 9).replace("gang: {minCount: 9}", "basic: {}")
    done = Placed(tmp_path, gang_of(5) + policy)
    assert list(done.nodes.values()).count(None) == 1


def test_fewer_members_than_the_minimum_are_not_tried(tmp_path: Path) -> None:
    done = Placed(tmp_path, gang_of(3) + group("train", 4))
    assert set(done.nodes.values()) == {None}
    assert done.messages("train-0") == [
        "GangNotPlaced: PodGroup default/train needs 4 members together, and 3 wait"
    ]


def test_members_that_run_count(tmp_path: Path) -> None:
    running = member("train-9", "train", claim=False, nodeName="n1")
    done = Placed(tmp_path, gang_of(3) + group("train", 4), cluster=CLUSTER + running)
    assert done.code == 0


def test_members_give_way_to_those_that_need_their_nodes(tmp_path: Path) -> None:
    """One after the other, the first members take the only node of the last ones."""
    ours: dict[str, Any] = {"schedulerName": "drawbridge"}
    free = "".join(member(f"free-{number}", "train", **ours) for number in range(2))
    bound: dict[str, Any] = {"nodeSelector": {"zone": "n1"}, **ours}
    near = "".join(member(f"near-{number}", "train", **bound) for number in range(2))
    done = Placed(tmp_path, free + near + group("train", 4), cluster=CLUSTER + BRIDGE)
    assert done.nodes == {"free-0": "n2", "free-1": "n2", "near-0": "n1", "near-1": "n1"}
    assert done.code == 0


def test_a_launcher_without_devices_is_a_member(tmp_path: Path) -> None:
    launcher = member("launcher", "train", claim=False)
    workers = gang_of(3, schedulerName="drawbridge")
    done = Placed(tmp_path, launcher + workers + group("train", 4), cluster=CLUSTER + BRIDGE)
    assert done.code == 0
    assert done.nodes["launcher"] is not None


@pytest.mark.parametrize("words", [(), ("--preempt",)])
def test_a_split_gang_is_not_placed(tmp_path: Path, words: tuple[str, ...]) -> None:
    launcher = member("launcher", "train", claim=False, schedulerName="volcano")
    workers = gang_of(3, schedulerName="drawbridge")
    done = Placed(
        tmp_path, launcher + workers + group("train", 4), *words, cluster=CLUSTER + BRIDGE
    )
    assert set(done.nodes.values()) == {None}
    assert "GangSplit" in done.err


def test_the_pods_of_a_workload_are_members(tmp_path: Path) -> None:
    job = """\
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 5
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: train}}
    spec:
      resourceClaims: [{name: g, resourceClaimTemplateName: one}]
      containers: [{name: main}]
"""
    least = "---\n" + json.dumps(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"minMember": 5},
        }
    )
    done = Placed(tmp_path, job + least)
    (workload,) = done.data["workloads"]
    assert (workload["pods"], workload["placed"]) == (5, 0)
    assert "4 of 5 that wait fit" in workload["reasons"][0]["message"]
    assert Placed(tmp_path, job.replace("5", "4") + least.replace("5", "4")).code == 0
