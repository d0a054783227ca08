"""`drawbridge simulate` in a changed cluster: pods or a class gone, nodes added or drained."""

import pytest

from tests.cli.simulating import CLUSTER, Run, devices, nodes, pod, simulate
from tests.cli.test_simulate_defrag import ASK, BUDGET, TWO_NODES, node, running

WITHOUT_ABC = ("--without", "pod/a", "--without", "pod/b", "--without", "pod/c")
WITHOUT_FREE = TWO_NODES + running("a") + running("b", "w")


def test_pods_that_are_gone_hold_nothing(run: Run) -> None:
    code, printed, _ = run(ASK, cluster=WITHOUT_FREE)
    assert (code, nodes(printed)) == (1, [None])
    assert "fewestPods" not in printed
    code, printed, _ = run(
        ASK, "--without", "pod/a", "--without", "pod/default/b", cluster=WITHOUT_FREE
    )
    assert (code, nodes(printed)) == (0, ["n1"])
    fewest = {
        "pod": "default/ask",
        "node": "n1",
        "pods": ["default/a", "default/b"],
        "proven": True,
    }
    assert printed["fewestPods"] == [fewest]


def test_the_fewest_of_the_named_pods_are_told_for_each_node(run: Run) -> None:
    second = running("c").replace("n1", "n3").replace("name: c", "name: c")
    cluster = TWO_NODES + node("n3", "{name: x}, {name: w}") + running("a") + running("b", "w")
    _, printed, _ = run(ASK, *WITHOUT_ABC, cluster=cluster + second)
    assert [(e["node"], e["pods"]) for e in printed["fewestPods"]] == [
        ("n3", ["default/c"]),
        ("n1", ["default/a", "default/b"]),
    ]


def test_a_pod_that_fits_anyway_needs_nobody_to_go(run: Run) -> None:
    _, printed, _ = run(
        ASK,
        "--without",
        "pod/a",
        cluster=TWO_NODES + node("n3", "{name: x}, {name: w}") + running("a"),
    )
    assert printed["fewestPods"] == []


def test_an_unknown_pod_node_or_class_is_an_error(run: Run) -> None:
    for words, text in (
        (("--without", "pod/gone"), "pod default/gone has no node in the input"),
        (("--without", "node/n9"), "Node n9 not found"),
        (("--more-nodes", "n9=2"), "Node n9 not found"),
        (("--more-nodes", "n1=0"), "n1=0 does not end with a number from 1 to 1,000"),
        (("--more-nodes", "n1"), "n1 is not NODE=N; write n1=1 for one more node"),
        (("--without", "nodes/gpu"), "nodes/gpu is not nodes/LABEL=VALUE"),
        (("--without", "class/none"), "the input has no DeviceClass none"),
    ):
        code, printed, _ = run(ASK, *words, cluster=TWO_NODES)
        assert (code, [*printed]) == (2, ["findings"]), words
        assert [each["message"] for each in printed["findings"]] == [text]


def test_more_nodes_have_the_devices_of_the_node_that_they_are_like(run: Run) -> None:
    code, printed, _ = run(ASK, "--more-nodes", "n1=2", cluster=WITHOUT_FREE)
    assert (code, nodes(printed)) == (0, ["n1-more-1"])
    results = printed["pods"][0]["claims"][0]["allocation"]["devices"]["results"]
    assert {each["pool"] for each in results} == {"n1-more-1"}
    assert devices(printed["pods"][0]) == ["x", "w"]
    three = ASK + "".join(ASK.replace("name: ask", f"name: ask{i}") for i in (1, 2))
    code, printed, _ = run(three, "--more-nodes", "n1=2", cluster=WITHOUT_FREE)
    assert (code, nodes(printed)) == (1, ["n1-more-1", "n1-more-2", None])


def test_more_nodes_of_two_options_are_different_nodes(run: Run) -> None:
    two = ASK + ASK.replace("name: ask", "name: ask1")
    code, printed, _ = run(
        two, "--more-nodes", "n1=1", "--more-nodes", "n1=1", cluster=WITHOUT_FREE
    )
    assert (code, nodes(printed)) == (0, ["n1-more-1", "n1-more-2"])


def test_the_pods_of_a_drained_node_are_placed_elsewhere_first(run: Run) -> None:
    small = pod("late", "{name: g, resourceClaimName: late}") + LATE
    code, printed, _ = run(small, "--without", "node/n1", cluster=TWO_NODES + running("a"))
    assert [each["pod"] for each in printed["pods"]] == ["default/a", "default/late"]
    assert (code, nodes(printed)) == (1, ["n2", None])
    assert "unschedulable" in str(printed["pods"][1]["reasons"])


