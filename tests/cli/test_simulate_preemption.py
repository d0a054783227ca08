"""`drawbridge simulate --preempt`: which pods would be evicted, and when none would."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.simulating import CLUSTER, Run, X, codes, devices, nodes, pod, simulate

W = X.replace("device: x", "device: w")
CLASSES = """\
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: patient}
value: 1000
preemptionPolicy: Never
"""
HIGH = "priorityClassName: high"


def held(name: str, allocation: str, *pods: str) -> str:
    """A claim that pods use."""
    users = ", ".join(f"{{resource: pods, name: {each}, uid: u-{each}}}" for each in pods)
    return f"""\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu}}}}]}}}}
status: {{allocation: {allocation}, reservedFor: [{users}]}}
"""


def running(name: str, claim: str, priority: int = 0, metadata: str = "") -> str:
    """A pod of the cluster on node n1."""
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}, {metadata}}}
spec:
  nodeName: n1
  priority: {priority}
  resourceClaims: [{{name: g, resourceClaimName: {claim}}}]
  containers: [{{name: main}}]
status: {{phase: Running, startTime: "2026-01-01T00:00:00Z"}}
"""


FULL = (
    "---\n".join(each for each in CLUSTER.split("---\n") if "name: s2" not in each)
    + held("cx", X, "low")
    + held("cw", W, "mid")
    + running("low", "cx")
    + running("mid", "cw", 5)
    + CLASSES
)


def preempted(printed: Any) -> list[list[str]]:  # noqa: ANN401  # JSON
    return [each["preempted"] for each in printed["pods"]]


def test_the_least_important_pod_is_evicted(run: Run) -> None:
    code, printed, err = run(pod("a", spec=HIGH), "--preempt", cluster=FULL)
    assert (code, err, nodes(printed)) == (0, "", ["n1"])
    assert preempted(printed) == [["default/low"]]
    assert devices(printed["pods"][0]) == ["x"]
    holders = [h["claim"] for d in printed["ledger"]["devices"] for h in d["holders"]]
    assert "default/cw" in holders
    assert "default/cx" not in holders


_CHECKPOINTS = "annotations: {drawbridge.dev/checkpoint-interval: 10m}"


@pytest.mark.parametrize(
    ("metadata", "expected"), [("", "default/newer"), (_CHECKPOINTS, "default/older")]
)
def test_of_equal_pods_the_one_that_loses_less_work_is_evicted(
    run: Run, metadata: str, expected: str
) -> None:
    def at(text: str, hour: int) -> str:
        return text.replace("2026-01-01T00", f"2026-01-01T{hour:02}")

    cluster = FULL.replace(running("low", "cx"), running("older", "cx", 0, metadata))
    newer = at(running("newer", "cw"), 6) + at(running("latest", "none", 2000), 12)
    cluster = cluster.replace(running("mid", "cw", 5), newer)
    user = "name: {0}, uid: u-{0}"
    for before, after in (("low", "older"), ("mid", "newer")):
        cluster = cluster.replace(user.format(before), user.format(after))
    _, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=cluster)
    assert preempted(printed) == [[expected]]


def test_without_the_option_nobody_is_evicted(run: Run) -> None:
    code, printed, _ = run(pod("a", spec=HIGH), cluster=FULL)
    assert (code, nodes(printed), preempted(printed)) == (1, [None], [[]])


def test_each_pod_evicts_another_one_until_none_is_left(run: Run) -> None:
    several = "".join(pod(name, spec=HIGH) for name in "abc")
    code, printed, _ = run(several, "--preempt", cluster=FULL)
    assert code == 1
    assert nodes(printed) == ["n1", "n1", None]
    assert preempted(printed) == [["default/low"], ["default/mid"], []]
    assert codes(printed["pods"][2])[-1] == "NothingPreempted"


