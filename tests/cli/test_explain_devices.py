"""`drawbridge explain` of devices and nodes, on files and on an API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Printed, command, on_api
from tests.cluster.fake.api import FakeApi
from tests.tables import write_yaml


def node(name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations, "labels": {"drawbridge.dev/dual": "true"}}
    status = {
        "allocatable": {"cpu": "8", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def published(name: str, devices: int = 4, *, slices: int = 1) -> dict[str, Any]:
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": slices},
        "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
    }
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**head, "metadata": {"name": f"{name}-1"}, "spec": spec}


def only(name: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def claim(namespace: str, pod: str, where: str, device: str) -> dict[str, Any]:
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": where, "device": device}
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{pod}-gpu", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": only(where)},
            "reservedFor": [{"resource": "pods", "name": pod}],
        },
    }


def pod(namespace: str, name: str, where: str, gpus: int = 0, **notes: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": f"{gpus}"} if gpus else {}
    main = {"name": "main", "image": "x", "resources": {"limits": limits}}
    metadata = {"name": name, "namespace": namespace, "annotations": notes}
    spec = {"nodeName": where, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


REGISTER = {"hami.io/node-nvidia-register": '[{"id": "GPU-a", "index": 3}]'}
SHARE = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;"}
CLUSTER = [
    node("n7"),
    node("n8", **REGISTER),
    node("n9"),
    published("n7"),
    published("n9", 1, slices=2),
    claim("team-a", "train", "n7", "gpu-3"),
    pod("team-a", "train", "n7"),
    pod("team-b", "share", "n8", 1, **SHARE),
    pod("team-b", "old", "n9", 2),
]


def asked(folder: Path, *words: str, forbidden: str = "") -> Printed:
    def prepare(api: FakeApi) -> None:
        if forbidden:
            api.fail(403, method="GET", part=forbidden, times=9)

    return on_api(folder, CLUSTER, *words, prepare=prepare)


def rows(printed: Printed) -> list[str]:
    assert printed.code == 0, printed
    return [" ".join(line.split()) for line in printed.out.splitlines()]


HEADING = "NODE DEVICE CLAIM PODS SINCE AMOUNT"
TRAIN = "n7 gpu.nvidia.com/n7/gpu-3 team-a/train-gpu team-a/train -"
SHARED = "n8 gpu-3 (GPU-a) - team-b/share - memory 3000Mi, cores 30"
OLD = "n9 device unknown - team-b/old - nvidia.com/gpu 2"


@pytest.mark.parametrize(
    ("about", "lines"),
    [
        ("n7/gpu-3", [HEADING, TRAIN]),
        ("n7/3", [HEADING, TRAIN]),
        ("n7", [HEADING, TRAIN]),
        ("n8/3", [HEADING, SHARED]),
        ("n8/GPU-a", [HEADING, SHARED]),
        ("n7/gpu-2", ["n7/gpu-2: no claim and no pod holds it"]),
        (
            "n9/gpu-0",
            [
                "n9/gpu-0: no claim holds it, and a pod of a device plugin may",
                HEADING,
                OLD,
                "1 pod of device plugins can have any device of the plugin on the node",
            ],
        ),
    ],
)
def test_a_live_cluster_and_files_say_who_holds_a_device(
    tmp_path: Path, about: str, lines: list[str]
) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(CLUSTER))
    assert rows(command("explain", f"device/{about}", "--cluster", str(dump))) == lines
    assert rows(asked(tmp_path, "explain", f"device/{about}")) == lines


def test_without_a_name_all_holders_are_shown(tmp_path: Path) -> None:
    assert {TRAIN, SHARED, OLD} < {*rows(asked(tmp_path, "explain", "devices"))}
    devices = json.loads(asked(tmp_path, "explain", "devices", "-o", "json").out)["devices"]
    assert [(each["node"], each["device"], each["claim"]) for each in devices] == [
        ("n7", "gpu-3", "team-a/train-gpu"),
        ("n8", "gpu-3", None),
        ("n9", "device unknown", None),
    ]


@pytest.mark.parametrize("about", ["n1", "n1/gpu-0", "n7/gpu-4", "n7/44"])
def test_an_unknown_node_or_device_exits_with_2(tmp_path: Path, about: str) -> None:
    printed = asked(tmp_path, "explain", f"device/{about}")
    assert (printed.code, printed.out) == (2, "")
    assert "[DeviceNotFound]" in printed.err


@pytest.mark.parametrize(
    ("forbidden", "shown"),
    [
        ("/nodes", {TRAIN, "n8 GPU-a - team-b/share - memory 3000Mi, cores 30", OLD}),
        ("/resourceslices", {TRAIN, SHARED, OLD}),
        ("/pods", {TRAIN}),
        ("/resourceclaims", {SHARED, OLD}),
    ],
)
def test_what_the_caller_may_not_read_is_said_and_the_rest_is_shown(
    tmp_path: Path, forbidden: str, shown: set[str]
) -> None:
    printed = asked(tmp_path, "explain", "devices", forbidden=forbidden)
    assert shown == {*rows(printed)} & {TRAIN, SHARED, OLD, *shown}
    assert "[PartUnreadable]" in printed.err


NOTHING = "nothing that you may read holds"


@pytest.mark.parametrize(
    ("forbidden", "about", "line"),
    [
        ("/resourceclaims", "device/n7/gpu-3", f"n7/gpu-3: {NOTHING} it"),
        ("/resourceclaims", "device/n7", f"n7: {NOTHING} a device"),
        ("/pods", "device/n8", f"n8: {NOTHING} a device"),
        ("/pods", "device/n8/GPU-a", f"n8/GPU-a: {NOTHING} it"),
        ("/resourceslices", "device/n7/gpu-2", "n7/gpu-2: no claim and no pod holds it"),
        (
            "/resourceclaims",
            "device/n9/gpu-0",
            "n9/gpu-0: no claim that you may read holds it, and a pod of a device plugin may",
        ),
        ("/resourceclaims", "node/n7", "gpu.nvidia.com, pool n7: 4 devices, allocation unknown"),
        ("/resourceslices", "node/n7", "no ResourceSlice that you may read for this node"),
    ],
)
def test_what_the_caller_may_not_read_is_not_told_to_be_absent(
    tmp_path: Path, forbidden: str, about: str, line: str
) -> None:
    assert line in rows(asked(tmp_path, "explain", about, forbidden=forbidden))
    data = json.loads(asked(tmp_path, "explain", about, "-o", "json", forbidden=forbidden).out)
    assert "PartUnreadable" in {each["code"] for each in data["findings"]}
    whole = json.loads(asked(tmp_path, "explain", about, "-o", "json").out)
    assert whole["findings"] == []


def test_a_node_that_may_not_be_read_has_no_state(tmp_path: Path) -> None:
    words = ("explain", "node/n7", "-o", "json")
    data = json.loads(asked(tmp_path, *words, forbidden="/nodes").out)
    assert {data[key] for key in ("ready", "unschedulable", "dual")} == {None}
    assert data["unread"] == ["Node"]


def test_explain_shows_a_node_with_its_pools_and_holders(tmp_path: Path) -> None:
    assert rows(asked(tmp_path, "explain", "node/n7")) == [
        "node/n7: ready",
        "dual: a device plugin and a driver offer the same devices",
        "device plugins: nvidia.com/gpu 4",
        "gpu.nvidia.com, pool n7: 4 devices, 3 not allocated (gpu-0, gpu-1, gpu-2)",
        HEADING,
        TRAIN,
    ]
    lines = rows(asked(tmp_path, "explain", "no/n9"))
    assert lines[3].endswith("; incomplete, 1 slice missing, so none can be allocated")
    data = json.loads(asked(tmp_path, "explain", "nodes/n9", "-o", "json").out)
    assert (data["node"], data["held"][0]["pods"]) == ("n9", ["team-b/old"])


def test_a_device_to_which_only_administrators_have_access_is_not_allocated(
    tmp_path: Path,
) -> None:
    dump = tmp_path / "dump.yaml"
    seen = claim("team-a", "monitor", "n7", "gpu-0")
    seen["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    dump.write_text(
        write_yaml([node("n7"), published("n7", 1), seen, pod("team-a", "monitor", "n7")])
    )
    lines = rows(command("explain", "node/n7", "--cluster", str(dump)))
    assert "gpu.nvidia.com, pool n7: 1 device, 1 not allocated (gpu-0)" in lines
    assert lines[-1].endswith("team-a/monitor - admin access yes")


OWNING = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools:
- driver: gpu.nvidia.com
  nodeSelector: {matchLabels: {drawbridge.dev/dual: "%s"}}
"""


