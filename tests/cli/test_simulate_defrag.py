"""`drawbridge simulate --defrag`: the plan, its commands and exit codes."""

import json
import shlex
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drawbridge.cluster.server_clock import ServerClock
from drawbridge.ledger.node_holds import NodeHold, read_node_hold
from tests.cli.running import command, on_api
from tests.cli.simulating import ONLY_N1, pod
from tests.tables import read_yaml_documents

defrag = partial(command, "simulate", "--defrag")
CLUSTER = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two, namespace: default}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
"""


def node(name: str, devices: str) -> str:
    return f"""\
---
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s-{name}}}
spec:
  driver: d.io
  nodeName: {name}
  pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}
  devices: [{devices}]
"""


def running(name: str, device: str = "x", more: str = "", owner: str = "ReplicaSet") -> str:
    return f"""\
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}}}
  ownerReferences: [{{kind: {owner}, name: o, controller: true}}]
spec:
  nodeName: n1
  {more}
  containers: [{{name: main}}]
  resourceClaims: [{{name: g, resourceClaimName: {name}}}]
status: {{phase: Running}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu}}}}]}}}}
status:
  reservedFor: [{{resource: pods, name: {name}, uid: u}}]
  allocation:
    devices: {{results: [{{request: r, driver: d.io, pool: n1, device: {device}}}]}}
    nodeSelector: {json.dumps(ONLY_N1)}
"""


def running_with_alternatives(name: str) -> str:
    """Return a pod whose claim is from a template with alternatives."""
    alternatives = "firstAvailable: [{name: s, deviceClassName: gpu}]"
    held = f"resourceClaimStatuses: [{{name: g, resourceClaimName: {name}}}]"
    template = (
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"
        "metadata: {name: one, namespace: default}\n"
        f"spec: {{spec: {{devices: {{requests: [{{name: r, {alternatives}}}]}}}}}}\n"
    )
    return template + (
        running(name)
        .replace(f"resourceClaimName: {name}", "resourceClaimTemplateName: one", 1)
        .replace("phase: Running", f"phase: Running, {held}")
        .replace("exactly: {deviceClassName: gpu}", alternatives)
    )


BUDGET = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: default}
spec: {selector: {matchLabels: {app: a}}}
status: {disruptionsAllowed: 0}
"""
TWO_NODES = CLUSTER + node("n1", "{name: x}, {name: w}") + node("n2", "{name: z}")
ASK = pod("ask", "{name: g, resourceClaimTemplateName: two}")


@pytest.fixture
def plan(tmp_path: Path) -> Any:  # noqa: ANN401  # a function
    def run(cluster: str, *arguments: str, pods: str = ASK) -> tuple[int, str, str]:
        (tmp_path / "cluster.yaml").write_text(cluster)
        (tmp_path / "pods.yaml").write_text(pods)
        files = ("--cluster", f"{tmp_path}/cluster.yaml", "-f", f"{tmp_path}/pods.yaml")
        return defrag(*arguments, *files)

    return run


def test_pods_whose_claims_have_alternatives_move(plan: Any) -> None:  # noqa: ANN401
    code, out, err = plan(TWO_NODES + running_with_alternatives("a"))
    assert (code, err) == (0, "")
    assert "default/a of a ReplicaSet from n1 to n2 d.io/n2/z" in " ".join(out.split())


def test_the_plan_names_the_pods_their_new_places_and_the_commands(plan: Any) -> None:  # noqa: ANN401
    code, out, err = plan(TWO_NODES + running("a"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "default/ask: fits on n1 after 1 pod moved"
    assert " ".join(lines[1].split()) == "default/a of a ReplicaSet from n1 to n2 d.io/n2/z"
    assert lines[2] == "No smaller set of pods is enough."
    commands = [line.strip() for line in lines[lines.index("Commands:") + 1 :]]
    words = [shlex.split(each) for each in commands]
    assert words[0] == ["kubectl", "cordon", "n1"]
    assert json.loads(words[1][1]) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": "default"},
    }
    assert words[1][-4:-2] == ["--raw", "/api/v1/namespaces/default/pods/a/eviction"]
    assert words[2][:5] == ["kubectl", "-n", "default", "wait", "--for=delete"]
    assert words[3][4] == "--for=condition=PodScheduled"
    assert "app=a" in words[3]
    assert words[4] == ["kubectl", "uncordon", "n1"]


def test_a_wait_selects_by_no_label_that_binding_adds(plan: Any) -> None:  # noqa: ANN401
    zone = "topology.kubernetes.io/zone"
    pods = running("a")
    assert "app: a" in pods
    out = plan(TWO_NODES + pods.replace("app: a", f"app: a, {zone}: z1"))[1]
    assert "-l app=a --timeout" in out
    assert zone not in out


def test_json_has_the_moves_and_the_commands(plan: Any) -> None:  # noqa: ANN401
    code, out, _ = plan(TWO_NODES + running("a"), "-o", "json")
    printed = json.loads(out)
    assert code == 0
    assert list(printed) == ["pod", "node", "claims", "moves", "proven", "commands", "findings"]
    (move,) = printed["moves"]
    assert (move["pod"], move["owner"], move["from"], move["to"]) == (
        "default/a",
        "ReplicaSet",
        "n1",
        "n2",
    )
    assert len(printed["commands"]) == 5
    assert printed["proven"] is True


def test_a_pod_that_fits_needs_no_plan(plan: Any) -> None:  # noqa: ANN401
    code, out, _ = plan(TWO_NODES)
    assert (code, out) == (0, "default/ask: fits on n1 now, no pod has to move\n")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (running("a") + BUDGET, "1 pod on the nodes is protected by a PodDisruptionBudget"),
        (running("a", more="priority: 7"), "1 pod on the nodes has a higher priority"),
        (running("a", owner="DaemonSet"), "has no owner that is known to recreate it elsewhere"),
        (running("a") + running("b", "w"), "but the pods fit on no other node"),
    ],
)
def test_without_a_plan_the_reasons_are_told(plan: Any, more: str, reason: str) -> None:  # noqa: ANN401
    code, out, _ = plan(TWO_NODES + more)
    assert code == 1
    assert out.startswith("default/ask: no moves make it fit\n")
    assert reason in out
    code, out, _ = plan(TWO_NODES + more, "-o", "json")
    assert json.loads(out)["node"] is None


