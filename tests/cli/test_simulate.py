"""`drawbridge simulate`: placements, the JSON output and exit codes."""

import json
from pathlib import Path

import pytest

from drawbridge.dra.rules import Near, Rules, encode_rules
from drawbridge.ledger.allocation_mark import ALLOCATOR, Mark, MarkedDevice, format_mark
from drawbridge.names import ALLOCATION_ANNOTATION, RULES_ANNOTATION
from tests.cli.simulating import (
    CLUSTER,
    ONLY_N1,
    SAMPLES,
    Run,
    X,
    claim,
    codes,
    devices,
    nodes,
    pod,
    simulate,
)


def test_the_json_output_has_a_fixed_structure(run: Run) -> None:
    code, printed, err = run(pod("a") + pod("b", spec="nodeName: n3"))
    assert (code, err) == (1, "")
    assert list(printed) == ["allocator", "pods", "ledger", "workloads", "findings"]
    placed, refused = printed["pods"]
    assert list(placed) == ["pod", "node", "claims", "reasons", "preempted"]
    assert (placed["pod"], placed["node"], placed["reasons"]) == ("default/a", "n1", [])
    assert len(placed["claims"]) == 1
    name = placed["claims"][0]["claim"]
    assert name.startswith("default/a-g-")
    assert placed["claims"][0]["allocation"] == {
        "devices": {"results": [{"request": "r", "driver": "d.io", "pool": "n1", "device": "x"}]},
        "nodeSelector": ONLY_N1,
    }
    assert (refused["pod"], refused["node"]) == ("default/b", None)
    assert [each["allocation"] for each in refused["claims"]] == [None]
    keys = ["code", "stage", "before", "after", "nodes", "example", "message"]
    assert [list(each) for each in refused["reasons"]] == [keys]
    holder = {"claim": name, "state": "reserved"}
    device = {"driver": "d.io", "pool": "n1", "device": "x", "holders": [holder]}
    assert printed["ledger"] == {"devices": [device], "findings": []}


def test_the_same_input_gives_the_same_output(run: Run) -> None:
    pods = pod("a", "{name: g, resourceClaimTemplateName: share}") + pod("b")
    assert run(pods) == run(pods)


def test_a_device_is_allocated_to_one_pod_only(run: Run) -> None:
    code, printed, _ = run("".join(map(pod, "abcde")), "--node", "n1")
    assert code == 1
    assert nodes(printed) == ["n1", "n1", None, None, None]
    assert [devices(each) for each in printed["pods"][:2]] == [["x"], ["w"]]
    code, printed, _ = run(pod("a") + pod("b"))
    assert code == 0


def test_shares_consume_capacity_and_have_ids(run: Run) -> None:
    share = "{name: g, resourceClaimTemplateName: share}"
    code, printed, _ = run(pod("a", share) + pod("b", share), cluster=CLUSTER)
    assert code == 1
    result = printed["pods"][0]["claims"][0]["allocation"]["devices"]["results"][0]
    assert result["consumedCapacity"] == {"memory": "6Gi"}
    assert len(result["shareID"]) == 36
    assert printed["ledger"]["devices"][0]["holders"][0]["consumedCapacity"] == {"memory": "6Gi"}
    assert printed["pods"][1]["node"] is None


def test_an_allocated_claim_keeps_its_devices_and_restricts_the_node(run: Run) -> None:
    allocation = X[:-1] + f", nodeSelector: {json.dumps(ONLY_N1)}}}"
    named = "{name: g, resourceClaimName: c}"
    code, printed, _ = run(
        pod("a", named) + pod("b", named, "nodeName: n2") + claim("c", allocation)
    )
    assert code == 1
    first, second = printed["pods"]
    assert (first["node"], devices(first)) == ("n1", ["x"])
    assert first["claims"][0]["allocation"]["nodeSelector"] == ONLY_N1
    assert (second["node"], codes(second)) == (None, ["NodeUnfit", "AllocatedElsewhere"])
    assert [each["allocation"] for each in second["claims"]] == [None]


def test_pods_can_share_a_claim(run: Run) -> None:
    named = "{name: g, resourceClaimName: c}"
    code, printed, _ = run(pod("a", named) + pod("b", named) + claim("c"))
    assert code == 0
    assert printed["pods"][0]["claims"] == printed["pods"][1]["claims"]
    assert printed["ledger"]["devices"][0]["holders"] == [
        {"claim": "default/c", "state": "reserved"}
    ]


