"""Properties of the asks that are read from any pod."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import get_value
from drawbridge.finding import Severity
from drawbridge.translate.legacy.asks import (
    Ask,
    ContainerRole,
    DeviceShare,
    DeviceUser,
    Isolation,
    Kind,
    Percent,
    SourceField,
)
from drawbridge.translate.legacy.codes import CODES, INIT_ADDS_UP
from drawbridge.translate.legacy.dialects.nvidia import mig_profiles
from drawbridge.translate.legacy.init_containers import share_devices
from drawbridge.translate.legacy.read import read_pod
from tests.tables import YamlValue, load_cases
from tests.thorough import drawn

NAMES = (
    "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
    "nvidia.com/priority", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "koordinator.sh/gpu",
    "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu.shared", "koordinator.sh/rdma", "koordinator.sh/fpga",
    "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "aliyun.com/gpu-mem", "amd.com/gpu",
    "amd.com/cpx_nps4", "gpu.intel.com/i915", "gpu.intel.com/monitoring", "rdma/hca",
    "mellanox.com/mlnx_rdma", "huawei.com/Ascend910B4", "example.com/unknown", "cpu", "memory",
    "nvidia.com/gpu-10gb", "kubernetes.io/gpu", "koordinator.sh/gpu-shared", "amd.com/gpumem",
)  # fmt: skip
# And those of all cases, so that no dialect is forgotten.
DIALECTS = [
    case
    for table in sorted((Path(__file__).parent / "cases" / "dialects").glob("*.yaml"))
    for case in load_cases(table)
]
READ = sorted(
    {
        name
        for case in DIALECTS
        for resources in case.get("containers", {}).values()
        for name in resources
    }
)
KEYS = (
    "nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/vgpu-mode",
    "nvidia.com/numa-bind", "hami.io/gpu-scheduler-policy", "gpu-fraction", "gpu-memory",
    "gpu-fraction-num-devices", "gpu-fraction-container-name", "mps", "kai.scheduler/queue",
    "scheduling.koordinator.sh/device-joint-allocate",
    "scheduling.koordinator.sh/device-allocate-hint",
    "scheduling.koordinator.sh/gpu-partition-spec", "k8s.v1.cni.cncf.io/networks",
    "tensor-fusion.ai/enabled", "tensor-fusion.ai/is-local-gpu", "tensor-fusion.ai/vram-limit",
    "tensor-fusion.ai/gpu-count", "tensor-fusion.ai/compute-percent-limit",
    "tensor-fusion.ai/isolation", "tensor-fusion.ai/partition-id",
    "tensor-fusion.ai/gpu-indices", "tensor-fusion.ai/sidecar-worker",
    "tensor-fusion.ai/tflops-limit", "tensor-fusion.ai/compute-percent-request",
)  # fmt: skip
LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.compute.major",
          "nvidia.com/gpu.compute.minor", "nvidia.com/mig.config", "nvidia.com/gpu.present",
          "amd.com/gpu.vram", "zone")  # fmt: skip

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("name", "spec", "key", "values", "matchExpressions")), inner
        )
    ),
    max_leaves=6,
)
amounts = st.sampled_from((0, 1, 2, 50, 100, 101, 200, "8", "16Gi", "1e1", "x", None, 0.5)) | odd
limits = st.dictionaries(st.sampled_from(NAMES) | st.sampled_from(READ), amounts, max_size=4) | odd
texts = (
    st.sampled_from(
        (
            "true", "0.5", "2", "A100,V100", "main", "a, b@c", '{"deviceTypes":["gpu","rdma"]}',
            '{"rdma":{"vfSelector":{},"allocateStrategy":"RequestsAsCount"}}', "[{]}", "[" * 4000,
            '{"gpu":{"selector":{"matchLabels":{"a":"b"}}}}', '[{"name":"a"}]', "partitioned",
        )
    )
    | st.text(max_size=8)
)  # fmt: skip
terms = st.fixed_dictionaries(
    {
        "key": st.sampled_from(LABELS) | odd,
        "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")) | odd,
        "values": st.lists(st.sampled_from(("8", "true", "A100-SHARED", "x")), max_size=2) | odd,
    }
)
entries = st.lists(st.fixed_dictionaries({"matchExpressions": st.lists(terms, max_size=3)}) | odd)
affinity = st.fixed_dictionaries(
    {
        "nodeAffinity": st.fixed_dictionaries(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                    {"nodeSelectorTerms": entries}
                )
                | odd,
                "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                    st.fixed_dictionaries(
                        {
                            "weight": st.integers(1, 100) | odd,
                            "preference": st.fixed_dictionaries(
                                {"matchExpressions": st.lists(terms, max_size=2)}
                            )
                            | odd,
                        }
                    ),
                    max_size=9,
                ),
            }
        )
    }
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("main", "log")) | odd},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"limits": limits, "requests": limits}),
            "restartPolicy": st.just("Always"),
            "securityContext": odd,
        },
    )
    | odd,
    max_size=3,
)
OF_SPEC: dict[str, st.SearchStrategy[YamlValue]] = {
    "containers": containers,
    "initContainers": containers,
    "schedulerName": st.sampled_from(("hami-scheduler", "kai-scheduler", "volcano")),
    "nodeSelector": st.dictionaries(st.sampled_from(LABELS), texts | odd, max_size=3),
    "affinity": affinity | odd,
}
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "annotations": st.dictionaries(st.sampled_from(KEYS), texts | odd, max_size=6),
                "labels": st.dictionaries(st.sampled_from(KEYS), texts | odd, max_size=3),
                "namespace": odd,
            },
        )
        | odd,
        "spec": st.fixed_dictionaries({}, optional=OF_SPEC) | odd,
    }
)


@settings(max_examples=drawn(60, thorough=300))
@given(pods | odd)
def test_reading_accepts_any_value(pod: YamlValue) -> None:
    requests = read_pod(pod)
    names = {ask.name for ask in requests.asks}
    assert len(names) == len(requests.asks)
    for field in requests.source_fields:
        assert get_value(pod, field.path) is not None
        assert set(field.asks) <= names
    for finding in requests.findings:
        assert finding.code in CODES
        assert finding.message
        assert finding.remedy
        assert finding.path
    assert all(ask.count is None or ask.count > 0 for ask in requests.asks)


def devices(pod: YamlValue) -> set[tuple[str, int, str]]:
    """Return the container and name of every device amount above zero."""
    return {
        (part, i, name)
        for part in ("initContainers", "containers")
        for i, one in enumerate(pod["spec"].get(part, []))
        for name, amount in one["resources"]["limits"].items()
        if "/" in name and amount
    }


plain = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from((0, 1, 2, 100)), max_size=3),
    min_size=1,
    max_size=3,
)


def containers_with(part: YamlValue) -> YamlValue:
    return [{"name": f"c{i}", "resources": {"limits": one}} for i, one in enumerate(part)]


@settings(max_examples=drawn(40, thorough=200))
@given(plain, plain)
def test_every_device_resource_is_a_source_field_or_has_a_finding(
    apps: YamlValue, inits: YamlValue
) -> None:
    """A dialect reads each device resource, or a finding names it."""
    pod: YamlValue = {
        "spec": {"containers": containers_with(apps), "initContainers": containers_with(inits)}
    }
    requests = read_pod(pod)
    read = {(t.path[1], t.path[2], t.name) for t in requests.source_fields if "resources" in t.path}
    messages = " ".join(f"{f.path} {f.message}" for f in requests.findings)
    for part, i, name in devices(pod):
        assert (part, i, name) in read or f"spec.{part}[{i}].resources.limits[{name}]" in messages


class Part(NamedTuple):
    """A container: when it runs, its GPUs, and the memory of each, 0 for whole ones."""

    role: ContainerRole
    gpus: int
    memory: int = 0


def parts(memory: st.SearchStrategy[int]) -> st.SearchStrategy[list[Part]]:
    """Draw containers in the order in which they start."""
    return st.lists(
        st.builds(Part, st.sampled_from(ContainerRole), st.integers(0, 3), memory), max_size=7
    ).map(lambda drawn_parts: sorted(drawn_parts, key=lambda part: part.role is ContainerRole.APP))


def pod_of(containers: list[Part]) -> YamlValue:
    spec: YamlValue = {"initContainers": [], "containers": []}
    for i, part in enumerate(containers):
        limits = {"nvidia.com/gpu": part.gpus}
        limits |= {"nvidia.com/gpumem": part.memory} if part.memory and part.gpus else {}
        container: YamlValue = {"name": f"c{i}", "resources": {"limits": limits}}
        if part.role is ContainerRole.SIDECAR:
            container["restartPolicy"] = "Always"
        key = "containers" if part.role is ContainerRole.APP else "initContainers"
        spec[key].append(container)
    return {"spec": spec}


def upstream_demand(containers: list[Part]) -> int:
    """Return what the scheduler and the kubelet count, after `PodRequests` of component-helpers."""
    total = sum(part.gpus for part in containers if part.role is not ContainerRole.INIT)
    for i, part in enumerate(containers):
        before = [each.gpus for each in containers[:i] if each.role is ContainerRole.SIDECAR]
        total = max(total, part.gpus + sum(before))
    return total


@given(parts(st.just(0)))
@example([Part(ContainerRole.INIT, 2), Part(ContainerRole.SIDECAR, 1), Part(ContainerRole.APP, 1)])
@example([Part(ContainerRole.SIDECAR, 1), Part(ContainerRole.INIT, 2), Part(ContainerRole.APP, 1)])
def test_the_effective_request_for_whole_devices_is_kept(containers: list[Part]) -> None:
    requests = read_pod(pod_of(containers))
    assert sum(ask.count or 0 for ask in requests.asks) == upstream_demand(containers)
    assert INIT_ADDS_UP.name not in {finding.code for finding in requests.findings}
    running: set[str] = set()  # the asks of the sidecars that have started
    for i, part in enumerate(containers):
        usable = [ask for ask in requests.asks if any(user.name == f"c{i}" for user in ask.users)]
        assert sum(ask.count or 0 for ask in usable) >= part.gpus
        assert running.isdisjoint(ask.name for ask in usable)
        if part.role is ContainerRole.SIDECAR:
            running |= {ask.name for ask in usable}


@given(parts(st.sampled_from((0, 1000, 2000))))
def test_devices_beyond_the_effective_request_are_reported(containers: list[Part]) -> None:
    requests = read_pod(pod_of(containers))
    total, demand = sum(ask.count or 0 for ask in requests.asks), upstream_demand(containers)
    assert total >= demand
    assert total == demand or INIT_ADDS_UP.name in {finding.code for finding in requests.findings}


@given(st.integers(1, 8), st.integers(1, 8))
def test_equal_quantities_give_equal_asks(whole: int, tens: int) -> None:
    spellings = (whole * 1000, f"{whole}k", f"{whole}000", f"{whole}e3")
    seen = {
        read_pod(
            {"spec": {"containers": containers_with([{"nvidia.com/mig-1g.5gb": amount}])}}
        ).asks
        for amount in spellings
    }
    assert len(seen) == 1
    assert (
        read_pod({"spec": {"containers": containers_with([{"amd.com/gpu": f"{tens}e0"}])}})
        .asks[0]
        .count
        == tens
    )


def user(name: str, role: ContainerRole) -> tuple[DeviceUser, ...]:
    return (DeviceUser(("spec", "x", name), name, role),)


def test_an_ask_for_all_devices_satisfies_an_init_container_with_a_count() -> None:
    every = Ask(
        name="a", kind=Kind.NIC, row="x/y", count=None, users=user("main", ContainerRole.APP)
    )
    some = Ask(name="b", kind=Kind.NIC, row="x/y", count=2, users=user("init", ContainerRole.INIT))
    asks, merged, _ = share_devices((every, some))
    assert [ask.name for ask in asks] == ["a"]
    assert merged["b"] == ("a",)


def test_a_count_does_not_satisfy_an_init_container_that_requests_all_devices() -> None:
    some = Ask(name="a", kind=Kind.NIC, row="x/y", count=2, users=user("main", ContainerRole.APP))
    every = Ask(
        name="b", kind=Kind.NIC, row="x/y", count=None, users=user("init", ContainerRole.INIT)
    )
    asks, merged, _ = share_devices((some, every))
    assert [ask.name for ask in asks] == ["a", "b"]
    assert merged["b"] == ("b",)


def test_shared_devices_have_the_resource_names_of_all_containers() -> None:
    app = Ask(name="a", kind=Kind.GPU, row="x/y", users=user("main", ContainerRole.APP))
    init = Ask(name="b", kind=Kind.GPU, row="x/z", users=user("init", ContainerRole.INIT))
    app = replace(app, resources=("nvidia.com/gpu",))
    other = replace(init, resources=("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"),
                    amounts=("volcano.sh/vgpu-memory",))  # fmt: skip
    (merged,), _, _ = share_devices((app, other))
    assert merged.resources == ("nvidia.com/gpu", *other.resources)
    assert merged.amounts == other.amounts
    (alike,), _, _ = share_devices((app, replace(init, resources=app.resources)))
    assert alike.resources == app.resources


def test_a_whole_device_satisfies_an_init_container_that_requests_a_share() -> None:
    share = DeviceShare(memory=Percent(50), isolation=Isolation.MEMORY)  # type: ignore[arg-type]  # any number
    whole = Ask(name="a", kind=Kind.GPU, row="x/y", users=user("main", ContainerRole.APP))
    part = Ask(
        name="b", kind=Kind.GPU, row="x/z", share=share, users=user("init", ContainerRole.INIT)
    )
    asks, _, _ = share_devices((whole, part))
    assert [ask.name for ask in asks] == ["a"]


def test_a_plain_ask_is_a_count_of_whole_devices() -> None:
    plain_ask = Ask(kind=Kind.GPU, row="x/y", count=2)
    assert plain_ask.is_plain
    assert not Ask(kind=Kind.GPU, row="x/y", count=None).is_plain
    assert not Ask(kind=Kind.GPU, row="x/y", share=DeviceShare()).is_plain


def test_only_mig_resources_have_profiles() -> None:
    assert mig_profiles("nvidia.com/gpu") == ()
    assert mig_profiles("nvidia.com/mig-3g.40gb.me.all") == (
        "3g.40gb+me.all", "3g.40gb.me+all", "3g.40gb.me.all",
    )  # fmt: skip


def test_source_fields_have_path_name_and_value() -> None:
    fields = read_pod(
        {"spec": {"containers": containers_with([{"nvidia.com/gpu": 1}])}}, Configuration()
    ).source_fields
    assert fields == (
        SourceField(
            ("spec", "containers", 0, "resources", "limits"),
            "nvidia.com/gpu",
            1,
            asks=("nvidia-0",),
        ),
    )


def without(
    value: YamlValue, taken: Mapping[YamlValue, YamlValue], path: YamlValue = ()
) -> YamlValue:
    """Remove and replace the source fields."""
    if (path[:-1], path[-1:]) in taken:
        value = taken[path[:-1], path[-1:]]
    if isinstance(value, dict):
        return {
            key: without(item, taken, (*path, key))
            for key, item in value.items()
            if taken.get((path, (key,)), item) is not None
        }
    if isinstance(value, list):
        return [
            without(item, taken, (*path, i))
            for i, item in enumerate(value)
            if taken.get((path, (i,)), item) is not None
        ]
    return value


def asked(case: YamlValue) -> list[YamlValue]:
    return [limits for limits in case.get("containers", {}).values() if limits]


# Pods of which most have asks and no error: of the limits of one or two cases of the tables.
CASES = [case for case in DIALECTS if case.get("asks") and asked(case)]
ASKED = st.sampled_from([limits for case in CASES for limits in asked(case)])
ANNOTATED = st.sampled_from([case["annotations"] for case in CASES if case.get("annotations")])
asking = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"annotations": st.just({}) | ANNOTATED}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(ASKED, min_size=1, max_size=2).map(containers_with)},
            optional={
                "initContainers": st.lists(ASKED, max_size=1).map(containers_with),
                **{key: OF_SPEC[key] for key in ("schedulerName", "nodeSelector", "affinity")},
            },
        ),
    }
)


@settings(max_examples=drawn(40, thorough=200))
@given(asking)
def test_the_remaining_pod_has_no_asks(pod: YamlValue) -> None:
    requests = read_pod(pod)
    errors = [each for each in requests.findings if each.severity is Severity.ERROR]
    assume(requests.asks and not errors)
    taken = {(t.path, (t.name,)): t.replacement for t in requests.source_fields if t.removed}
    remaining = without(pod, taken)
    remaining["spec"]["resourceClaims"] = [{"name": "drawbridge"}]
    assert read_pod(remaining).asks == ()
