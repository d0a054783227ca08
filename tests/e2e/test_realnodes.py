"""The parts of the rig of real nodes that need no node: images, cgroups, protocols, namespaces."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.nodes.record import Record
from e2e.nodes.service import Method, Service, call
from e2e.realnodes import (
    cdi,
    cgroups,
    device_plugin,
    enter,
    pod_resources,
    registration,
)
from e2e.realnodes.images import BUSYBOX, Tree, archive
from e2e.realnodes.machine_state import differences
from e2e.realnodes.runnable import runnable
from e2e.realnodes.stage import END, Printed, read_output
from tests.tables import read_yaml

NAMESPACES = pytest.mark.skipif(
    sys.platform != "linux" or bool(enter.lacking()), reason=f"no namespaces: {enter.lacking()}"
)


def test_an_archive_describes_its_blobs_and_names_its_images() -> None:
    tree = Tree({"bin/tool": b"#!"}, {"bin/link": "tool"}, ["tmp"])
    first = archive(tree, {"example.test/a:1": {"Cmd": ["/bin/tool"]}})
    assert first == archive(tree, {"example.test/a:1": {"Cmd": ["/bin/tool"]}})
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        files = {name: _content(tar, name) for name in tar.getnames()}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "example.test/a:1"
    manifest = json.loads(files[_blob(entry)])
    config = json.loads(files[_blob(manifest["config"])])
    assert config["config"] == {"Cmd": ["/bin/tool"]}
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    with tarfile.open(fileobj=io.BytesIO(files[_blob(manifest["layers"][0])])) as layer:
        assert layer.getnames() == ["bin/link", "bin/tool", "tmp"]
        assert layer.getmember("tmp").isdir()
        assert layer.getmember("bin/tool").mode == 0o755


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def _blob(entry: dict[str, Any]) -> str:
    return f"blobs/{entry['digest'].replace(':', '/')}"


def test_a_node_gets_a_group_in_every_hierarchy_of_version_1(tmp_path: Path) -> None:
    for name in ("cpuset", "memory", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to(tmp_path / "memory")
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0")
    assert cgroups.make("rig", "a", tmp_path) == "/rig/a"
    assert (tmp_path / "memory" / "rig" / "a").is_dir()
    assert (tmp_path / "cpuset" / "rig" / "a" / "cpuset.cpus").read_text() == "0-1"
    assert not (tmp_path / "unified" / "rig").exists()


def test_a_group_of_version_2_passes_the_controllers_on(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert cgroups.hierarchies(tmp_path) == [tmp_path]
    assert cgroups.make("rig", "a", tmp_path) == "/rig/a"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_removal_of_groups_spares_those_of_others(tmp_path: Path) -> None:
    for name in ("memory", "pids", "unified"):
        (tmp_path / name / "other").mkdir(parents=True)
        (tmp_path / name / "rig" / "a" / "pod").mkdir(parents=True)
    assert len(cgroups.left("rig", tmp_path)) == 3
    cgroups.remove("rig", tmp_path)
    assert cgroups.left("rig", tmp_path) == []
    assert (tmp_path / "unified" / "other").exists()


def test_a_node_that_starts_again_has_no_groups_of_its_former_containers(tmp_path: Path) -> None:
    for name in ("memory", "unified"):
        for node in ("a", "b"):
            (tmp_path / name / "rig" / node / "kubepods" / "pod").mkdir(parents=True)
    cgroups.clear("/rig/a", tmp_path)
    assert list((tmp_path / "memory" / "rig" / "a").iterdir()) == []
    assert list((tmp_path / "unified" / "rig" / "a").iterdir()) == []
    assert (tmp_path / "memory" / "rig" / "b" / "kubepods" / "pod").exists()


def test_a_difference_of_the_machine_names_what_was_added_and_what_is_missing() -> None:
    before = {"link": frozenset({"lo", "eth0"}), "mount": frozenset({"/"})}
    after = {"link": frozenset({"lo", "rig"}), "mount": frozenset({"/"})}
    assert differences(before, before) == []
    assert differences(before, after) == ["link added: rig", "link missing: eth0"]


def _start_init(script: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-ES", str(enter.INIT), "sh", "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours


def test_the_init_ends_with_the_exit_code_of_its_command() -> None:
    with _start_init("exit 3") as init:
        assert init.wait(20) == 3


def test_the_init_passes_a_signal_to_its_command() -> None:
    script = "trap 'exit 5' TERM; echo started; while :; do sleep 0.05; done"
    with _start_init(script) as init:
        assert init.stdout is not None
        assert init.stdout.readline() == "started\n"
        init.send_signal(signal.SIGTERM)
        assert init.wait(20) == 5


@NAMESPACES
def test_a_command_runs_in_namespaces_of_its_own_and_leaves_the_machine_as_it_was() -> None:
    said: list[str] = []
    script = "ip link add rig type bridge && mount -t tmpfs tmpfs /mnt && exit 7"
    code = enter.run_inside(["sh", "-c", script], said.append)
    # Other programs of the machine may change something at the same time.
    assert code == (1 if said else 7)
    assert not [line for line in said if "rig" in line or "/mnt" in line]
    assert not Path("/sys/class/net/rig").exists()


@NAMESPACES
def test_everything_inside_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The shell holds the pipe open as long as it lives; so does its child.
    script = f"exec 3>{pipe}; echo started >&3; sleep 1000"
    code = f"from e2e.realnodes import enter; enter.run_inside(['sh', '-c', {script!r}], print)"
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, cwd=enter.HERE.parents[1]) as run,  # noqa: S603  # ours
        pipe.open(encoding="ascii") as reader,
    ):
        assert reader.readline() == "started\n"
        run.kill()
        assert reader.read() == ""  # the end of the pipe: all writers have ended
    (left,) = enter.RUNS.glob(f"{enter.PREFIX}{run.pid}-*")
    enter.remove_ended_runs()
    assert not left.exists()


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """Return a folder with a short name: the path of a Unix socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="rig-") as name:
        yield Path(name)


