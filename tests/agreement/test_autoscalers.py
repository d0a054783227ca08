"""Which autoscaler runs, and what it does not see of claims: a table of Deployments."""

from typing import Any

import msgspec
import pytest

from drawbridge.agreement.autoscalers import Autoscaler, find_autoscalers, report_autoscalers
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue
from drawbridge.facts.model import Facts
from tests.tables import every_row

CLUSTER, KARPENTER = "Cluster Autoscaler", "Karpenter"
UPSTREAM = "registry.k8s.io/autoscaling/cluster-autoscaler"
PUBLIC = "public.ecr.aws/karpenter/controller"
NAMED = msgspec.convert(
    {"classes": [{"name": "gpu.nvidia.com", "extended": "nvidia.com/gpu", "devices": 8}]}, Facts
)


def deployment(image: str, *args: str, **env: str) -> Any:  # noqa: ANN401  # JSON
    container = {
        "image": image,
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
    assert [each.code for each in told] == codes


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
    (told,) = report_autoscalers([scaler(product, simulates=True)], configuration, Facts())
    assert told.remedy.startswith(expected), told.remedy
