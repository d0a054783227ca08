"""Which autoscaler runs, and what it does not see of claims: a table of Deployments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from drawbridge.agreement.autoscalers import (
    Autoscaler,
    describe_simulation,
    find_autoscalers,
    report_autoscalers,
)
from drawbridge.agreement.verdicts import PROVIDERS, VERDICTS
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.finding import Severity
from tests.tables import YamlValue, every_row, load_cases

CLUSTER, KARPENTER = "Cluster Autoscaler", "Karpenter"
UPSTREAM = "registry.k8s.io/autoscaling/cluster-autoscaler"
PUBLIC = "public.ecr.aws/karpenter/controller"
ROW = ClassFacts(
    "gpu.nvidia.com", extended="nvidia.com/gpu", drivers=("gpu.nvidia.com",), devices=8
)
NAMED = Facts(classes=(ROW,))
IGNORED = Facts(classes=(replace(ROW, name_ignored=True),))


def deployment(image: str, *args: str, command: Sequence[str] = (), **env: str) -> Any:  # noqa: ANN401  # JSON
    container = {
        "image": image,
        "command": list(command),
        "args": list(args),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return {
        "metadata": {"name": "scaler", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


@every_row(
    ("scaler_object", "product", "version", "simulates"),
    [
        (deployment(f"{UPSTREAM}:v1.34.2"), CLUSTER, "1.34.2", False),
        (
            deployment(f"{UPSTREAM}:v1.34.2", "--enable-dynamic-resource-allocation=true"),
            CLUSTER, "1.34.2", True,
        ),
        (
            deployment(f"{UPSTREAM}:v1.34.2", "--enable-dynamic-resource-allocation"),
            CLUSTER, "1.34.2", True,
        ),
        (
            deployment(
                f"{UPSTREAM}:v1.34.2", command=("./x", "--enable-dynamic-resource-allocation")
            ),
            CLUSTER, "1.34.2", True,
        ),
        (deployment(f"{UPSTREAM}:v1.36.1"), CLUSTER, "1.36.1", True),
        (deployment(f"{UPSTREAM}@sha256:0123"), CLUSTER, "", False),
        (deployment("example.com:5000/cluster-autoscaler-arm64:1.35.0"), CLUSTER, "1.35.0", True),
        (deployment(f"{PUBLIC}:1.15.0@sha256:0123"), KARPENTER, "1.15.0", False),
        (deployment(f"{PUBLIC}:1.15.0", "--ignore-dra-requests=false"), KARPENTER, "1.15.0", True),
        (deployment(f"{PUBLIC}:1.15.0", IGNORE_DRA_REQUESTS="false"), KARPENTER, "1.15.0", True),
        (deployment(f"{PUBLIC}:1.15.0", IGNORE_DRA_REQUESTS="true"), KARPENTER, "1.15.0", False),
    ],
)  # fmt: skip
def test_an_autoscaler_is_found_by_its_image(
    scaler_object: Any,  # noqa: ANN401  # JSON
    product: str,
    version: str,
    *,
    simulates: bool,
) -> None:
    (scaler,) = find_autoscalers([scaler_object])
    assert (scaler.product, scaler.version, scaler.simulates_claims) == (
        product, version, simulates,
    )  # fmt: skip
    assert scaler.object == "Deployment/kube-system/scaler"


@every_row(
    "value",
    [None, [], {}, {"spec": {"template": {"spec": {"containers": [None, {"image": 1}]}}}},
     deployment("example.com/karpenter-docs/site:1"), deployment("example.com/other:1.2")],
)  # fmt: skip
def test_other_objects_are_no_autoscalers(value: Any) -> None:  # noqa: ANN401  # JSON
    scalers = [*find_autoscalers([value])]
    assert [each.product for each in scalers] == []


def scaler(product: str, *, simulates: bool) -> Autoscaler:
    return Autoscaler(product, "1.15.0", "Deployment/a/b", simulates, "--flag=false")


@every_row(
    ("product", "simulates", "settings", "facts", "codes"),
    [
        (KARPENTER, False, {}, NAMED, ["AutoscalerIgnoresClaims"]),
        (KARPENTER, True, {}, NAMED, ["AutoscalerIgnoresNames"]),
        (KARPENTER, True, {"decisions": {"nativeExtendedNames": "translate"}}, NAMED, []),
        # These names are translated.
        (KARPENTER, True, {}, IGNORED, []),
        (KARPENTER, True, {"placement": "bridge"}, NAMED, ["AutoscalerIgnoresRules"]),
        (KARPENTER, True, {}, Facts(), []),
        (KARPENTER, True, {}, None, []),
        (CLUSTER, True, {}, NAMED, []),
        (CLUSTER, False, {}, NAMED, ["AutoscalerIgnoresClaims"]),
        (CLUSTER, True, {"placement": "bridge"}, NAMED, ["AutoscalerIgnoresRules"]),
        (CLUSTER, False, {"placement": "bridge"}, NAMED, ["AutoscalerIgnoresClaims"]),
    ],
)
def test_what_an_autoscaler_does_not_see_is_reported(
    product: str,
    settings: dict[str, Any],
    facts: Facts | None,
    codes: list[str],
    *,
    simulates: bool,
) -> None:
    configuration = msgspec.convert(settings, Configuration)
    told = report_autoscalers([scaler(product, simulates=simulates)], configuration, facts)
    assert [each.code for each in told if each.severity is not Severity.INFO] == codes


NODE_POOL = (
    'Give the NodePool of owned nodes spec.template: {metadata: {labels: {pool: "train"}}, '
    "spec: {taints: [{key: drawbridge.dev/owned, effect: NoSchedule}]}}. Use"
)
NODE_GROUP = (
    "Give the node group of owned nodes the tags "
    "k8s.io/cluster-autoscaler/node-template/label/pool=train "
    "k8s.io/cluster-autoscaler/node-template/taint/drawbridge.dev/owned=:NoSchedule "
    "(in Cluster API the annotations "
    'capacity.cluster-autoscaler.kubernetes.io/labels: "pool=train", '
    'capacity.cluster-autoscaler.kubernetes.io/taints: "drawbridge.dev/owned=:NoSchedule")'
)


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        (KARPENTER, NODE_POOL),
        (CLUSTER, NODE_GROUP),
    ],
)
def test_the_template_of_owned_nodes_is_printed(product: str, expected: str) -> None:
    labels = LabelSelector({LabelKey("pool"): LabelValue("train")})
    pools = (
        OwnedPool(DriverName("gpu.nvidia.com"), labels),
        OwnedPool(DriverName("dra.net"), LabelSelector(), unfenced=True),
    )
    configuration = Configuration(placement=Placement.BRIDGE, owned_pools=pools)
    (told,) = (
        each
        for each in report_autoscalers([scaler(product, simulates=True)], configuration, Facts())
        if each.code == "AutoscalerIgnoresRules"
    )
    assert told.remedy.startswith(expected), told.remedy


AWS, AZURE = "karpenter.k8s.aws", "karpenter.azure.com"
GATES = {"AWS_FEATURE_GATES": "NodeClassCEL=false,DRANVIDIAGPU=true,DRAEFA=false"}
BY_DRIVERS = msgspec.convert(
    {
        "classes": [
            {"name": "gpu", "drivers": ["gpu.nvidia.com"], "devices": 8},
            {"name": "nic", "drivers": ["dra.net"], "devices": 2},
            {"name": "fpga", "drivers": ["fpga.example.com"], "devices": 1},
            {"name": "gone", "drivers": ["gone.example.com"]},
        ]
    },
    Facts,
)
EMPTY = "simulates claims, but adds no node to a group without nodes for claims on"
ALL = "dra.net, fpga.example.com, gpu.nvidia.com"


def node_pool(group: str) -> Any:  # noqa: ANN401  # JSON
    node_class = {"group": group, "kind": "Any", "name": "a"}
    return {"kind": "NodePool", "spec": {"template": {"spec": {"nodeClassRef": node_class}}}}


@every_row(
    ("scaler_object", "groups", "lacking", "simulation"),
    [
        # Gates that are on let Karpenter know the devices of their driver.
        (deployment(f"{PUBLIC}:1.15.1", "--ignore-dra-requests=false", **GATES), [AWS],
         ["dra.net: it needs the feature gate DRAEFA",
          "fpga.example.com: this provider does not describe them"], ""),
        (deployment(f"{PUBLIC}:1.15.1", "--ignore-dra-requests=false",
                    "--aws-feature-gates", "DRANVIDIAGPU=true,DRAEFA=true"), [AWS],
         ["fpga.example.com: this provider does not describe them"], ""),
        (deployment(f"{PUBLIC}:1.15.1", "--ignore-dra-requests=false"), [AWS],
         ["dra.net: it needs the feature gate DRAEFA",
          "fpga.example.com: this provider does not describe them",
          "gpu.nvidia.com: it needs the feature gate DRANVIDIAGPU"], ""),
        (deployment(f"{PUBLIC}:1.14.3", "--ignore-dra-requests=false", **GATES), [AWS],
         [f"{ALL}: it needs version 1.15 or newer"], ""),
        (deployment(f"{PUBLIC}:1.14.3", "--ignore-dra-requests=false"), [AZURE],
         [f"{ALL}: this provider does not describe them"], ""),
        # What nobody has read is not judged.
        (deployment(f"{PUBLIC}:1.15.1", "--ignore-dra-requests=false"), ["karpenter.example.com"],
         [], "Karpenter 1.15.1 simulates claims"),
        (deployment(f"{PUBLIC}:1.15.1", "--ignore-dra-requests=false"), [], [],
         "Karpenter 1.15.1 simulates claims"),
        # An existing node tells Cluster Autoscaler its devices; a provider, nothing.
        (deployment(f"{UPSTREAM}:v1.36.1"), [], [],
         f"Cluster Autoscaler 1.36.1 {EMPTY} {ALL} (gce)"),
        (deployment(f"{UPSTREAM}:v1.36.1", "--cloud-provider=aws"), [], [],
         f"Cluster Autoscaler 1.36.1 {EMPTY} {ALL} (aws)"),
        (deployment(f"{UPSTREAM}:v1.36.1", "--cloud-provider", "clusterapi"), [], [],
         (f"Cluster Autoscaler 1.36.1 {EMPTY} {ALL} (clusterapi, without a release with"
         " kubernetes/autoscaler PR 10200)")),
        (deployment(f"{UPSTREAM}:v1.38.0", "--cloud-provider=clusterapi"), [], [],
         "Cluster Autoscaler 1.38.0 simulates claims"),
    ],
)  # fmt: skip
def test_the_devices_of_a_new_node_are_known_by_provider_version_and_gate(
    scaler_object: Any,  # noqa: ANN401  # JSON
    groups: list[str],
    lacking: list[str],
    simulation: str,
) -> None:
    (autoscaler,) = find_autoscalers([scaler_object], map(node_pool, groups))
    told = [
        each.message
        for each in report_autoscalers([autoscaler], Configuration(), BY_DRIVERS)
        if each.severity is not Severity.INFO
    ]
    where = f"{autoscaler} ({', '.join(groups)}) adds no node for claims on "
    assert told == [where + each for each in lacking]
    if simulation:
        assert describe_simulation(autoscaler, BY_DRIVERS) == simulation


def test_every_row_of_a_provider_says_where_it_was_read_and_when() -> None:
    assert all(row.source and row.date.startswith("20") for row in PROVIDERS)
    newest = {}
    for row in PROVIDERS:
        before = newest.setdefault((row.product, row.provider), row)
        assert before is row or row.since < before.since


def test_every_verdict_says_where_it_was_read_and_when_and_newer_ones_come_first() -> None:
    assert all(each.source and each.date.startswith("20") and each.answer for each in VERDICTS)
    newest = {}
    for verdict in VERDICTS:
        before = newest.setdefault((verdict.product, verdict.form), verdict)
        assert before is verdict or verdict.since < before.since or before.gate != verdict.gate


@every_row(
    ("scaler_object", "limits"),
    [
        (deployment(f"{PUBLIC}:1.14.1", "--ignore-dra-requests=false"),
         ["adds no node for claims with firstAvailable or distinctAttribute"]),
        (deployment(f"{PUBLIC}:1.15.0", "--ignore-dra-requests=false"),
         ["adds no node for claims with distinctAttribute"]),
        (deployment(f"{PUBLIC}:1.15.0"), []),
        (deployment(f"{UPSTREAM}:v1.36.1"), ["keeps a node of which one pool is in use"]),
    ],
)  # fmt: skip
def test_forms_of_claims_and_nodes_that_an_autoscaler_leaves_are_reported(
    scaler_object: Any,  # noqa: ANN401  # JSON
    limits: list[str],
) -> None:
    (autoscaler,) = find_autoscalers([scaler_object])
    told = [
        each
        for each in report_autoscalers([autoscaler], Configuration(), None)
        if each.code == "AutoscalerLimits"
    ]
    assert [each.severity for each in told] == [Severity.INFO] * len(limits)
    for finding, limit in zip(told, limits, strict=True):
        assert finding.message.startswith(f"{autoscaler} {limit}")


LINES = load_cases(Path(__file__).parent / "cases" / "autoscalers.yaml")
BOTH = msgspec.convert(
    {
        "classes": [
            {"name": name, "drivers": [name], "devices": 8}
            for name in ("gpu.nvidia.com", "dra.net")
        ]
    },
    Facts,
)


@every_row("case", LINES, ids=lambda case: case["name"])
def test_the_lines_of_doctor_are_those_of_the_table(case: YamlValue) -> None:
    scaler_object = deployment(case["image"], *case.get("args", ()))
    pools = map(node_pool, case.get("providers", ()))
    scalers = [*find_autoscalers([scaler_object], pools)]
    configuration = Configuration(placement=Placement(case.get("placement", "native")))
    findings = [*report_autoscalers(scalers, configuration, BOTH)]
    told = [each.message for each in findings]
    if all(each.severity is Severity.INFO for each in findings):
        told = [*(describe_simulation(each, BOTH) for each in scalers), *told]
    assert told == case["now"]
