"""`drawbridge simulate --stages`: what each filter got and what it left."""

import itertools
from typing import Any

from tests.cli.simulating import CLUSTER, SAMPLES, Run, X, claim, pod, simulate

MORE = """\
---
apiVersion: v1
kind: Node
metadata: {name: n3, labels: {zone: b}}
spec: {unschedulable: true}
---
apiVersion: v1
kind: Node
metadata: {name: n4, labels: {zone: b}}
spec: {taints: [{key: t, effect: NoSchedule}]}
"""
NODE_FILTERS = [
    "nodeName",
    "unschedulable",
    "taints",
    "nodeSelector",
    "nodeAffinity",
    "extendedResources",
    "resources",
    "allocatedClaims",
    "devices",
]


def counts(stages: Any) -> dict[str, tuple[int, int]]:  # noqa: ANN401  # JSON
    return {each["name"]: (each["before"], each["after"]) for each in stages}


def test_each_filter_of_nodes_gets_what_the_one_before_left(run: Run) -> None:
    spec = "nodeSelector: {zone: b}"
    code, printed, _ = run(pod("p", spec=spec), "--stages", cluster=CLUSTER + MORE)
    (stages,) = printed["stages"]
    assert code == 0
    assert stages["pod"] == "default/p"
    assert [each["name"] for each in stages["nodes"]] == NODE_FILTERS
    assert counts(stages["nodes"])["unschedulable"] == (4, 3)
    assert counts(stages["nodes"])["taints"] == (3, 2)
    assert counts(stages["nodes"])["nodeSelector"] == (2, 1)
    assert counts(stages["nodes"])["devices"] == (1, 1)
    pairs = list(counts(stages["nodes"]).values())
    assert all(left == got for (_, left), (got, _) in itertools.pairwise(pairs))
    assert stages["nodes"][3]["rejected"] == ["n1"]
    assert stages["nodes"][3]["messages"] == ["1 of them: excluded by nodeSelector zone=b"]


def test_each_filter_of_devices_is_counted_over_all_nodes(run: Run) -> None:
    share = "{name: g, resourceClaimTemplateName: share}"
    _, printed, _ = run(claim("held", X) + pod("p", share), "--stages")
    (request,) = printed["stages"][0]["requests"]
    assert (request["request"], request["deviceClass"], request["count"]) == ("r", "gpu", 1)
    assert counts(request["stages"])["class selector"] == (3, 3)
    assert counts(request["stages"])["in use"] == (3, 2)
    assert counts(request["stages"])["capacity"] == (2, 1)
    assert [e["nodes"] for e in request["stages"] if e["name"] == "capacity"] == [1]
    assert counts(printed["stages"][0]["nodes"])["devices"] == (2, 1)


def test_stages_show_the_cluster_at_the_moment_of_each_pod(run: Run) -> None:
    _, printed, _ = run("".join(map(pod, "abcd")), "--stages")
    free = [counts(e["requests"][0]["stages"])["rule"][1] for e in printed["stages"]]
    assert free == [3, 2, 1, 0]
    assert printed["pods"][3]["node"] is None


def test_of_a_workload_the_pod_that_is_not_placed_is_shown(run: Run) -> None:
    job = """\
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 5
  template:
    spec:
      resourceClaims: [{name: g, resourceClaimTemplateName: one}]
"""
    _, printed, _ = run(job, "--stages")
    assert [each["pod"] for each in printed["stages"]] == ["default/j-3"]
    assert counts(printed["stages"][0]["nodes"])["devices"] == (2, 0)


def test_a_pod_without_its_claim_ends_at_the_claims(run: Run) -> None:
    _, printed, _ = run(pod("p", "{name: g, resourceClaimName: none}"), "--stages")
    (stages,) = printed["stages"]
    assert counts(stages["nodes"])["claims"] == (2, 0)
    assert "does not exist" in stages["nodes"][-1]["messages"][0]
    assert stages["requests"] == []


def test_nothing_is_said_of_stages_unless_asked(run: Run) -> None:
    _, printed, _ = run(pod("p"))
    assert "stages" not in printed


def test_the_text_is_a_table_of_each_filter() -> None:
    files = ("--cluster", f"{SAMPLES}/inventory", "-f", f"{SAMPLES}/pods")
    _, out, _ = simulate(*files, "--stages")
    lines = [line.split() for line in out.splitlines()]
    assert "default/too-late: filters of nodes" in out
    assert ["filter", "in", "out", "rejected"] in lines
    assert ["filter", "in", "out", "enough"] in lines
    assert ["in", "use", "11", "9", "on", "3", "nodes"] in lines
    assert any(line[:3] == ["nodeSelector", "7", "1"] for line in lines)