def test_a_pod_that_must_return_to_its_node_finds_it_open(plan: Any) -> None:  # noqa: ANN401
    """One GPU of the two has more memory; the small pod is in the way there."""
    big = "{name: x, attributes: {big: {bool: true}}}"
    cluster = CLUSTER + node("n1", f"{big}, {{name: w}}") + running("a")
    wanted = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: big, namespace: default}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
        selectors: [{cel: {expression: "has(device.attributes['d.io'].big)"}}]
"""
    ask = pod("ask", "{name: g, resourceClaimName: big}")
    code, out, _ = plan(cluster + wanted, pods=ask)
    assert code == 0, out
    assert "from n1 to n1  d.io/n1/w" in out
    assert "cordon" not in out


def test_a_plan_is_for_one_pod(plan: Any) -> None:  # noqa: ANN401
    several = ASK + pod("other", "{name: g, resourceClaimTemplateName: two}")
    code, _, err = plan(TWO_NODES, pods=several)
    assert code == 2
    assert "2 pods wait, and a plan is for one: default/ask, default/other" in err
    code, out, _ = plan(TWO_NODES, "other", pods=several)
    assert (code, out.split(":")[0]) == (0, "default/other")
    code, _, err = plan(TWO_NODES, "gone", pods=several)
    assert code == 2
    assert "gone is not among the pods that wait" in err
    code, _, err = plan(TWO_NODES, pods="")
    assert (code, "no pod of the input waits [PodUnknown]" in err) == (2, True)
    code, _, err = plan(TWO_NODES, "-n", "other")
    assert (code, "no pod of the input waits in namespace other [PodUnknown]" in err) == (2, True)


def with_uids(text: str) -> str:
    """Give each pod its name as UID, and the scheduler that holds devices."""
    lines = text.replace("spec:\n  nodeName", "spec:\n  schedulerName: drawbridge\n  nodeName")
    return lines.replace("  name: a\n", "  name: a\n  uid: uid-a\n")


HELD = pod("ask", "{name: g, resourceClaimTemplateName: two}", "schedulerName: drawbridge").replace(
    "name: ask", "name: ask, uid: uid-ask"
)


def test_the_commands_hold_what_is_freed_for_the_pod(plan: Any) -> None:  # noqa: ANN401
    cluster = TWO_NODES + with_uids(running("a"))
    code, out, err = plan(cluster, "--hold", "30m", "-o", "json", pods=HELD)
    assert (code, err) == (0, "")
    first, *_, last_but_one, last = map(shlex.split, json.loads(out)["commands"])
    assert first[:4] == ["kubectl", "annotate", "node", "n1"]
    key, _, text = first[4].partition("=")
    hold = read_node_hold(text)
    assert isinstance(hold, NodeHold)
    assert (key, hold.pod, hold.uid, hold.evicted) == (
        "drawbridge.dev/held-for",
        "default/ask",
        "uid-ask",
        ("uid-a",),
    )
    assert 29 * 60 < hold.until.timestamp() - time.time() <= 30 * 60
    assert last_but_one[:5] == [
        *["kubectl", "-n", "default", "wait"],
        "--for=condition=PodScheduled",
    ]
    assert last == ["kubectl", "annotate", "node", "n1", "drawbridge.dev/held-for-"]


def test_a_hold_ends_by_the_clock_of_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time() + 7200
    monkeypatch.setattr(ServerClock, "now", lambda _: ahead)
    objects = read_yaml_documents(TWO_NODES + with_uids(running("a")) + HELD)
    words = ("simulate", "--defrag", "default/ask", "--hold", "30m", "--context", "-o", "json")
    _, out, err = on_api(tmp_path, objects, *words)
    assert err == ""
    hold = read_node_hold(shlex.split(json.loads(out)["commands"][0])[-1].partition("=")[2])
    assert isinstance(hold, NodeHold)
    assert hold.until.timestamp() == int(ahead) + 1800


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        (ASK, "its scheduler is not set, which holds no devices"),
        (HELD.replace("drawbridge", "default-scheduler"), "is default-scheduler, which holds no"),
        (HELD.replace(", uid: uid-ask", ""), "it, or a pod that moves, has no UID in the input"),
        (HELD.replace("uid-ask", "u, labels: {scheduling.x-k8s.io/pod-group: g}"), "of a gang"),
    ],
)
def test_what_cannot_be_held_is_an_error(plan: Any, pods: str, reason: str) -> None:  # noqa: ANN401
    code, out, err = plan(TWO_NODES + with_uids(running("a")), "--hold", "1h", pods=pods)
    assert (code, out) == (2, "")
    assert "[HoldImpossible]" in err
    assert reason in err


def test_a_hold_lasts_a_day_at_most(plan: Any) -> None:  # noqa: ANN401
    code, _, err = plan(TWO_NODES, "--hold", "25h")
    assert code == 2
    assert "a hold lasts 24h at most" in err
