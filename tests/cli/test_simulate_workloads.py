"""`simulate` places the pods of workloads, and says how many of them fit."""

from pathlib import Path

import pytest

from drawbridge.ledger import replicas
from tests.cli.simulating import CLUSTER, Run, codes, nodes, pod, simulate

SHARED_CLUSTER = CLUSTER.replace("memory: {value: 10Gi}", "memory: {value: 10Ti}")


def deployment(replicas: int, template: str = "one", name: str = "web") -> str:
    return f"""\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      resourceClaims: [{{name: g, resourceClaimTemplateName: {template}}}]
      containers: [{{name: main}}]
"""


JOB_SET = """\
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {containers: [{name: main}]}}}}
  - name: workers
    template:
      spec:
        parallelism: 2
        template:
          spec:
            resourceClaims: [{name: g, resourceClaimTemplateName: one}]
            containers: [{name: main}]
"""


def test_the_replicas_that_fit_are_placed(run: Run) -> None:
    code, printed, err = run(deployment(2))
    assert (code, err) == (0, "")
    assert nodes(printed) == ["n1", "n1"]
    assert [each["pod"] for each in printed["pods"]] == ["default/web-0", "default/web-1"]
    (counted,) = printed["workloads"]
    assert counted == {
        "workload": "Deployment/web",
        "path": "spec.template",
        "pods": 2,
        "placed": 2,
        "notTried": 0,
        "reasons": [],
    }


def test_the_first_replica_that_does_not_fit_says_what_it_lacks(run: Run) -> None:
    code, printed, _ = run(deployment(1_000_000))
    # Three devices match the class; the pods behind the first refused one are equal to it.
    assert code == 1
    assert nodes(printed) == ["n1", "n1", "n2", None]
    (counted,) = printed["workloads"]
    assert (counted["pods"], counted["placed"], counted["notTried"]) == (1_000_000, 3, 0)
    assert counted["reasons"] == printed["pods"][-1]["reasons"]
    assert "NoDeviceFree" in codes(printed["pods"][-1])


def test_pods_behind_a_workload_get_what_it_leaves(run: Run) -> None:
    code, printed, _ = run(deployment(2) + deployment(2, name="other"))
    assert code == 1
    assert [each["placed"] for each in printed["workloads"]] == [2, 1]


def test_shares_are_placed_up_to_a_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "MAX_PLACED", 20)
    code, printed, err = run(deployment(1_000_000, "share"), cluster=SHARED_CLUSTER)
    (counted,) = printed["workloads"]
    assert (code, counted["placed"], counted["notTried"]) == (1, 20, 999_980)
    assert "20 of 1,000,000 pods are placed, and the others are not tried [NotSimulated]" in err


def test_pods_without_devices_share_one_answer(run: Run) -> None:
    many = deployment(1_000_000).replace("[{name: g, resourceClaimTemplateName: one}]", "[]")
    code, printed, err = run(many)
    assert (code, err, len(printed["pods"])) == (0, "", 1)
    assert printed["workloads"][0]["placed"] == 1_000_000


def test_a_workload_scaled_to_zero_is_placed(run: Run) -> None:
    code, printed, _ = run(deployment(0))
    assert (code, printed["pods"], printed["workloads"][0]["placed"]) == (0, [], 0)


def test_each_template_of_a_workload_has_its_own_count(run: Run) -> None:
    code, printed, _ = run(JOB_SET)
    assert code == 0
    counts = [(each["path"], each["placed"]) for each in printed["workloads"]]
    assert counts == [
        ("spec.replicatedJobs[0].template.spec.template", 1),
        ("spec.replicatedJobs[1].template.spec.template", 2),
    ]
    names = [each["pod"] for each in printed["pods"]]
    assert names == ["default/train-driver-0", "default/train-workers-0", "default/train-workers-1"]


def test_a_daemon_set_gets_a_pod_on_each_node_that_it_selects(run: Run) -> None:
    agent = deployment(0).replace("Deployment", "DaemonSet").replace("  replicas: 0\n", "")
    code, printed, _ = run(agent)
    assert (code, nodes(printed)) == (0, ["n1", "n2"])
    selecting = agent.replace("containers:", "nodeSelector: {zone: b}\n      containers:")
    assert nodes(run(selecting)[1]) == ["n2"]
    cordoned = CLUSTER.replace(
        "labels: {zone: b}}", "labels: {zone: b}}\nspec: {unschedulable: true}"
    )
    assert nodes(run(agent, cluster=cordoned)[1]) == ["n1", "n2"]