def test_a_pod_that_was_placed_before_can_be_evicted(run: Run) -> None:
    several = pod("first") + pod("second") + pod("third", spec=HIGH)
    _, printed, _ = run(several, "--preempt", cluster=CLUSTER + CLASSES)
    assert nodes(printed) == ["n1", "n1", "n2"]
    several += pod("fourth", spec=f"nodeSelector: {{zone: a}}\n  {HIGH}")
    _, printed, _ = run(several, "--preempt", cluster=CLUSTER + CLASSES)
    assert preempted(printed)[3] == ["default/second"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "the devices of pods with a priority below 0 are not enough"),
        ("priority: 5\n  nodeSelector: {zone: b}", "below 5 are not enough"),
        ("priorityClassName: patient", "the preemptionPolicy of the pod is Never"),
        ("priorityClassName: gone", "PriorityClass gone does not exist"),
    ],
)
def test_the_reason_says_why_nothing_is_evicted(run: Run, spec: str, reason: str) -> None:
    code, printed, _ = run(pod("a", spec=spec), "--preempt", cluster=FULL)
    assert (code, nodes(printed), preempted(printed)) == (1, [None], [[]])
    assert reason in printed["pods"][0]["reasons"][-1]["message"]


def test_a_claim_is_only_released_with_all_its_pods(run: Run) -> None:
    shared = FULL + held("cx", X, "low", "high") + running("high", "cx", 9999)
    _, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=shared)
    assert preempted(printed) == [["default/mid"]]
    both = FULL.replace(held("cw", W, "mid"), "") + held("cx", X, "low", "other")
    both += held("cw", W, "unknown") + running("other", "cx", 1)
    _, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=both)
    assert preempted(printed) == [["default/other", "default/low"]]


def test_a_pod_waits_for_a_pod_that_is_terminating(run: Run) -> None:
    leaving = running("low", "cx", metadata='deletionTimestamp: "2026-01-02T00:00:00Z"')
    code, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=FULL + leaving)
    assert (code, preempted(printed)) == (1, [[]])
    reason = printed["pods"][0]["reasons"][-1]
    assert reason["example"] == "n1"
    assert "waits for devices of terminating pods on a node" in reason["message"]


def test_a_budget_protects_a_pod_and_a_violation_is_reported(run: Run) -> None:
    budget = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: default}
spec: {selector: {matchExpressions: [{key: app, operator: In, values: [low, mid]}]}}
status: {disruptionsAllowed: 0}
"""
    narrow = budget.replace("[low, mid]", "[low]")
    _, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=FULL + narrow)
    assert (preempted(printed), codes(printed["pods"][0])) == ([["default/mid"]], [])
    _, printed, _ = run(pod("a", spec=HIGH), "--preempt", cluster=FULL + budget)
    assert preempted(printed) == [["default/low"]]
    assert codes(printed["pods"][0]) == ["BudgetViolated"]


def test_the_next_pod_finds_the_evictions_before_charged_to_their_budget(run: Run) -> None:
    budget = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: default}
spec: {selector: {matchExpressions: [{key: app, operator: In, values: [low, mid]}]}}
status: {disruptionsAllowed: 1}
"""
    both = pod("a", spec=HIGH) + pod("b", spec=HIGH)
    _, printed, _ = run(both, "--preempt", cluster=FULL + budget)
    assert sorted(preempted(printed)) == [["default/low"], ["default/mid"]]
    assert [codes(each) for each in printed["pods"]] == [[], ["BudgetViolated"]]


def test_an_unreadable_budget_is_reported(run: Run) -> None:
    wrong = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: 5\n"
    code, printed, err = run(pod("a", spec=HIGH), "--preempt", cluster=FULL + wrong)
    assert code == 2
    assert "PodDisruptionBudget/b spec" in err
    assert preempted(printed) == [["default/low"]]


def test_the_text_names_the_evicted_pods(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(FULL + pod("a", spec=HIGH))
    code, out, _ = simulate("--cluster", str(tmp_path / "cluster.yaml"), "--preempt")
    assert code == 0
    assert "default/a: on n1\n  evicts default/low\n" in out
