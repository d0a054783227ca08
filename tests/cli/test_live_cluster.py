"""Commands get the same results from a live cluster as from its files."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.input import live_cluster
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from tests.cli.running import Printed, command, on_api
from tests.cluster.fake.api import FakeApi
from tests.cluster.plugins import config
from tests.tables import read_yaml_documents, write_yaml

INVENTORY = Path(__file__).parents[2] / "examples" / "inventory"
LEGACY = INVENTORY.parent / "legacy"
KINDS = {"Node", "DeviceClass", "ResourceSlice"}
OBJECTS: list[dict[str, Any]] = [
    obj
    for file in sorted(INVENTORY.glob("*.yaml"))
    for obj in read_yaml_documents(file.read_text("utf-8"))
    if obj and obj["kind"] in KINDS
]

LABELLED = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "watchers", "labels": {"resource.kubernetes.io/admin-access": "true"}},
}
MONITOR = """
apiVersion: v1
kind: Pod
metadata: {name: monitor, namespace: NAMESPACE}
spec:
  containers:
    - {name: main, image: none, resources: {limits: {gpu.intel.com/monitoring: 1}}}
"""
ALLOWED = """
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
decisions: {adminAccess: allow}
"""


def facts(folder: Path, *words: str, **options: Any) -> Printed:  # noqa: ANN401  # those below
    return on_live(folder, "config", "facts", *words, **options)


def on_live(
    folder: Path,
    *words: str,
    version: str = "1.36",
    forbidden: str = "",
    more: tuple[dict[str, Any], ...] = (),
) -> Printed:
    def prepare(api: FakeApi) -> None:
        if forbidden:
            api.fail(403, times=9, part=forbidden)

    return on_api(folder, (*OBJECTS, LABELLED, *more), *words, version=version, prepare=prepare)


def test_facts_of_a_live_cluster_equal_those_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_cluster, "PAGE_SIZE", 2)
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(OBJECTS))
    here = facts(tmp_path, "--context")
    of_files = ("--cluster", str(dump), "--kubernetes-version", "1.36")
    assert here == command("config", "facts", *of_files)
    assert "NVIDIA" in here[1]


async def expire_once(attempts: list[int], *, page_size: int) -> AsyncIterator[int]:
    """Tell of two objects; the first time, the second page has expired."""
    attempts.append(page_size)
    yield 1
    if len(attempts) == 1:
        raise ApiError(410, "Expired", "the page is too old")
    yield 2


def test_a_list_begins_anew_when_a_page_expires() -> None:
    attempts: list[int] = []
    listed = asyncio.run(live_cluster.list_all(partial(expire_once, attempts)))
    assert (listed, attempts) == ([1, 2], [live_cluster.PAGE_SIZE] * 2)


def test_a_translation_for_a_live_cluster_equals_that_for_its_files(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(OBJECTS))
    words = ("translate", "--exit-code", "-f", str(LEGACY / "nvidia.yaml"))
    here = on_live(tmp_path, *words, "--context")
    assert here == command(*words, "--cluster", str(dump), "--kubernetes-version", "1.36")
    assert here[0] == 1
    # The cluster facts are used: without them, the server of the resource is unknown.
    assert "ServerUnknown" not in here[2]
    assert "ServerUnknown" in command(*words)[2]


@pytest.mark.parametrize("more", [(), ("--preempt",)])
def test_a_simulation_in_a_live_cluster_equals_that_in_its_files(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(OBJECTS))
    _, translated, _ = on_live(
        tmp_path, "translate", "-f", str(LEGACY / "nvidia.yaml"), "--context"
    )
    manifest = tmp_path / "translated.yaml"
    manifest.write_text(translated)
    words = ("simulate", "-f", str(manifest), *more)
    here = on_live(tmp_path, *words, "--context")
    assert here == command(*words, "--cluster", str(dump), "--kubernetes-version", "1.36")
    assert here[0] == 0
    assert "is placed." in here[1] or "are placed." in here[1]


def test_a_simulation_in_an_unreadable_cluster_fails(tmp_path: Path) -> None:
    words = ("simulate", "-f", str(LEGACY / "nvidia.yaml"), "--context")
    code, out, err = on_live(tmp_path, *words, forbidden="resourceslices")
    assert (code, out) == (2, "")
    assert err.count("error: ") == err.count("[ClusterUnreadable]") == 1


@pytest.mark.parametrize(
    ("command", "code"), [("check", 0), ("simulate", 2), ("simulate --defrag w", 2)]
)
def test_what_may_not_be_listed_is_not_told_to_be_missing(
    tmp_path: Path, command: str, code: int
) -> None:
    """A pod uses a claim, and one the template, each of which is there."""
    kind = "ResourceClaim" if command == "check" else "ResourceClaimTemplate"
    field = f"{kind[0].lower()}{kind[1:]}Name"
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(f"""\
apiVersion: v1
kind: Pod
metadata: {{name: w, namespace: default}}
spec:
  containers: [{{name: m, image: i, resources: {{claims: [{{name: g}}]}}}}]
  resourceClaims: [{{name: g, {field}: there}}]