def test_a_drain_needs_no_other_pod(run: Run) -> None:
    code, printed, _ = run("", "--without", "node/n1", cluster=TWO_NODES + running("a"))
    assert (code, nodes(printed)) == (0, ["n2"])


def test_pods_of_daemons_stay_on_a_drained_node_and_pods_of_nobody_end(run: Run) -> None:
    alone = running("lone", "w", owner="") + running("set", "v", owner="NodeSet")
    cluster = TWO_NODES + running("d", owner="DaemonSet") + alone
    _, printed, err = run(
        pod("p", "{name: g, resourceClaimName: late}") + LATE,
        "--without",
        "node/n1",
        cluster=cluster,
    )
    assert [each["pod"] for each in printed["pods"]] == ["default/p"]
    told = err.replace("\n", " ")
    assert "Pod/default/lone: no owner recreates it [PodNotRecreated]" in told
    assert "Pod/default/set: it is not known whether its NodeSet recreates it [PodNot" in told
    holders = {each["device"]: each["holders"][0]["claim"] for each in printed["ledger"]["devices"]}
    assert holders == {"x": "default/d", "z": "default/late"}


def test_without_a_class_nothing_is_allocated_of_it(run: Run) -> None:
    code, printed, _ = run(pod("p"), "--without", "class/gpu")
    assert (code, nodes(printed)) == (1, [None])
    assert "device class gpu does not exist" in str(printed["pods"][0]["reasons"])


def test_changes_add_up(run: Run) -> None:
    words = ("--without", "node/n1", "--more-nodes", "n1=2", "--without", "pod/b")
    code, printed, _ = run(ASK, *words, cluster=WITHOUT_FREE + BUDGET)
    assert (code, nodes(printed)) == (0, ["n1-more-1", "n1-more-2"])


def test_the_text_says_which_pods_must_go(run: Run) -> None:
    run(ASK, cluster=WITHOUT_FREE)
    files = ("--cluster", f"{run.folder}/cluster.yaml", "-f", f"{run.folder}/pods.yaml")
    _, out, _ = simulate(*files, "--without", "pod/a", "--without", "pod/b")
    assert "default/ask fits on n1 without default/a, default/b\n" in out


LATE = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: late, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""


@pytest.mark.parametrize("words", [("--without", "node/n1"), ("--more-nodes", "n1=1")])
def test_a_change_of_one_run_stays_in_it(run: Run, words: tuple[str, ...]) -> None:
    first = run(pod("p"), cluster=CLUSTER)
    run(pod("p"), *words, cluster=CLUSTER)
    assert run(pod("p"), cluster=CLUSTER) == first


RULE = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: d.io, pool: n1, device: x}
  taint: {key: broken, effect: NoExecute}
