"""`drawbridge simulate` answers as the allocator in charge, and reports what that one ignores."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from drawbridge.dra.allocation import to_json
from drawbridge.solver.answers import Solution
from drawbridge.solver.deviations import OURS, UPSTREAM, Allocator
from e2e.generator import scenario as generate
from e2e.generator.__main__ import objects, options
from tests.cli.simulating import CLUSTER, Run, claim, devices, nodes, pod, simulate
from tests.solver.scenario import answers
from tests.solver.short import scenario
from tests.tables import load_cases

DEVIATIONS = load_cases(Path(__file__).parent.parent / "solver" / "cases" / "deviations.yaml")
NATIVE = "---\napiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nplacement: native\n"
OWNED = "ownedPools: [{driver: d.io, nodeSelector: {}}]\n"
BRIDGE = NATIVE.replace("native", "bridge") + OWNED


def without_ids(allocations: Any) -> Any:  # noqa: ANN401  # JSON
    """Leave out the identifiers of shares, which differ."""
    for allocation in allocations:
        for result in allocation["devices"]["results"]:
            result.pop("shareID", None)
    return allocations


def is_given_twice(answer: Solution, ledger: Any) -> bool:  # noqa: ANN401  # JSON
    """Whether a claim gets a whole device of which another one has something."""
    held = {
        (device["pool"], device["device"])
        for device in ledger["devices"]
        if any(holder["state"] == "allocated" for holder in device["holders"])
    }
    results = (result for each in answer.allocations for result in each.devices.results)
    whole = (each for each in results if not each.share_id and not each.admin_access)
    return any((each.pool, each.device) in held for each in whole)


SCENARIOS = [
    *(pytest.param(scenario(case), id=str(case["name"])) for case in DEVIATIONS),
    *(pytest.param(generate(seed), id=f"generated {seed}") for seed in range(12)),
]


@pytest.mark.parametrize("plain", SCENARIOS)
@pytest.mark.parametrize("allocator", list(Allocator))
def test_each_allocator_answers_as_the_solver_does(
    tmp_path: Path, plain: dict[str, Any], allocator: Allocator
) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(objects(plain)), encoding="utf-8")
    expected = answers(plain, OURS if allocator is Allocator.DRAWBRIDGE else UPSTREAM)
    for node, answer in expected.items():
        called = ("--cluster", str(path), "--node", node, "--allocator", allocator, "-o", "json")
        code, out, _ = simulate(*called, *shlex.split(options(plain)))
        told = json.loads(out)
        (entry,) = told["pods"]
        allocations = [each["allocation"] for each in entry["claims"]]
        if isinstance(answer, Solution) and is_given_twice(answer, told["ledger"]):
            # Kubernetes can do that, and the ledger does not.
            assert (code, entry["node"]) == (1, None)
            assert [each["code"] for each in entry["reasons"]] == ["NotPromised"]
        elif isinstance(answer, Solution):
            assert (code, entry["node"]) == (0, node)
            solved = list(map(to_json, answer.allocations))
            assert without_ids(allocations) == without_ids(solved)
        else:
            assert (code, entry["node"], set(allocations)) == (1, None, {None})
            assert entry["reasons"]


FALSE = '\'[{"compatibleOnlyWith": "false"}]\''
DECLARED = CLUSTER.replace(
    "{name: s1}", f"{{name: s1, annotations: {{drawbridge.dev/compatibility: {FALSE}}}}}"
)


def test_only_our_allocator_reads_compatibility_declarations(run: Run) -> None:
    arguments = ("--claims", "c", "--node", "n1", "--allocator")
    cluster = DECLARED + claim("c", count=2)
    code, printed, err = run("", *arguments, "upstream", cluster=cluster)
    assert (code, devices(printed["pods"][0])) == (0, ["x", "w"])
    assert "kube-scheduler does not enforce the compatibility rules of 1 ResourceSlice" in err
    assert [each["code"] for each in printed["ledger"]["findings"]] == ["CompanyRefused"]
    code, printed, err = run("", *arguments, "drawbridge", cluster=cluster)
    assert (code, nodes(printed), err) == (1, [None], "")


@pytest.mark.parametrize(
    ("field", "reported"),
    [
        ("compatibility: [{driver: d.io, compatibleOnlyWith: 'true'}]", "the configuration"),
        ("unsetGroups: all", "unsetGroups all"),
        ("unsetGroups: alone", ""),
    ],
)
def test_configured_compatibility_without_effect_is_reported(
    run: Run, field: str, reported: str
) -> None:
    err = run(pod("a") + NATIVE + field)[2]
    assert ("CompatibilityNotEnforced" in err) == bool(reported)
    assert reported in err
    assert run(pod("a") + BRIDGE + field)[2] == ""


@pytest.mark.parametrize(
    ("configuration", "arguments", "expected"),
    [
        ("", (), "upstream"),
        (NATIVE, (), "upstream"),
        (BRIDGE, (), "drawbridge"),
        (BRIDGE, ("--allocator", "upstream"), "upstream"),
        ("", ("--allocator", "drawbridge"), "drawbridge"),
    ],
)
def test_placement_or_the_option_chooses_the_allocator(
    run: Run, configuration: str, arguments: tuple[str, ...], expected: str
) -> None:
    code, printed, _ = run(pod("a") + configuration, *arguments)
    assert (code, printed["allocator"]) == (0, expected)
    files = ("--cluster", str(run.folder / "cluster.yaml"), "-f", str(run.folder / "pods.yaml"))
    assert f"Allocator: {expected}, " in simulate(*files, *arguments)[1]


@pytest.mark.parametrize(
    ("configuration", "arguments", "placed"),
    [
        ("", (), False),
        (NATIVE, (), False),
        ("", ("--stages",), False),
        (BRIDGE, (), True),
        ("", ("--allocator", "upstream"), True),
    ],
)
def test_no_scheduler_places_pods_of_ours_without_bridge_placement(
    run: Run, configuration: str, arguments: tuple[str, ...], *, placed: bool
) -> None:
    single = pod("a", spec="schedulerName: drawbridge")
    template = "".join(f"    {line}\n" for line in single.splitlines()[2:])
    workload = (
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\n"
        f"spec:\n  replicas: 2\n  template:\n{template}"
    )
    code, printed, _ = run(single + workload + configuration, *arguments)
    first, *others = printed["pods"]
    assert (code == 0, first["node"] is not None, all(each["node"] for each in others)) == (
        placed,
        placed,
        placed,
    )
    codes = {reason["code"] for each in printed["pods"] for reason in each["reasons"]}
    assert codes == (set() if placed else {"SchedulerNotInstalled"})


def test_a_pod_with_a_node_needs_no_scheduler(run: Run) -> None:
    single = pod("a", claims="", spec="schedulerName: drawbridge\n  nodeName: n1")
    code, printed, _ = run(single)
    assert (code, printed["pods"][0]["node"]) == (0, "n1")


def test_our_allocator_uses_only_owned_pools(run: Run) -> None:
    zone = "nodeSelector: {matchLabels: {zone: b}}"
    configuration = BRIDGE.replace("nodeSelector: {}", zone)
    pods = pod("a") + pod("b", spec="nodeSelector: {zone: a}") + configuration
    code, printed, err = run(pods)
    assert (code, nodes(printed)) == (1, ["n2", None])
    assert "does not use 1 of 2 pools [PoolsNotOwned]" in err
    assert nodes(run(pods, "--allocator", "upstream")[1]) == ["n1", "n1"]
    assert "PoolsNotOwned" not in run(pods, "--allocator", "upstream")[2]


IN_ZONE_B = BRIDGE.replace("nodeSelector: {}", "nodeSelector: {matchLabels: {zone: b}}")
OTHER_DRIVER = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s3}
spec:
  driver: cpu.io
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: c}]
"""
TOLERATED = "tolerations: [{key: drawbridge.dev/owned, operator: Exists}]"
IMPLICIT = (
    "initContainers: [{name: i, resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 1}}}]"
)