def test_devices_of_existing_allocations_are_in_use(run: Run) -> None:
    code, printed, _ = run(pod("a"), "--node", "n1", cluster=CLUSTER + claim("c", X))
    assert code == 0
    assert devices(printed["pods"][0]) == ["w"]
    holders = [each["holders"][0]["state"] for each in printed["ledger"]["devices"]]
    assert holders == ["reserved", "allocated"]


def test_copied_claims_with_the_same_uid_are_different_claims(run: Run) -> None:
    first, other = (
        claim(name, X.replace("x", device)).replace(
            "{name: ", "{uid: u, resourceVersion: '7', name: "
        )
        for name, device in (("c", "x"), ("d", "w"))
    )
    _, printed, _ = run(pod("a"), "--node", "n1", cluster=CLUSTER + first + other)
    assert [each["device"] for each in printed["ledger"]["devices"]] == ["w", "x"]
    assert printed["pods"][0]["node"] is None


def test_a_device_allocated_twice_is_reported(run: Run) -> None:
    cluster = CLUSTER + claim("c", X) + claim("d", X)
    code, printed, _ = run(pod("a"), cluster=cluster)
    assert code == 0
    assert [each["code"] for each in printed["ledger"]["findings"]] == ["DeviceHeldTwice"]


def test_devices_that_violate_a_rule_of_their_claim_are_reported(run: Run) -> None:
    rules = Rules(near=(Near(("r",), ("d.io/unpublished",)),))
    marked = MarkedDevice(driver="d.io", pool="n1", device="x")
    values = {
        RULES_ANNOTATION: encode_rules(rules),
        ALLOCATION_ANNOTATION: format_mark(Mark(ALLOCATOR, (marked,))),
    }
    annotated = f"annotations: {json.dumps(values)}, namespace: default"
    ruled = claim("c", X).replace("namespace: default", annotated)
    _, printed, _ = run(pod("a"), cluster=CLUSTER + ruled)
    [finding] = printed["ledger"]["findings"]
    assert (finding["code"], finding["object"]) == ("RuleBroken", "ResourceClaim/default/c")


# --- --claims and --node ---


def test_named_claims_are_placed_together_in_order(run: Run) -> None:
    code, printed, _ = run("", "--claims", "default/d,c", cluster=CLUSTER + claim("c") + claim("d"))
    assert code == 0
    [entry] = printed["pods"]
    assert (entry["pod"], entry["node"]) == (None, "n1")
    assert [each["claim"] for each in entry["claims"]] == ["default/d", "default/c"]
    assert devices(entry) == ["x", "w"]


def test_named_claims_fail_on_a_node_with_too_few_devices(run: Run) -> None:
    cluster = CLUSTER + claim("c", count=2)
    assert run("", "--claims", "c", "--node", "n1", cluster=cluster)[0] == 0
    code, printed, _ = run("", "--claims", "c", "--node", "n2", cluster=cluster)
    assert code == 1
    assert printed["pods"][0]["claims"] == [{"claim": "default/c", "allocation": None}]
    assert codes(printed["pods"][0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--claims", "nobody"), "ClaimMissing"),
        (("--node", "n9"), "NodeUnknown"),
        (("--kubernetes-version", "1.12"), "KubernetesVersionUnsupported"),
        (("--feature-gates", "DRAEverything=true"), "FeatureGateUnknown"),
        (("--config", "not-there.yaml"), "FileUnreadable"),
    ],
)
def test_invalid_options_are_findings(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    code, printed, err = run(pod("a"), *arguments)
    assert (code, list(printed)) == (2, ["allocator", "pods", "ledger", "workloads", "findings"])
    assert f"[{expected}]" in err


def test_a_missing_claim_is_reported_once(run: Run) -> None:
    code, printed, err = run("", "--claims", "c,nobody", cluster=CLUSTER + claim("c"))
    assert (code, printed["pods"]) == (2, [])
    assert err.count("ResourceClaim default/nobody does not exist") == err.count("nobody") == 1


def test_devices_that_two_drivers_publish_are_reported(run: Run) -> None:
    first = CLUSTER.replace("{name: x}", "{name: x, attributes: {uuid: {string: GPU-1}}}")
    (of_first,) = [each for each in first.split("---\n") if "name: s1" in each]
    second = of_first.replace("d.io", "other.io").replace("s1", "s3")
    code, printed, err = run(pod("a"), cluster=f"{first}---\n{second}")
    assert (code, nodes(printed)) == (0, ["n1"])
    assert "drivers d.io and other.io publish the same devices on n1" in err
    assert run(pod("a"), cluster=first)[2] == ""


# --- node selection ---

AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
    " {nodeSelectorTerms: [{matchExpressions: [%s]}]}}}"
)