def test_a_daemon_set_goes_on_behind_a_node_that_lacks_devices(run: Run) -> None:
    agent = deployment(0, "share").replace("Deployment", "DaemonSet")
    code, printed, _ = run(agent)
    assert (code, nodes(printed)) == (1, ["n2", None])
    (counted,) = printed["workloads"]
    assert (counted["pods"], counted["placed"]) == (2, 1)


def test_an_unreadable_template_is_a_finding_with_its_path(run: Run) -> None:
    broken = deployment(1).replace("resourceClaims: [{name: g,", "resourceClaims: [{name: 7,")
    code, printed, err = run(broken)
    assert (code, printed["pods"]) == (2, [])
    assert "spec.template.spec.resourceClaims[0].name" in err


def test_the_text_has_the_nodes_and_the_first_refused_pod(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "web.yaml").write_text(deployment(5))
    code, out, _ = simulate("--cluster", f"{tmp_path}/cluster.yaml", "-f", f"{tmp_path}/web.yaml")
    assert code == 1
    lines = out.splitlines()
    assert lines[:4] == [
        "Deployment/web: 3 of 5 pods placed",
        "  on n1  2 pods  d.io/n1/x, d.io/n1/w",
        "  on n2  1 pod   d.io/n2/z",
        "  default/web-3 is not placed:",
    ]
    assert lines[4].startswith("    1 node: no free gpu device")


def test_workloads_of_the_cluster_are_not_placed_again(run: Run) -> None:
    code, printed, err = run("", cluster=CLUSTER + deployment(2))
    assert (code, printed["workloads"]) == (0, [])
    assert "[NothingToPlace]" in err


# --- equal pods share answers ---

NETWORK = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s3}
spec:
  driver: net.io
  allNodes: true
  pool: {name: net, generation: 1, resourceSliceCount: 1}
  devices:
  - name: fabric
    allowMultipleAllocations: true
    capacity: {memory: {value: 20Gi}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: choice}
spec:
  spec:
    devices:
      requests:
      - name: r
        firstAvailable:
        - {name: whole, deviceClassName: gpu, count: 2}
        - {name: part, deviceClassName: gpu, capacity: {requests: {memory: 3Gi}}}
"""


def single_pods(replicas: int, template: str) -> str:
    claims = f"{{name: g, resourceClaimTemplateName: {template}}}"
    return "".join(pod(f"web-{i}", claims) for i in range(replicas))


@pytest.mark.parametrize("template", ["one", "share", "choice"])
@pytest.mark.parametrize("allocator", ["upstream", "drawbridge"])
def test_replicas_are_placed_as_pods_one_after_the_other(
    run: Run, template: str, allocator: str
) -> None:
    cluster = CLUSTER + NETWORK
    options = ("--allocator", allocator)
    _, together, _ = run(deployment(12, template), *options, cluster=cluster)
    _, single, _ = run(single_pods(12, template), *options, cluster=cluster)
    tried = len(together["pods"])
    assert together["pods"] == single["pods"][:tried]
    assert tried in (12, 1 + sum(node is not None for node in nodes(single)))
    assert together["ledger"] == single["ledger"]


def test_many_nodes_are_not_all_drawn_and_the_pods_are_counted(run: Run) -> None:
    cluster = "".join(
        CLUSTER.split("---")[0].replace("n1", f"m{number}")
        + "---"
        + CLUSTER.split("---")[3].replace("n1", f"m{number}").replace("s1", f"slice-{number}")
        + "---\n"
        for number in range(23)
    )
    run(deployment(40) + pod("last"), cluster=cluster + CLUSTER)
    files = ("--cluster", str(run.folder / "cluster.yaml"), "-f", str(run.folder / "pods.yaml"))
    text = simulate(*files)[1]
    assert text.count("\nnode ") == 20
    assert "\n1 more node with placed pods; -o json prints all devices\n" in text
    assert "\n41 of 41 pods are placed.\n" in text


def test_equal_reasons_are_printed_once(run: Run) -> None:
    later = "".join(deployment(1, name=f"late-{number}") for number in range(3))
    run(deployment(9) + later + pod("alone"))
    files = ("--cluster", str(run.folder / "cluster.yaml"), "-f", str(run.folder / "pods.yaml"))
    text = simulate(*files)[1]
    assert text.count("for the same reasons as default/web-3\n") == 4
    assert text.count("[NoDeviceFree]") == 1