""")
    words = (*command.split(), "-f", str(manifest), "--context", "-o", "json")
    printed = on_live(tmp_path, *words, forbidden=f"{kind.lower()}s")
    assert "does not exist" not in printed.out + printed.err
    said = {each["code"] for each in json.loads(printed.out)["findings"]}
    assert (printed.code, said) == (code, {"PartUnreadable" if code == 0 else "ClusterUnreadable"})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"<html>", "the response cannot be read: JSON is malformed"),
        (b"", "the response cannot be read: Input data was truncated"),
        (ApiError(429, "TooManyRequests", "too many"), "too many"),
        (ApiError(403, "", "<html>"), "<html>"),
        (ApiError(403, "Forbidden", "nodes is forbidden"), ""),
    ],
)
def test_an_odd_answer_is_told_with_its_request(answer: bytes | ApiError, told: str) -> None:
    class Odd:
        async def call(self, method: str, path: str, **_: object) -> bytes:
            if isinstance(answer, bytes):
                return answer
            answer.request = f"{method} {path}"
            raise answer

    session: Any = Odd()
    for read in (
        live_cluster.list_objects(session, resources.NODES),
        live_cluster.read_object(session, resources.NODES, "a"),
    ):
        with pytest.raises(ApiError) as raised:
            asyncio.run(read)
        message = raised.value.describe()
        assert message.startswith("GET /api/v1/nodes") is bool(told)
        assert told in message


def test_a_failure_is_told_with_its_request(tmp_path: Path) -> None:
    def prepare(api: FakeApi) -> None:
        api.fail(503, times=99, part="/nodes", message="not now")

    printed = on_api(tmp_path, (), "explain", "devices", prepare=prepare)
    first, _ = printed.err.splitlines()
    assert first == "error: GET /api/v1/nodes: not now [ClusterUnreadable]"


def test_doctor_says_that_dra_needs_a_later_version(tmp_path: Path) -> None:
    code, out, _ = on_live(tmp_path, "doctor", version="1.30")
    assert code == 1
    assert "Kubernetes 1.30 is older than 1.34, whose DRA Drawbridge needs" in out
    assert "Upgrade the cluster to Kubernetes 1.34 or later." in out


RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "fence"},
    "spec": {
        "deviceSelector": {"driver": "gpu.nvidia.com"},
        "taint": {"key": "example.com/fence", "value": "yes", "effect": "NoSchedule"},
    },
}
CLAIMED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


@pytest.mark.parametrize(
    ("gates", "code"), [((), 1), (("--feature-gates", "DRADeviceTaintRules=false"), 0)]
)
def test_rules_that_the_api_server_serves_taint_devices_unless_their_gate_is_disabled(
    tmp_path: Path, gates: tuple[str, ...], code: int
) -> None:
    manifest = tmp_path / "claim.yaml"
    manifest.write_text(CLAIMED)
    words = ("simulate", "-f", str(manifest), "--claims", "gpu", *gates, "--context")
    result, out, _ = on_live(tmp_path, *words, more=(RULE,))
    assert (result, "example.com/fence" in out) == (code, code == 1), out


SMALL = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "small", "labels": {"size": "small"}},
    "status": {"allocatable": {"cpu": "4", "pods": "110"}},
}


def pod_of(name: str, cpu: str, **spec: object) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


@pytest.mark.parametrize("forbidden", ["", "/pods"])
def test_a_simulation_counts_the_pods_of_the_cluster_if_they_may_be_read(
    tmp_path: Path, forbidden: str
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(write_yaml([pod_of("new", "2", nodeSelector={"size": "small"})]))
    code, out, _ = on_live(
        tmp_path,
        *("simulate", "-f", str(manifest), "--context"),
        forbidden=forbidden,
        more=(SMALL, pod_of("there", "3", nodeName="small")),
    )
    if forbidden:
        assert (code, "[PartUnreadable]" in out) == (0, True)
        assert "It ignores CPU, memory and rules about other pods" in out
    else:
        assert (code, "2 of cpu requested, 1 left [InsufficientResources]" in out) == (1, True)


def test_nothing_is_translated_for_an_unreadable_cluster(tmp_path: Path) -> None:
    manifest = LEGACY / "nvidia.yaml"
    code, out, err = on_live(tmp_path, "translate", "-f", str(manifest), forbidden="resourceslices")
    assert (code, out) == (2, "")
    assert "[ClusterUnreadable]" in err


def test_the_kubernetes_version_defaults_to_that_of_the_server(tmp_path: Path) -> None:
    assert "version: '1.34'" in facts(tmp_path, version="1.34")[1]
    named = facts(tmp_path, "--kubernetes-version", "1.35", version="1.34")
    assert "version: '1.35'" in named[1]


def test_a_forbidden_kind_exits_with_2(tmp_path: Path) -> None:
    code, out, err = facts(tmp_path, forbidden="resourceslices")
    assert (code, out) == (2, "")
    assert "[ClusterUnreadable]" in err


def test_an_unknown_context_is_named_in_the_error(tmp_path: Path) -> None:
    code, _, err = facts(tmp_path, "--context", "elsewhere")
    assert code == 2
    assert "elsewhere" in err


def test_an_error_is_printed_once(tmp_path: Path) -> None:
    """In a process of its own: the handlers of a test take the lines of the log."""
    path = config(tmp_path / "config", "https://127.0.0.1:1", {})
    words = ("-m", "cli", "explain", "devices", "--kubeconfig", path)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)  # noqa: S603  # our words
    assert done.returncode == 2
    assert done.stderr.count("connection refused") == 1, done.stderr


LOGS = """
import argparse, logging, sys
from cli.input.live_cluster import run_with_session
chosen = argparse.Namespace(kubeconfig=sys.argv[1], context="")
async def fail(session):
    logging.getLogger("drawbridge.cluster.cache").warning("an outage")