@pytest.mark.parametrize(
    ("spec", "node", "expected"),
    [
        ("", "n1", []),
        ("nodeSelector: {zone: b}", "n2", []),
        ("nodeSelector: {zone: c}", None, ["NodeUnfit"]),
        (AFFINITY % "{key: zone, operator: NotIn, values: [a]}", "n2", []),
        (AFFINITY % "{key: drawbridge.dev/dual, operator: DoesNotExist}", "n1", []),
        (AFFINITY % "{key: zone, operator: In, values: [c]}", None, ["NodeUnfit"]),
        (AFFINITY % "{key: zone, operator: Near}", None, ["NodeUnfit"]),
        (
            AFFINITY % "{key: a, operator: Near}]}, {matchExpressions: [{key: none, operator: "
            "DoesNotExist}",
            "n1",
            [],
        ),
        ("affinity: {podAffinity: {}, nodeAffinity: null}", "n1", []),
        ("nodeName: n2", "n2", []),
        ("nodeName: n2\n  nodeSelector: {zone: a}", None, ["NodeUnfit", "NodeUnfit"]),
    ],
)
def test_node_name_and_node_selector_are_checked(
    run: Run, spec: str, node: str | None, expected: list[str]
) -> None:
    _, printed, _ = run(pod("a", spec=spec))
    assert nodes(printed) == [node]
    assert codes(printed["pods"][0]) == expected


def test_an_unschedulable_node_gets_only_pods_with_its_node_name(run: Run) -> None:
    cordoned = CLUSTER.replace(
        "labels: {zone: a}}", "labels: {zone: a}}\nspec: {unschedulable: true}"
    )
    _, printed, _ = run(pod("a") + pod("b", spec="nodeName: n1"), cluster=cordoned)
    assert nodes(printed) == ["n2", "n1"]


def test_a_preferred_alternative_takes_precedence_over_node_order(run: Run) -> None:
    template = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: either}
spec:
  spec:
    devices:
      requests:
      - name: r
        firstAvailable:
        - {name: best, deviceClassName: gpu, capacity: {requests: {memory: 1Gi}}}
        - {name: any, deviceClassName: gpu}
"""
    code, printed, _ = run(template + pod("a", "{name: g, resourceClaimTemplateName: either}"))
    assert (code, nodes(printed)) == (0, ["n2"])


def test_a_pod_without_claims_is_placed_on_the_first_node(run: Run) -> None:
    code, printed, _ = run("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}")
    assert (code, nodes(printed), printed["pods"][0]["claims"]) == (0, ["n1"], [])


# --- invalid and other documents ---


def test_an_invalid_document_does_not_stop_the_simulation(run: Run) -> None:
    bad = (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: 7}\n---\na: [\n"
    )
    code, printed, err = run(pod("a") + bad + pod("b"))
    assert (code, nodes(printed)) == (2, ["n1", "n1"])
    assert "Pod/bad spec.containers" in err


def test_an_input_without_pods_is_reported(run: Run) -> None:
    code, printed, err = run("")
    assert (code, printed["pods"]) == (0, [])
    assert "[NothingToPlace]" in err


def test_pending_pods_of_the_cluster_are_placed(run: Run) -> None:
    gone = pod("gone").replace("{name: gone}", '{name: gone, deletionTimestamp: "2026-01-01"}')
    done = pod("done") + "status: {phase: Succeeded}\n"
    cluster = CLUSTER + pod("waits") + pod("runs", spec="nodeName: n1") + gone + done
    _, printed, _ = run(pod("asked"), cluster=cluster)
    assert [each["pod"] for each in printed["pods"]] == ["default/waits", "default/asked"]


def test_the_last_of_several_objects_with_one_name_is_used(run: Run) -> None:
    _, printed, _ = run(pod("a") + pod("a", spec="nodeName: n2"))
    assert nodes(printed) == ["n2"]


def test_a_configuration_in_the_input_is_used(run: Run) -> None:
    configuration = """\
