"""`drawbridge explain` on files and on an API server: what is printed, and the exit code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from drawbridge.report import codes
from tests.cli.running import command, on_api, own_zone
from tests.cli.test_effective_configuration import registered, settings
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.tables import read_yaml, read_yaml_documents, write_yaml

LEGACY = """\
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: team-a, uid: u1}
spec:
  containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"drawbridge.dev/translate": "enforce"}},
}
RESULT = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}
EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e1", "namespace": "team-a"},
    "regarding": {"kind": "Pod", "name": "train", "namespace": "team-a"},
    "reason": "Scheduled",
    "note": "assigned to n1",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}


def translated() -> list[Any]:
    """Return the translated pod and its template, as `translate` prints them."""
    _, out, _ = command("translate", "-f", "-", "-o", "yaml", stdin=LEGACY)
    pod, template = read_yaml_documents(out)
    template["metadata"]["namespace"] = "team-a"
    return [pod, template]


def running() -> list[Any]:
    """Return the objects of a cluster in which the pod runs."""
    pod, template = translated()
    made = {"name": "drawbridge", "resourceClaimName": "train-drawbridge-x"}
    pod["spec"]["nodeName"] = "n1"
    pod["status"] = {"phase": "Running", "resourceClaimStatuses": [made]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train-drawbridge-x", "namespace": "team-a"},
        "spec": template["spec"]["spec"],
        "status": {
            "allocation": {"devices": {"results": [RESULT]}},
            "reservedFor": [{"resource": "pods", "name": "train", "uid": "u1"}],
        },
    }
    return [pod, template, claim, NAMESPACE, EVENT]


def files(folder: Path, objects: list[Any]) -> str:
    path = folder / "dump.yaml"
    path.write_text(write_yaml(objects))
    return str(path)