"""


def test_a_taint_evicts_and_what_it_evicts_takes_other_devices_or_waits(run: Run) -> None:
    told = "Pod/default/a: evicted at once: claim default/a has d.io/n1/x, which gets the taint"
    words = ("--taint", "broken=yes:NoExecute", "--devices", "d.io/n1/x")
    for asked, more in (("", words), (RULE, ())):
        code, printed, err = run(asked, *more, cluster=WITHOUT_FREE)
        assert (code, nodes(printed)) == (0, ["n2"]), err
        assert told in err
        assert "Pod/default/b" not in err
    words = ("--taint", "broken:NoExecute", "--devices", "d.io")
    code, printed, err = run("", *words, cluster=WITHOUT_FREE)
    assert (code, nodes(printed)) == (1, [None, None])
    assert "Pod/default/b: evicted at once" in err


def test_a_taint_that_keeps_pods_off_evicts_nobody(run: Run) -> None:
    words = ("--taint", "broken:NoSchedule", "--devices", "d.io")
    code, printed, err = run(pod("new"), *words, cluster=CLUSTER + running("a"))
    assert (code, nodes(printed)) == (1, [None])
    assert "evicted" not in err


def test_a_taint_that_names_nothing_is_an_error(run: Run) -> None:
    for words, text in (
        (("--taint", "NoExecute", "--devices", "d.io"), "--taint: NoExecute is not KEY=VALUE:"),
        (("--taint", "a:Never", "--devices", "d.io"), "--taint: a:Never is not KEY=VALUE:"),
        (("--taint", "a:NoExecute"), "--devices: name a driver, a pool or a device"),
        (("--devices", "d.io"), "--taint: nothing is not KEY=VALUE:"),
        (("--taint", "a:NoExecute", "--devices", "none"), "--devices: no ResourceSlice of the"),
        (("--taint", "a:NoExecute", "--devices", "d.io/none"), "has devices of d.io/none"),
        (("--taint", "a:NoExecute", "--devices", "d.io/n1/none"), "has devices of d.io/n1/none"),
    ):
        code, printed, _ = run(ASK, *words, cluster=TWO_NODES)
        (finding,) = printed["findings"]
        assert (code, text in f"{finding['path']}: {finding['message']}") == (2, True), finding


def test_without_a_driver_pods_keep_their_devices_and_others_wait(run: Run) -> None:
    code, printed, err = run(ASK, "--without", "driver/d.io", cluster=TWO_NODES + running("a"))
    assert (code, nodes(printed)) == (1, [None])
    kept = "Pod/default/a: stays, and keeps d.io/n1/x, which nobody publishes then"
    assert kept in err
    assert "Pod/default/b" not in err


UPGRADED = node("n1", "{name: x}, {name: v}").partition("---\n")[2].partition("---\n")[2]


def test_an_upgrade_of_a_driver_is_its_slices_in_the_place_of_the_old_ones(run: Run) -> None:
    asked = f"---\n{UPGRADED}"
    cluster = WITHOUT_FREE
    code, printed, err = run(asked + ASK, "--without", "driver/d.io", cluster=cluster)
    assert "Pod/default/b: stays, and keeps d.io/n1/w, which nobody publishes then" in err
    assert "Pod/default/a" not in err
    assert (code, nodes(printed)) == (1, [None])  # v is free, and two are asked for
    late = pod("late", "{name: g, resourceClaimName: late}") + LATE
    code, printed, _ = run(asked + late, "--without", "driver/d.io", cluster=cluster)
    assert (code, devices(printed["pods"][0])) == (0, ["v"])


def test_without_a_class_its_pods_stay(run: Run) -> None:
    _, _, err = run(ASK, "--without", "class/gpu", cluster=TWO_NODES + running("a"))
    assert "Pod/default/a: stays, and keeps its devices of class gpu; created again" in err


def test_a_node_group_goes_as_a_whole(run: Run) -> None:
    labels = "metadata: {name: n1, labels: {pool: a}}"
    cluster = (
        TWO_NODES.replace("metadata: {name: n1}", labels, 1) + running("a") + running("b", "w")
    )
    both = cluster.replace("metadata: {name: n2}", "metadata: {name: n2, labels: {pool: a}}", 1)
    code, printed, _ = run("", "--without", "nodes/pool=a", cluster=cluster)
    assert (code, nodes(printed)) == (1, ["n2", None])
    # No pod of a group goes to a node of it that goes as well.
    code, printed, _ = run("", "--without", "nodes/pool=a", cluster=both)
    assert (code, nodes(printed)) == (1, [None, None])


QUOTA = """\
---
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools: [{driver: d.io, nodeSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}]
quotas: [{name: q, total: {gpu: {devices: 4}}}]
"""


def test_a_lower_quota_evicts_nobody_and_new_pods_wait(run: Run) -> None:
    words = ("--allocator", "drawbridge", "--without", "quota/q/gpu/devices=1")
    late = pod("late", "{name: g, resourceClaimName: late}") + LATE + QUOTA
    code, printed, err = run(late, *words, cluster=WITHOUT_FREE)
    text = "Quota/q: quota q: namespace default uses 2 of 1 device of class gpu: running pods stay"
    assert f"{text}, and new ones wait" in err
    assert (code, nodes(printed)) == (1, [None])
    assert printed["pods"][0]["reasons"][0]["code"] == "DeviceQuotaUsedUp"
    code, printed, err = run(late, *words[:2], cluster=WITHOUT_FREE)
    assert (code, nodes(printed)) == (0, ["n2"])
    assert "QuotaBelowUse" not in err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("driver/none", "the input has no ResourceSlice of none"),
        ("nodes/pool=none", "no node has the label pool=none"),
        ("quota/none/gpu/devices=1", "quota/none/gpu/devices=1: no quota has the name none"),
        ("quota/q/gpu/devices=some", "some is no quantity"),
        ("quota/q/gpu/memory=1", "quota q has no total for memory of class gpu"),
        ("quota/q/other/devices=1", "quota q has no total for devices of class other"),
        ("quota/q/gpu/devices=4", "4 is the total already"),
        ("quota/q/gpu", "it is not quota/NAME/CLASS/AMOUNT=LIMIT, such as"),
        ("quota/q/gpu/devices", "it is not quota/NAME/CLASS/AMOUNT=LIMIT, such as"),
        ("cluster/all", "cluster/all is not KIND/NAME with one of the kinds pod, class"),
        ("cluster", "cluster is not KIND/NAME"),
    ],
)
def test_a_removal_that_names_nothing_is_an_error(run: Run, name: str, text: str) -> None:
    code, printed, _ = run(ASK + QUOTA, "--without", name, cluster=TWO_NODES)
    (finding,) = printed["findings"]
    assert (code, text in finding["message"]) == (2, True), finding