def test_a_registration_tells_the_kubelet_where_the_driver_is(socket_folder: Path) -> None:
    socket, endpoint = socket_folder / "reg.sock", Path("/var/lib/kubelet/plugins/x/dra.sock")
    messages = registration.MESSAGES
    registered = registration.Registration(socket, "gpu.example.com", endpoint)
    try:
        name = f"/{registration.PACKAGE}.Registration"
        info = call(socket, f"{name}/GetInfo", messages["InfoRequest"](), messages["PluginInfo"])
        assert (info.type, info.name, info.endpoint) == (
            "DRAPlugin",
            "gpu.example.com",
            str(endpoint),
        )
        assert list(info.supported_versions) == ["v1.DRAPlugin"]
        for accepted, error in ((False, "no"), (True, "")):
            status = messages["RegistrationStatus"](plugin_registered=accepted, error=error)
            answer = messages["RegistrationStatusResponse"]
            call(socket, f"{name}/NotifyRegistrationStatus", status, answer)
            assert registered.accepted.is_set() == accepted
            assert registered.error == error
    finally:
        registered.stop()


class FakeKubelet:
    """The kubelet's side of the registration of device plugins."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[Any] = []
        self.folder = folder
        messages = device_plugin.M
        method = Method(messages["RegisterRequest"], messages["Empty"], self._register)
        socket = folder / "kubelet.sock"
        self.service = Service(socket, "v1beta1.Registration", {"Register": method})

    def _register(self, request: Any, _metadata: object) -> Any:  # noqa: ANN401  # protobuf
        self.requests.append(request)
        return device_plugin.M["Empty"]()

    def allocate(self, *units: str) -> Any:  # noqa: ANN401  # protobuf
        """Ask the registered plugin for units, for one container."""
        messages = device_plugin.M
        request = messages["AllocateRequest"]()
        request.container_requests.add(devices_ids=units)
        socket = self.folder / self.requests[-1].endpoint
        path = "/v1beta1.DevicePlugin/Allocate"
        return call(socket, path, request, messages["AllocateResponse"])


def test_a_plugin_registers_and_gives_variable_and_nodes_of_the_units(socket_folder: Path) -> None:
    folder = socket_folder / "kubelet" / "device-plugins"
    folder.mkdir(parents=True)
    kubelet = FakeKubelet(folder)
    node: Any = SimpleNamespace(name="a", path=socket_folder.joinpath)
    record = Record()
    plugin = device_plugin.DevicePlugin(node, "nvidia.com/gpu", ("GPU-1", "GPU-2"), record)
    plugin.start()
    try:
        (request,) = kubelet.requests
        assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu")
        (answer,) = kubelet.allocate("GPU-2", "GPU-1").container_responses
        assert dict(answer.envs) == {"UNITS_NVIDIA_COM_GPU": "GPU-1,GPU-2"}
        assert [one.container_path for one in answer.devices] == [
            "/dev/rig/unit_gpu_1",
            "/dev/rig/unit_gpu_2",
        ]
        assert record.violations() == []
        assert set(record.elsewhere("a driver")) == {"GPU-1", "GPU-2"}
        plugin.release(("GPU-2",))
        assert set(record.elsewhere("a driver")) == {"GPU-2"}
    finally:
        plugin.stop()
        kubelet.service.stop()


def test_a_unit_that_a_driver_holds_is_a_violation(socket_folder: Path) -> None:
    folder = socket_folder / "kubelet" / "device-plugins"
    folder.mkdir(parents=True)
    kubelet = FakeKubelet(folder)
    node: Any = SimpleNamespace(name="a", path=socket_folder.joinpath)
    record = Record()
    record.hold("gpu.nvidia.com", "uid", ["GPU-1"])
    plugin = device_plugin.DevicePlugin(node, "nvidia.com/gpu", ("GPU-1", "GPU-2"), record)
    plugin.start()
    try:
        kubelet.allocate("GPU-2")
        assert record.violations() == []
        kubelet.allocate("GPU-1")
        assert [one.code for one in record.violations()] == ["HandedOutTwice"]
    finally:
        plugin.stop()
        kubelet.service.stop()


def test_podresources_tell_units_and_devices_of_each_container(socket_folder: Path) -> None:
    messages = pod_resources.M
    answer = messages["ListPodResourcesResponse"]()
    container = answer.pod_resources.add(name="pod", namespace="space").containers.add(name="main")
    container.devices.add(resource_name="nvidia.com/gpu", device_ids=["b"])
    container.devices.add(resource_name="nvidia.com/gpu", device_ids=["a"])
    claim = container.dynamic_resources.add(claim_name="claim", claim_namespace="space")
    claim.claim_resources.add(driver_name="d", pool_name="p", device_name="x", share_id="s")
    claim.claim_resources.add(driver_name="d", pool_name="p", device_name="y")
    socket = socket_folder / "kubelet" / "pod-resources" / "kubelet.sock"
    socket.parent.mkdir(parents=True)
    request, response = messages["ListPodResourcesRequest"], messages["ListPodResourcesResponse"]
    method = Method(request, response, lambda *_: answer)
    service = Service(socket, pod_resources.SERVICE, {"List": method})
    try:
        node: Any = SimpleNamespace(path=socket_folder.joinpath)
        (share,) = pod_resources.shares(node)
    finally:
        service.stop()
    assert (share.namespace, share.pod, share.container) == ("space", "pod", "main")
    assert share.units == {"nvidia.com/gpu": ("a", "b")}
    assert [(one.device, one.share) for one in share.devices] == [("x", "s"), ("y", "")]


def test_shares_of_one_device_have_different_variables_and_nodes() -> None:
    whole, part, two = (
        cdi.InjectedDevice(f"uid-gpu-0-{share}", "gpu.example.com", "a", "gpu-0", "GPU-1", share)
        for share in ("", "1", "2")
    )
    assert whole.variables == {"DEVICE_GPU_EXAMPLE_COM_GPU_0": "gpu.example.com/a/gpu-0 GPU-1"}
    assert whole.node == "/dev/rig/gpu_example_com_gpu_0"
    assert len({name for each in (whole, part, two) for name in each.variables}) == 3
    assert len({each.node for each in (whole, part, two)}) == 3
    spec = cdi.spec("k8s.gpu.example.com/claim", [part, two])
    assert [device["name"] for device in spec["devices"]] == [part.name, two.name]


def test_a_gpu_of_nvidia_has_no_variable_of_its_own() -> None:
    several = [
        cdi.InjectedDevice(f"uid-{name}", "gpu.nvidia.com", "a", name, f"GPU-{name}")
        for name in ("gpu-0", "gpu-1")
    ]
    edits = [each.edits() for each in several]
    assert [each["env"] for each in edits] == [["NVIDIA_VISIBLE_DEVICES=void"]] * 2
    assert len({each["deviceNodes"][0]["path"] for each in edits}) == 2


def test_output_counts_only_when_it_is_complete() -> None:
    variables = {"DEVICE_A": "driver/pool/a GPU-1 memory=1Gi", "NVIDIA_VISIBLE_DEVICES": "void"}
    lines = [f"{name}={value}" for name, value in variables.items()]
    text = "\n".join([*lines, "PATH=/bin", "/dev/rig/a", ""])
    assert read_output(text) is None
    complete = Printed(variables, ("/dev/rig/a",))
    assert read_output(f"{text}{END}\n") == complete


LEGACY_JOB = """
kind: Job
spec:
  template:
    metadata: {annotations: {nvidia.com/use-gputype: A100}}
    spec:
      nodeSelector: {gpu: "yes"}
      volumes: [{name: data}]
      initContainers: [{name: fetch, image: x}]
      containers:
        - name: main
          image: example.com/train
          args: [--long]
          volumeMounts: [{name: data}]
          resources:
            limits: {nvidia.com/gpu: 1, memory: 1Ti, hugepages-2Mi: 1}
            claims: [{name: own}]
"""


def test_a_runnable_manifest_keeps_what_asks_for_devices() -> None:
    legacy = read_yaml(LEGACY_JOB)
    pod = runnable(legacy)["spec"]["template"]
    assert pod["metadata"] == legacy["spec"]["template"]["metadata"]
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"gpu": "yes"}
    assert "volumes" not in spec
    (main,), (fetch,) = spec["containers"], spec["initContainers"]
    assert main["resources"] == {"limits": {"nvidia.com/gpu": 1}, "claims": [{"name": "own"}]}
    assert main["image"] == fetch["image"] == BUSYBOX
    assert main.keys() == {"name", "image", "command", "resources"}
    assert "sleep" in main["command"][-1]
    assert "sleep" not in fetch["command"][-1]
