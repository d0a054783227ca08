"""`drawbridge simulate` obeys the quotas of the configuration where the allocator does."""

from tests.cli.simulating import Run, X, claim, nodes, pod
from tests.cli.test_simulate_allocators import BRIDGE, NATIVE

ONE = "quotas: [{name: q, total: {gpu: {devices: 1}}}]\n"
BY_LABEL = """\
quotas: [{name: q, namespaceSelector: {matchLabels: {a: b}}, total: {gpu: {devices: 1}}}]
"""
NAMESPACE = """\
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {a: b}}
"""
OURS = ("--allocator", "drawbridge")


def reasons(printed: object, number: int) -> list[str]:
    return [each["code"] for each in printed["pods"][number]["reasons"]]  # type: ignore[index]  # JSON


def test_a_pod_over_quota_is_not_placed(run: Run) -> None:
    code, printed, _ = run(pod("a") + pod("b") + BRIDGE + ONE, *OURS)
    assert (code, nodes(printed)) == (1, ["n2", None])
    assert reasons(printed, 1) == ["DeviceQuotaUsedUp"]
    assert printed["pods"][1]["reasons"][0]["message"] == (
        "quota q: namespace default uses 1 of 1 device of class gpu, and the pod needs 1"
    )


def test_claims_that_exist_count(run: Run) -> None:
    printed = run(pod("a") + claim("held", X) + BRIDGE + ONE, *OURS)[1]
    assert nodes(printed) == [None]


def test_a_pod_over_quota_evicts_nobody(run: Run) -> None:
    printed = run(pod("a") + pod("b", spec="priority: 5") + BRIDGE + ONE, *OURS, "--preempt")[1]
    assert reasons(printed, 1) == ["DeviceQuotaUsedUp"]


def test_quotas_are_selected_by_the_labels_of_namespaces_in_files(run: Run) -> None:
    both = pod("a") + pod("b") + BRIDGE + BY_LABEL
    assert nodes(run(both, *OURS)[1]) == ["n2", "n1"]
    assert nodes(run(both + NAMESPACE, *OURS)[1]) == ["n2", None]


def test_kube_scheduler_knows_no_quotas(run: Run) -> None:
    assert nodes(run(pod("a") + pod("b") + NATIVE + ONE)[1]) == ["n1", "n1"]


def test_the_memory_of_shares_counts(run: Run) -> None:
    quota = "quotas: [{name: q, total: {gpu: {memory: 10Gi}}}]\n"
    share = "{name: g, resourceClaimTemplateName: share}"
    printed = run(pod("a", share) + pod("b", share) + BRIDGE + quota, *OURS)[1]
    assert nodes(printed) == ["n2", None]
    assert reasons(printed, 1) == ["DeviceQuotaUsedUp"]