def test_explain_of_a_node_follows_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    words = ("explain", "node/n7", "--config", str(path))
    owned = "owned pools of: gpu.nvidia.com"
    for selected in (True, False):
        path.write_text(OWNING % f"{selected}".lower())
        assert (owned in rows(asked(tmp_path, *words))) is selected
    path.write_text("kind: Other")
    printed = asked(tmp_path, *words)
    assert (printed.code, printed.out) == (2, "")


def test_explain_of_an_unknown_node_exits_with_2(tmp_path: Path) -> None:
    printed = asked(tmp_path, "explain", "node/n1")
    assert (printed.code, printed.out) == (2, "")
    assert "Node n1 not found [DeviceNotFound]" in printed.err


def test_a_long_list_is_cut_in_text_and_complete_in_json(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    pods = [pod("a", f"p{number}\x1b[2J", "n1", 1) for number in range(203)]
    dump.write_text(write_yaml([node("n1"), *pods]))
    code, out, _ = command("explain", "devices", "--cluster", str(dump))
    assert (code, "\x1b" in out, "and 3 more; -o json prints all" in out) == (0, False, True)
    printed = command("explain", "devices", "--cluster", str(dump), "-o", "json")
    assert len(json.loads(printed.out)["devices"]) == 203


STUCK = {
    **claim("team-a", "gone", "n7", "gpu-1"),
    "metadata": {
        "name": "gone-gpu",
        "namespace": "team-a",
        "deletionTimestamp": "2026-11-01T10:00:00Z",
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    },
}


@pytest.mark.parametrize("about", ["device/n7/gpu-1", "node/n7", "devices"])
def test_a_holder_that_never_ends_is_named_with_who_keeps_it(tmp_path: Path, about: str) -> None:
    (tmp_path / "dump.yaml").write_text(write_yaml([*CLUSTER, STUCK, *HEARTBEAT]))
    from_files = command("explain", about, "--cluster", str(tmp_path / "dump.yaml"))
    live = on_api(tmp_path, [*CLUSTER, STUCK], "explain", about)
    for printed in (from_files, live):
        assert "ResourceClaim/team-a/gone-gpu: under deletion, and pod gone uses it" in printed.out
        assert "held by resourceclaim-controller of kube-controller-manager" in printed.out
    assert (
        "[DeletionStuck]"
        not in command("explain", "device/n7/gpu-3", "--cluster", str(tmp_path / "dump.yaml")).out
    )


HEARTBEAT = [
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n7"},
        "spec": {"renewTime": "2026-11-01T11:00:00Z"},
    }
]


def test_a_claim_whose_pod_came_back_meanwhile_is_not_reported(tmp_path: Path) -> None:
    reserved = claim("team-a", "late", "n7", "gpu-2")

    def prepare(api: FakeApi) -> None:
        # The pod is not in the list yet, and is there when it is read.
        api.put(
            {
                **pod("team-a", "late", "n8"),
                "metadata": {"name": "late", "namespace": "team-a", "uid": "u"},
            }
        )

    printed = on_api(tmp_path, [*CLUSTER, reserved], "explain", "device/n7/gpu-2", prepare=prepare)
    assert "late" in printed.out
    assert "ConsumerGone" not in printed.out


@pytest.mark.parametrize("about", ["devices", "node/n7", "device/n7"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_that_cannot_be_read_is_told_and_exits_with_2(
    tmp_path: Path, about: str, form: str
) -> None:
    (tmp_path / "good.yaml").write_text(write_yaml(CLUSTER))
    (tmp_path / "other.yaml").write_text("hello world")
    printed = command("explain", about, "--cluster", str(tmp_path), "-o", form)
    assert "[NotAnObject]" in printed.err
    assert "gpu-3" in printed.out
    assert printed.code == 2
