"""Generated pods: any, valid or not; and those that ask for devices, as the API server has them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from drawbridge.names import ORIGINAL_ANNOTATION
from tests.tables import YamlValue

_AMOUNTS = st.sampled_from([0, 1, 2, "3", "1k", "x", None, 50, 100, "16Gi"])
_NAMES = st.sampled_from(
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "nvidia.com/mig-1g.5gb",
        "koordinator.sh/gpu",
        "koordinator.sh/rdma",
        "amd.com/gpu",
        "rdma/hca",
        "aliyun.com/gpu-mem",
        "example.com/npu",
        "cpu",
        "memory",
        "hugepages-2Mi",
    ]
)
_LIMITS = st.dictionaries(_NAMES, _AMOUNTS, max_size=3)
# Limits that are translated, on most clusters.
_ASKS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"nvidia.com/gpu": 1},
        {"nvidia.com/gpu": "2", "cpu": 1},
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000},
        {"nvidia.com/mig-1g.5gb": 1},
        {"koordinator.sh/gpu": 50},
        {"koordinator.sh/gpu": 200, "koordinator.sh/rdma": 100},
        {"amd.com/gpu": 1},
        {"rdma/hca": 1},
    ]
)
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
_TOGETHER = '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(["gpu-fraction", "hami.io/gpu-scheduler-policy", "mine", ORIGINAL_ANNOTATION]),
    st.sampled_from(["0.5", "binpack", "[]", "text"]),
    max_size=2,
)


def _containers(
    names: Sequence[str], *, is_valid: bool, min_size: int = 0
) -> st.SearchStrategy[list[YamlValue]]:
    """Draw containers; in valid pods, no name of a container or variable is there twice."""
    named: Any = {"unique_by": lambda item: item["name"]} if is_valid else {}
    variables = st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "A", "NCCL_IB_HCA"])
    container = st.fixed_dictionaries(
        {"name": st.sampled_from(names), "unknown": st.integers()},
        optional={
            "resources": st.fixed_dictionaries(
                {"limits": _LIMITS}, optional={"requests": st.none() | _LIMITS}
            ),
            "env": st.lists(st.fixed_dictionaries({"name": variables}), max_size=2, **named),
            "volumeMounts": st.just([{"name": "v"}]),
        },
    )
    return st.lists(container, min_size=min_size, max_size=3, **named)


def _pods(
    containers: st.SearchStrategy[list[YamlValue]], before: st.SearchStrategy[list[YamlValue]]
) -> st.SearchStrategy[YamlValue]:
    return st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries(
                {"name": st.just("p")}, optional={"annotations": _ANNOTATIONS}
            ),
            "spec": st.fixed_dictionaries(
                {"containers": containers, "volumes": st.just([{"name": "v"}])},
                optional={
                    "initContainers": before,
                    "schedulerName": st.sampled_from(["hami-scheduler", "kai-scheduler"]),
                    "nodeSelector": st.just({"nvidia.com/gpu.product": "Tesla-T4", "zone": "a"}),
                    "resourceClaims": st.just([{"name": "drawbridge"}]),
                },
            ),
        }
    )


PODS = _pods(_containers("abc", is_valid=False), _containers("abc", is_valid=False))


@st.composite
def _asking(draw: st.DrawFn) -> YamlValue:
    containers = _containers("abc", is_valid=True, min_size=1)
    pod = draw(_pods(containers, _containers("def", is_valid=True)))
    container = draw(st.sampled_from(pod["spec"]["containers"]))
    container["resources"] = {"limits": dict(draw(_ASKS))}
    return pod


ASKING = _asking()


@st.composite
def _sharing(draw: st.DrawFn) -> YamlValue:
    containers = []
    for name in draw(st.sampled_from(["a", "ab", "abc", "abcd"])):
        limits: dict[str, Any] = {}
        for more in draw(st.lists(_ASKS, min_size=1, max_size=3)):
            limits |= more
        containers.append({"name": name, "resources": {"limits": limits}})
    annotations = {JOINT: _TOGETHER} if draw(st.booleans()) else {}
    before = containers[:1] if len(containers) > 1 and draw(st.booleans()) else []
    spec = {"containers": containers[len(before) :], "initContainers": before}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


# Containers with several kinds of devices each, near each other in some pods.
SHARING = _sharing()


def untouched(pod: YamlValue) -> YamlValue:
    """What no translation may change."""
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    native = ("cpu", "memory", "hugepages-2Mi", "example.com/npu")
    return [
        pod["metadata"]["name"],
        pod["spec"]["volumes"],
        pod["spec"].get("nodeSelector", {}).get("zone"),
        pod["spec"].get("resourceClaims", [])[:1] == [{"name": "drawbridge"}],
        (pod["metadata"].get("annotations") or {}).get("mine"),
        [
            (
                container["name"],
                container["unknown"],
                container.get("volumeMounts"),
                [
                    variable
                    for variable in container.get("env", [])
                    if variable["name"] in ("A", "NCCL_IB_HCA")
                ],
                [
                    (part, name, amount)
                    for part, amounts in container.get("resources", {}).items()
                    if isinstance(amounts, dict)
                    for name, amount in amounts.items()
                    if name in native
                ],
            )
            for container in containers
        ],
    ]
