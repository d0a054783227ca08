"""`drawbridge simulate`: claims by name, from templates and for extended resources."""

import pytest

from tests.cli.simulating import (
    CLUSTER,
    Run,
    X,
    claim,
    codes,
    devices,
    nodes,
    pod,
)

# --- claim names ---


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ("{name: g, resourceClaimName: nobody}", ["ClaimMissing"]),
        ("{name: g, resourceClaimTemplateName: nobody}", ["ClaimMissing"]),
        ("{name: g}", ["ClaimReferenceWrong"]),
        (
            "{name: g, resourceClaimName: a, resourceClaimTemplateName: one}",
            ["ClaimReferenceWrong"],
        ),
        ("{name: g}, {name: h, resourceClaimName: b}", ["ClaimReferenceWrong", "ClaimMissing"]),
    ],
)
def test_an_invalid_claim_reference_fails_only_its_pod(
    run: Run, claims: str, expected: list[str]
) -> None:
    code, printed, _ = run(pod("a", claims) + pod("b"))
    assert (code, nodes(printed)) == (1, [None, "n1"])
    assert codes(printed["pods"][0]) == expected


def test_a_container_can_use_only_claims_of_its_pod(run: Run) -> None:
    spec = "initContainers: [{name: i, resources: {claims: [{name: h}, {name: g, request: s}]}}]"
    _, printed, _ = run(pod("a", spec=spec))
    made = printed["pods"][0]["claims"][0]["claim"]
    assert [each["message"] for each in printed["pods"][0]["reasons"]] == [
        "spec.initContainers[0].resources.claims[0]: the pod has no claim h",
        f"spec.initContainers[0].resources.claims[1]: ResourceClaim {made} has no request s",
    ]


def test_two_references_to_one_claim_allocate_it_once(run: Run) -> None:
    twice = "{name: g, resourceClaimName: c}, {name: h, resourceClaimName: c}"
    code, printed, _ = run(pod("a", twice) + claim("c"))
    assert (code, devices(printed["pods"][0])) == (0, ["x"])
    assert [each["device"] for each in printed["ledger"]["devices"]] == ["x"]


def test_a_claim_being_deleted_is_unusable(run: Run) -> None:
    gone = claim("c").replace("name: c,", 'name: c, deletionTimestamp: "2026-01-01T00:00:00Z",')
    _, printed, _ = run(pod("a", "{name: g, resourceClaimName: c}") + gone)
    assert codes(printed["pods"][0]) == ["ClaimUnusable"]


def test_a_claim_can_be_reserved_for_at_most_256_pods(run: Run) -> None:
    full = ", ".join(f"{{resource: pods, name: p{i}, uid: u{i}}}" for i in range(255))
    status = f"status: {{allocation: {X}, reservedFor: [{full}]}}"
    cluster = CLUSTER + claim("c") + status
    named = "{name: g, resourceClaimName: c}"
    _, printed, _ = run(pod("a", named) + pod("b", named), cluster=cluster)
    assert nodes(printed) == ["n1", None]
    assert codes(printed["pods"][1]) == ["ClaimUnusable"]


def test_the_generated_claim_in_the_pod_status_is_used(run: Run) -> None:
    made = pod("a").replace("---\n", "") + (
        "status: {resourceClaimStatuses: [{name: g, resourceClaimName: c}]}\n"
    )
    code, printed, _ = run(made + claim("c"))
    assert (code, printed["pods"][0]["claims"][0]["claim"]) == (0, "default/c")


def test_long_claim_names_are_truncated_as_in_the_controller(run: Run) -> None:
    _, printed, _ = run(pod("p" * 60))
    name = printed["pods"][0]["claims"][0]["claim"].removeprefix("default/")
    # 60 and 1 of 63 letters are shortened to 54 and 0 of 57.
    assert name[:55] == "p" * 54 + "-"
    assert len(name) == 60


# --- extended resources ---


def legacy(*amounts: str, spec: str = "", init: str = "") -> str:
    containers = ", ".join(f"{{name: c, resources: {{limits: {each}}}}}" for each in amounts)
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: old}}
spec:
  initContainers: [{init}]
  containers: [{containers}]
  {spec}