@pytest.mark.parametrize(
    ("spec", "more", "expected"),
    [
        ("schedulerName: drawbridge", "", "n2"),
        ("schedulerName: volcano", "", "n1"),
        ("schedulerName: volcano; nodeSelector: {zone: b}", "", None),
        (f"schedulerName: volcano; nodeSelector: {{zone: b}}; {TOLERATED}", "", "n2"),
        # Admission moves a pod off the default scheduler only if every driver has owned pools.
        ("schedulerName: default-scheduler", "", "n2"),
        ("schedulerName: default-scheduler", OTHER_DRIVER, "n1"),
        ("schedulerName: drawbridge", OTHER_DRIVER, "n2"),
        # Nor does it move one with a name that only the default scheduler allocates.
        (IMPLICIT, "", "n1"),
    ],
)
def test_the_scheduler_of_a_pod_decides_which_pools_it_uses(
    run: Run, spec: str, more: str, expected: str | None
) -> None:
    single = pod("a", spec=spec.replace("; ", "\n  "))
    _, printed, _ = run(single + IN_ZONE_B, cluster=CLUSTER + more)
    assert nodes(printed) == [expected]


OF_CLASS = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("name", "scheduler", "arguments", "expected"),
    [
        (OF_CLASS, "drawbridge", "", "ClassNameUnserved"),
        ("example.com/gpu", "drawbridge", "", "ClassNameUnserved"),
        ("example.org/gpu", "drawbridge", "", "ServedByNobody"),
        (OF_CLASS, "drawbridge", "--kubernetes-version 1.35", "ClassNameUnserved"),
        (OF_CLASS, "volcano", "--allocator drawbridge", "ClassNameUnserved"),
        (OF_CLASS, "drawbridge", "--allocator upstream", None),
    ],
)
def test_our_scheduler_makes_no_claim_for_the_name_of_a_class(
    run: Run, name: str, scheduler: str, arguments: str, expected: str | None
) -> None:
    containers = f"initContainers: [{{name: i, resources: {{limits: {{{name}: 1}}}}}}]"
    single = pod("a", "", f"schedulerName: {scheduler}\n  {containers}")
    code, printed, _ = run(single + BRIDGE, *arguments.split())
    [placed] = printed["pods"]
    assert (code, bool(placed["claims"])) == (int(bool(expected)), not expected)
    assert [each["code"] for each in placed["reasons"]] == [expected] * bool(expected)