SCOPE = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
"""


def test_an_invalid_configuration_is_an_error(tmp_path: Path) -> None:
    (config := tmp_path / "configuration.yaml").write_text(f"{SCOPE}placment: bridge\n")
    dump = files(tmp_path, running())
    code, out, err = command("explain", "train", "-f", dump, "--config", str(config))
    assert (code, out) == (2, "")
    assert "did you mean placement?" in err


def test_a_running_pod_is_explained_from_its_requests_to_its_devices(tmp_path: Path) -> None:
    code, out, err = command("explain", "train", "-f", files(tmp_path, running()))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:4] == [
        "team-a/train: Running on n1",
        "  mode: enforce (label of the namespace)",
        "  device-plugin requests (translated):",
        "    main  nvidia.com/gpu  1",
    ]
    assert lines[4].endswith(": train-drawbridge-x, reserved")
    assert lines[5].startswith("    1 device of class gpu.nvidia.com")
    assert lines[-3:-1] == ["    used by main", "    gpu  gpu.nvidia.com/n1/gpu-0"]
    assert re.fullmatch(r"event: \d+d ago: Scheduled: assigned to n1", lines[-1])


def test_an_unplaced_pod_exits_with_1_and_a_reason(tmp_path: Path) -> None:
    code, out, _ = command("explain", "train", "--cluster", files(tmp_path, translated()))
    assert code == 1
    assert "[ClaimNotGenerated]" in out


def test_the_output_of_translate_can_be_explained() -> None:
    _, printed, _ = command("translate", "-f", "-", "-o", "yaml", stdin=LEGACY.replace(
        ", namespace: team-a", ""
    ))  # fmt: skip
    code, out, _ = command("explain", "train", "-f", "-", stdin=printed)
    assert code == 1
    assert "nvidia.com/gpu" in out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_output_have_all_fields(tmp_path: Path, form: str) -> None:
    path = files(tmp_path, running())
    code, out, _ = command("explain", "team-a/train", "-f", path, "-o", form)
    data = read_yaml(out)
    assert code == 0
    assert data["placed"] is True
    assert data["claims"][0]["devices"][0]["device"] == "gpu-0"
    assert data["findings"] == []
    assert set(data) == {
        "pod", "phase", "node", "scheduler", "placed", "translated", "mode", "rule", "facts",
        "asked", "hints", "claims", "findings", "events", "created", "gang",
    }  # fmt: skip


@pytest.mark.parametrize("installed_in", ["drawbridge-system", "migration"])
def test_a_pod_of_our_scheduler_shows_it_and_its_lease(tmp_path: Path, installed_in: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"schedulerName": "drawbridge", "containers": [{"name": "main"}]},
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "drawbridge-scheduler", "namespace": installed_in},
        "spec": {"holderIdentity": ""},
    }
    code, out, err = command("explain", "team-a/train", "-f", files(tmp_path, [pod, lease]))
    assert code == 1
    assert "  scheduler: drawbridge\n" in out
    assert f"its Lease {installed_in}/drawbridge-scheduler has no holder" in out + err


def test_the_lease_is_read_where_drawbridge_is_installed(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"schedulerName": "drawbridge", "containers": [{"name": "main"}]},
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "drawbridge-scheduler", "namespace": "migration"},
        "spec": {"holderIdentity": "host-1_0d3f"},
    }
    installed = [pod, lease, registered("migration")]
    code, out, _ = on_api(tmp_path, installed, "explain", "team-a/train")
    assert code == 1
    assert "host-1_0d3f holds its Lease migration/drawbridge-scheduler" in out


def test_a_missing_pod_exits_with_2(tmp_path: Path) -> None:
    path = files(tmp_path, running())
    code, out, err = command("explain", "other", "-f", path)
    assert (code, out) == (2, "")
    assert "Pod other not found in the input [PodUnknown]" in err
    code, out, _ = command("explain", "train", "-n", "team-b", "-f", path, "-o", "json")
    assert code == 2
    assert json.loads(out)["findings"][0]["code"] == "PodUnknown"


def test_the_namespace_selects_one_of_several_pods(tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "b"}}
    path = files(tmp_path, [*running(), other])
    code, _, err = command("explain", "train", "-f", path)
    assert code == 2
    assert "several namespaces: b, team-a" in err
    assert command("explain", "train", "-n", "b", "-f", path)[0] == 1
    assert command("explain", "pod/train", "-n", "team-a", "-f", path)[0] == 0


def test_an_unreadable_file_does_not_hide_the_pod(tmp_path: Path) -> None:
    path = files(tmp_path, running())
    (tmp_path / "bad.yaml").write_text("a: [")
    code, out, err = command("explain", "train", "-f", path, "-f", str(tmp_path / "bad.yaml"))
    assert code == 2
    assert out.startswith("team-a/train: Running on n1")
    assert "[YamlSyntax]" in err


# --- a live cluster ------------------------------------------------------------------------------


def explained(
    folder: Path, objects: list[Any], *words: str, forbidden: str = ""
) -> tuple[int, str, str]:
    """Run the command with an API server that has these objects."""
    text = json.dumps(objects)

    def prepare(api: FakeApi) -> None:
        if objects:
            # The server assigns the UID of the pod, and claims refer to it.
            uid = api.get("pods", "train", "team-a")["metadata"]["uid"]
            for load in json.loads(text.replace('"u1"', f'"{uid}"')):
                api.put(load)
        if forbidden:
            api.fail(403, method="GET", part=forbidden, times=9)

    return on_api(folder, objects, "explain", "train", *words, prepare=prepare)


def test_a_live_cluster_gives_the_same_explanation_as_its_files(tmp_path: Path) -> None:
    installed = [*running(), registered(), settings(SCOPE)]
    code, out, err = explained(tmp_path, installed, "-n", "team-a")
    # Only the API server knows when the pod was created.
    without_age = re.sub(r", created \d+s ago", "", out, count=1)
    assert out != without_age
    printed = command("explain", "train", "-f", files(tmp_path, running()))
    assert (code, without_age, err) == printed
    assert code == 0


def waiting(count: int) -> list[Any]:
    """Return a translated pod that requests so many GPUs, without a claim yet."""
    _, out, _ = command("translate", "-f", "-", "-o", "yaml", stdin=LEGACY)
    pod, template = read_yaml_documents(out)
    template["metadata"]["namespace"] = "team-a"
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    request["exactly"]["count"] = count
    pod["status"] = {"phase": "Pending"}
    return [*OBJECTS, pod, template]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, r"  simulation: the devices are free on \S+ \(upstream\)"),
        (9, r"    1 node: the node has 1 device, 9 of .* requested \[NoDeviceOfClass\]"),
    ],
)
def test_a_waiting_pod_is_simulated_in_the_live_cluster(
    tmp_path: Path, count: int, shown: str
) -> None:
    code, out, err = explained(tmp_path, waiting(count), "-n", "team-a")
    assert (code, err) == (1, "")
    assert re.search(f"^{shown}", out, re.MULTILINE), out
    _, out, _ = explained(tmp_path, waiting(count), "-n", "team-a", "-o", "json")
    simulation = json.loads(out)["simulation"]
    assert simulation["allocator"] == "upstream"
    assert bool(simulation["reasons"]) is (count == 9)


def test_the_simulation_uses_the_configuration_that_is_passed(tmp_path: Path) -> None:
    config = str(own_zone(tmp_path, "a"))
    objects = waiting(1)
    objects[-2]["spec"]["schedulerName"] = "drawbridge"
    words = ("-n", "team-a", "-o", "json")
    for more, allocator in (((), "upstream"), (("--config", config), "drawbridge")):
        _, out, _ = explained(tmp_path, objects, *words, *more)
        assert json.loads(out)["simulation"]["allocator"] == allocator


@pytest.mark.parametrize("name", ["train", "deploy/train"])
def test_the_explanation_of_a_live_pod_does_not_advise_itself(tmp_path: Path, name: str) -> None:
    *others, pod, template = waiting(9)
    pod["metadata"]["labels"] = {"app": "train"}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    pod["status"]["conditions"] = [condition]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": {"app": "train"}}, "template": {"spec": pod["spec"]}},
    }
    objects = [*others, deployment, pod, template]
    _, out, _ = on_api(tmp_path, objects, "explain", name, "-n", "team-a")
    assert "0/1 nodes are available [PodPending]\n    Free, add or change" in out
    assert "drawbridge explain" not in out
    _, out, _ = on_api(tmp_path, objects, "explain", name, "-n", "team-a", "-o", "json")
    told = json.loads(out)
    (pod,) = told.get("explained", [told])
    assert {reason["code"] for reason in pod["simulation"]["reasons"]} == {"NoDeviceOfClass"}


@pytest.mark.parametrize(
    ("count", "forbidden", "remedy"),
    [
        (9, "", codes.FREE_DEVICES),
        (1, "", codes.SEE_CONDITION),
        (9, "/nodes", codes.ALLOW_SIMULATION),
    ],
    ids=["reasons", "devices are free", "not simulated"],
)
def test_the_remedy_for_a_claim_that_waits_follows_the_simulation(
    tmp_path: Path, count: int, forbidden: str, remedy: str
) -> None:
    *others, pod, template = waiting(count)
    name = "train-drawbridge-x"
    pod["status"]["resourceClaimStatuses"] = [{"name": "drawbridge", "resourceClaimName": name}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "drawbridge"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "train",
                    "uid": "u1",
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"]["spec"],
        "status": {},
    }
    words = ("-n", "team-a", "-o", "json")
    objects = [*others, pod, template, claim]
    _, out, _ = explained(tmp_path, objects, *words, forbidden=forbidden)
    told = {each["code"]: each["remedy"] for each in json.loads(out)["findings"]}
    assert told["ClaimPending"] == remedy


@pytest.mark.parametrize("part", ["/nodes", "/resourceslices"])
def test_what_the_caller_may_not_simulate_is_said(tmp_path: Path, part: str) -> None:
    code, out, _ = explained(tmp_path, waiting(1), "-n", "team-a", forbidden=part)
    assert code == 1
    assert "  simulation: not possible: " in out
    _, out, _ = explained(tmp_path, waiting(1), "-n", "team-a", "-o", "json", forbidden=part)
    assert json.loads(out)["notSimulated"]


def test_a_pod_that_the_live_cluster_does_not_have_exits_with_2(tmp_path: Path) -> None:
    code, _, err = explained(tmp_path, [], "-n", "team-a")
    assert code == 2
    assert "Pod train not found in namespace team-a [PodUnknown]" in err


def test_a_missing_claim_is_reported(tmp_path: Path) -> None:
    there = [each for each in running() if each["kind"] != "ResourceClaim"]
    code, out, _ = explained(tmp_path, there, "-n", "team-a")
    assert code == 1
    assert "[ClaimGone]" in out


def test_a_user_without_access_to_events_gets_the_other_parts(tmp_path: Path) -> None:
    code, out, err = explained(tmp_path, running(), "-n", "team-a", forbidden="/events")
    assert code == 0
    assert "train-drawbridge-x, reserved" in out
    assert "event:" not in out
    assert "[PartUnreadable]" in err


def test_a_user_without_access_to_claims_gets_an_error(tmp_path: Path) -> None:
    code, out, err = explained(tmp_path, running(), "-n", "team-a", forbidden="/resourceclaims/")
    assert (code, out) == (2, "")
    assert "[ClusterUnreadable]" in err


def test_an_unreachable_cluster_exits_with_2(tmp_path: Path) -> None:
    code, out, err = command("explain", "train", "--kubeconfig", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert "[ClusterUnreadable]" in err


def test_usage_in_kubectl_has_the_plugin_name() -> None:
    code, out, _ = command("explain", "--help", called="kubectl drawbridge")
    assert code == 0
    assert out.startswith("usage: kubectl drawbridge explain")


@pytest.mark.parametrize("words", [("explain", "train", "-f"), ("audit", "--cluster")])
def test_a_misspelt_label_of_a_namespace_is_no_mode(words: tuple[str, ...], tmp_path: Path) -> None:
    labels = {"drawbridge.dev/translate": "enforced"}
    namespace = {**NAMESPACE, "metadata": {"name": "team-a", "labels": labels}}
    done = command(*words, files(tmp_path, [read_yaml(LEGACY), namespace]))
    assert "[ScopeLabelUnknown]" in done.err
    assert "mode: enforced" not in done.out
    if words[0] == "explain":
        assert "mode: off (label of the namespace)" in done.out