"""


def test_an_extended_resource_of_a_class_gets_a_claim(run: Run) -> None:
    code, printed, err = run(legacy("{cpu: 1, example.com/gpu: 1}", "{example.com/gpu: 1}"))
    assert (code, err) == (0, "")
    [made] = printed["pods"][0]["claims"]
    assert made["claim"].startswith("default/old-extended-resources-")
    requests = [each["request"] for each in made["allocation"]["devices"]["results"]]
    assert requests == ["container-0-request-1", "container-1-request-0"]


def test_the_implicit_resource_name_of_a_class_gets_a_claim(run: Run) -> None:
    code, printed, _ = run(legacy("{deviceclass.resource.kubernetes.io/gpu: 2}"))
    assert (code, devices(printed["pods"][0])) == (0, ["x", "w"])


def test_the_scheduler_before_1_36_creates_no_claim(run: Run) -> None:
    code, printed, _ = run(legacy("{example.com/gpu: 1}"), "--kubernetes-version", "1.35")
    assert (code, codes(printed["pods"][0])) == (1, ["ServedByNobody"])


def test_a_resource_of_a_device_plugin_gets_no_claim_and_is_reported(run: Run) -> None:
    plugin = CLUSTER.replace(
        "labels: {zone: b}}", "labels: {zone: b}}\nstatus: {allocatable: {example.com/gpu: '4'}}"
    )
    code, printed, err = run(legacy("{example.com/gpu: 1}", spec="nodeName: n2"), cluster=plugin)
    assert (code, printed["pods"][0]["claims"]) == (0, [])
    assert "info: Pod/old spec: a device plugin serves example.com/gpu on 1 node" in err
    # The class serves it on the other node, and on a node whose plugin advertises none.
    _, printed, _ = run(legacy("{example.com/gpu: 1}", spec="nodeName: n1"), cluster=plugin)
    assert len(printed["pods"][0]["claims"]) == 1
    none = plugin.replace("'4'", "'0'")
    _, printed, _ = run(legacy("{example.com/gpu: 1}", spec="nodeName: n2"), cluster=none)
    assert len(printed["pods"][0]["claims"]) == 1


def test_an_unknown_resource_is_reported(run: Run) -> None:
    code, printed, err = run(legacy("{example.com/tpu: 1}"))
    assert (code, codes(printed["pods"][0])) == (1, ["ServedByNobody"])
    assert "no node advertises example.com/tpu, and no DeviceClass serves it" in err
    assert run(legacy("{example.com/tpu: 0, cpu: 1, memory: 1Gi}"))[0] == 0


def test_init_containers_reuse_devices_of_later_containers(run: Run) -> None:
    single = "{name: i, resources: {limits: {example.com/gpu: 1}}}"
    two = single.replace("gpu: 1", "gpu: 2")
    _, printed, _ = run(legacy("{example.com/gpu: 1}", init=f"{single}, {two}"))
    results = printed["pods"][0]["claims"][0]["allocation"]["devices"]["results"]
    # The second init container needs one device more than the later containers have.
    requests = [each["request"] for each in results]
    assert requests == ["container-1-request-0", "container-2-request-0"]
    sidecar = single.replace("name: i,", "name: i, restartPolicy: Always,")
    _, printed, _ = run(legacy("{example.com/gpu: 1}", init=sidecar))
    assert len(printed["pods"][0]["claims"][0]["allocation"]["devices"]["results"]) == 2


def test_requests_are_sorted_by_name(run: Run) -> None:
    big = CLUSTER.replace("[{name: x}, {name: w}]", str([{"name": f"d{i:02}"} for i in range(11)]))
    _, printed, _ = run(legacy(*["{example.com/gpu: 1}"] * 11, spec="nodeName: n1"), cluster=big)
    results = printed["pods"][0]["claims"][0]["allocation"]["devices"]["results"]
    numbers = [each["request"].split("-")[1] for each in results]
    assert numbers == ["0", "1", "10", *map(str, range(2, 10))]