---
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
findings: {NothingToPlace: enforce}
"""
    assert run("", cluster=CLUSTER + configuration)[0] == 2
    assert run("", cluster=CLUSTER + configuration + configuration)[0] == 2


def test_pods_without_a_name_get_a_generated_name(run: Run) -> None:
    unnamed = pod("a").replace("name: a", "generateName: job-")
    code, printed, _ = run(unnamed + unnamed, "--node", "n1")
    assert code == 0
    names = {each["pod"] for each in printed["pods"]}
    assert len(names) == 2
    assert all(name.startswith("default/job-") for name in names)


# --- text output ---


def test_the_sample_pods_are_placed_and_drawn() -> None:
    code, out, _ = simulate("--cluster", str(SAMPLES / "inventory"), "-f", str(SAMPLES / "pods"))
    assert code == 1
    assert "default/train: on hgx-1" in out
    assert "default/too-late: not placed" in out
    assert "counters in use" in out
    assert "CPU, memory and other resources. It ignores rules about other pods" in out
    drawn = [line for line in out.splitlines() if line.startswith("node ")]
    assert drawn == ["node hgx-1", "node mig-1", "node edge-1"]


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"- 1\n- a\n", b"kind: Pod\n", b"[]"])
def test_arbitrary_bytes_give_valid_output(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "f.yaml").write_bytes(text)
    code, out, _ = simulate("-f", str(tmp_path / "f.yaml"), "-o", "json")
    assert code in (0, 1, 2)
    assert list(json.loads(out)) == ["allocator", "pods", "ledger", "workloads", "findings"]


# --- names of device plugins ---


@pytest.mark.parametrize("registered", [True, False])
def test_names_that_a_plugin_reads_without_advertising_them_are_served(
    run: Run, *, registered: bool
) -> None:
    mark = "annotations: {hami.io/node-nvidia-register: GPU-1}" if registered else ""
    node = f"""\
apiVersion: v1
kind: Node
metadata: {{name: n1, {mark}}}
status: {{allocatable: {{nvidia.com/gpu: "10"}}}}
"""
    limits = '{nvidia.com/gpu: "1", nvidia.com/gpumem: "3000"}'
    shares = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec: {{containers: [{{name: c, resources: {{limits: {limits}}}}}]}}
"""
    code, printed, err = run(shares, cluster=node)
    assert (code, nodes(printed)) == ((0, ["n1"]) if registered else (1, [None]))
    assert ("[ServedByNobody]" in err) == (not registered)
    # Only the name that no node advertises is left to translate.
    assert err.count("Run `drawbridge translate` on the manifest first") == (not registered)


@pytest.mark.parametrize(
    ("limits", "is_reported"),
    [("{}", True), ("{nvidia.com/gpu: 1}", False)],
)
def test_requests_in_annotations_are_read_by_no_scheduler(
    limits: str, *, is_reported: bool, run: Run
) -> None:
    by_annotation = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: a, annotations: {{gpu-memory: "4000"}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, resources: {{limits: {limits}}}}}]
"""
    _, _, err = run(by_annotation)
    assert ("no scheduler of the simulation reads gpu-memory" in err) == is_reported
    assert "Run `drawbridge translate` on the manifest first" in err


def test_an_input_without_nodes_names_what_is_missing(run: Run) -> None:
    code, printed, err = run(pod("a"), cluster="")
    assert (code, nodes(printed)) == (1, [None])
    assert "the input has no Node [NodesMissing]" in err


CONFIGURATION = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
legacy: {renames: {example.com/renamed: nvidia.com/gpumem}}
targets:
- {kind: gpu, vendor: metax, driver: gpu.metax.com, class: gpu.metax.com}
- {resources: [example.com/named], driver: example.com, class: example.com}
"""


@pytest.mark.parametrize(
    ("name", "is_translated"),
    [
        # These targets replace the default ones, of which one is for SR-IOV.
        ("nvidia.com/mlnx_sriov_rdma", (True, False)),
        ("example.com/renamed", (False, True)),
        ("metax-tech.com/gpu", (False, True)),
        ("example.com/named", (False, True)),
        ("example.com/fpga", (False, False)),
    ],
)
def test_the_remedy_for_a_name_that_nobody_serves_follows_the_configuration(
    run: Run, tmp_path: Path, name: str, is_translated: tuple[bool, bool]
) -> None:
    config = tmp_path / "configuration.yaml"
    config.write_text(CONFIGURATION)
    legacy = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec: {{containers: [{{name: c, resources: {{limits: {{{name}: 1}}}}}}]}}
"""
    for words, expected in zip(((), ("--config", str(config))), is_translated, strict=True):
        _, _, err = run(legacy, *words)
        assert f"no node advertises {name}" in err
        assert ("Run `drawbridge translate`" in err) == expected, err