BY_RULES = IN_ZONE_B.replace("driver: d.io", "driver: d.io, fence: rules")
OTHERS_IN_ZONE_B = "schedulerName: volcano\n  nodeSelector: {zone: b}"
FENCE_RULE = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: fence}
spec:
  deviceSelector: {driver: d.io, pool: n2}
  taint: {key: drawbridge.dev/owned, effect: NoSchedule}
"""


@pytest.mark.parametrize("cluster", [CLUSTER, CLUSTER + FENCE_RULE], ids=["planned", "live"])
@pytest.mark.parametrize(
    ("claims", "spec", "version", "expected"),
    [
        (True, "schedulerName: drawbridge", "1.37", "n2"),
        (True, OTHERS_IN_ZONE_B, "1.37", None),
        (True, f"{OTHERS_IN_ZONE_B}\n  {TOLERATED}", "1.37", None),
        (True, "schedulerName: volcano", "1.37", "n1"),
        (False, OTHERS_IN_ZONE_B, "1.37", "n2"),
        # The nodes of a server without rules have the taint.
        (False, OTHERS_IN_ZONE_B, "1.36", None),
        (True, "schedulerName: drawbridge", "1.36", "n2"),
    ],
)
def test_rules_keep_others_from_the_devices_of_a_node_and_not_from_the_node(
    run: Run,
    *,
    cluster: str,
    claims: bool,
    spec: str,
    version: str,
    expected: str | None,
) -> None:
    single = pod("a", spec=spec) if claims else pod("a", "", spec)
    _, printed, _ = run(single + BY_RULES, "--kubernetes-version", version, cluster=cluster)
    assert nodes(printed) == [expected]


def test_pods_of_both_schedulers_share_the_ledger_and_the_output_names_both(run: Run) -> None:
    pods = "".join(
        pod(f"{scheduler}-{number}", spec=f"schedulerName: {scheduler}")
        for number in range(3)
        for scheduler in ("drawbridge", "volcano")
    )
    unfenced = BRIDGE.replace("nodeSelector: {}", "nodeSelector: {}, unfenced: true")
    code, printed, _ = run(pods + unfenced)
    used = [each for one in printed["pods"] if one["node"] for each in devices(one)]
    assert (code, sorted(used)) == (1, ["w", "x", "z"])
    files = ("--cluster", str(run.folder / "cluster.yaml"), "-f", str(run.folder / "pods.yaml"))
    text = simulate(*files)[1]
    assert "Allocator: drawbridge, for pods with schedulerName drawbridge.\n" in text
    assert "Allocator: upstream, the allocator of kube-scheduler, for other pods.\n" in text


def test_our_allocator_leaves_devices_to_the_plugin_of_the_node(run: Run) -> None:
    both = CLUSTER.replace(
        "metadata: {name: n2, labels: {zone: b}}",
        "metadata: {name: n2, labels: {zone: b}}\nstatus: {allocatable: {example.com/gpu: 1}}",
    )
    pods = pod("a", spec="schedulerName: drawbridge") + IN_ZONE_B
    assert nodes(run(pods)[1]) == ["n2"]
    assert nodes(run(pods, cluster=both)[1]) == [None]


RULES = (
    '{"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules",'
    ' "near": [{"requests": ["r"], "attributes": ["a.io/x"]%s}]}'
)


def ruled(rules: str) -> str:
    return CLUSTER.replace(
        "{labels: {l: v}}", f"{{annotations: {{drawbridge.dev/rules: '{rules}'}}}}"
    )


@pytest.mark.parametrize(
    ("rules", "reported"),
    [
        (RULES % "", "kube-scheduler does not enforce near[0]"),
        (RULES % ', "required": false', ""),
        ("{", "kube-scheduler does not enforce the rules, which cannot be read"),
    ],
)
def test_required_rules_are_reported_once_per_template(run: Run, rules: str, reported: str) -> None:
    code, printed, err = run(pod("a") + pod("b"), cluster=ruled(rules))
    assert (code, nodes(printed)) == (0, ["n1", "n1"])
    assert err.count("[RulesNotEnforced]") == bool(reported)
    assert reported in err


PREFERS_IDLE_NODES = (
    '{"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules", "strategy": {"nodes": "spread"}}'
)
ZONE_A = "schedulerName: drawbridge\n  nodeSelector: {zone: a}"
PLAIN = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: plain}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""


@pytest.mark.parametrize(
    ("rules", "node", "words"),
    [
        (RULES % "", None, "near[0]"),
        (RULES % ', "required": false', "n1", ""),
        (PREFERS_IDLE_NODES, "n2", ""),
        ("{", None, "metadata.annotations[drawbridge.dev/rules]: invalid JSON"),
    ],
)
def test_rules_count_in_bridge_placement(
    run: Run, rules: str, node: str | None, words: str
) -> None:
    in_zone_a = pod("before", "{name: g, resourceClaimTemplateName: plain}", ZONE_A)
    pods = in_zone_a + pod("a", spec="schedulerName: drawbridge")
    first_fit = "strategy: {default: first-fit}\n"  # unless the rules name another strategy
    _, printed, err = run(pods + BRIDGE + first_fit, cluster=ruled(rules) + PLAIN)
    assert nodes(printed) == ["n1", node]
    assert words in json.dumps(printed)
    assert "RulesNotEnforced" not in err


def test_rules_that_no_pod_uses_are_not_reported(run: Run) -> None:
    used = pod("a", "{name: g, resourceClaimTemplateName: share}")
    assert "RulesNotEnforced" not in run(used, cluster=ruled(RULES % ""))[2]


@pytest.mark.parametrize("allocator", ["upstream", "drawbridge"])
def test_an_error_on_one_node_stops_the_pod_only_in_the_scheduler(run: Run, allocator: str) -> None:
    selector = "selectors: [{cel: {expression: \"device.attributes['d.io'].size == 1\"}}]"
    selective = claim("c").replace("Name: gpu", f"Name: gpu, {selector}")
    cluster = CLUSTER.replace("{name: x}", "{name: x, attributes: {size: {int: 1}}}")
    chosen = ("--claims", "c", "--allocator", allocator)
    code, printed, _ = run("", *chosen, cluster=cluster + selective)
    if allocator == "drawbridge":
        assert (code, nodes(printed)) == (0, ["n1"])
        return
    assert (code, nodes(printed)) == (1, [None])
    reasons = {each["code"]: each["message"] for each in printed["pods"][0]["reasons"]}
    text = "an error on 1 node stops the pod, although 1 node has a solution"
    assert reasons["NodeErrorStopsPod"] == text
    assert "SelectorFails" in reasons
    code, printed, _ = run("", *chosen, "--node", "n1", cluster=cluster + selective)
    assert (code, nodes(printed)) == (0, ["n1"])