run_with_session(chosen, fail, lasts=sys.argv[2] == "first")
run_with_session(chosen, fail, lasts=sys.argv[2] != "first")
"""


@pytest.mark.parametrize("lasting", ["first", "second"])
def test_what_lasts_logs_its_outages_also_after_another_session(
    tmp_path: Path, lasting: str
) -> None:
    path = config(tmp_path / "config", "https://127.0.0.1:1", {})
    words = ("-c", LOGS, path, lasting)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)  # noqa: S603  # our words
    assert (done.returncode, done.stderr) == (0, "an outage\n")


@pytest.mark.parametrize(("namespace", "code"), [("watchers", 1), ("others", 2)])
@pytest.mark.parametrize("is_live", [True, False])
def test_the_labels_of_the_cluster_s_namespaces_allow_admin_access(
    tmp_path: Path,
    namespace: str,
    code: int,
    is_live: bool,  # noqa: FBT001  # a column
) -> None:
    files = {
        "pod.yaml": MONITOR.replace("NAMESPACE", namespace),
        "config.yaml": ALLOWED,
        "cluster.yaml": write_yaml(
            [*OBJECTS, LABELLED, {**LABELLED, "metadata": {"name": "others"}}]
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = (
        "translate",
        "--exit-code",
        "-f",
        f"{tmp_path}/pod.yaml",
        "--config",
        f"{tmp_path}/config.yaml",
    )
    dump = ("--cluster", f"{tmp_path}/cluster.yaml")
    run = on_live(tmp_path, *words) if is_live else command(*words, *dump)
    # A namespace that the live cluster does not have is unknown, which is a warning.
    assert run[0] == (1 if is_live and namespace == "others" else code), run[2]
    assert ("adminAccess: true" in run[1]) is (run[0] == 1)
