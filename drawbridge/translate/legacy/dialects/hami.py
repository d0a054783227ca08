"""HAMi's dialect for NVIDIA: virtual GPUs of each container, memory in MiB and cores in percent.

`nvidia.com/gpu` belongs to HAMi if the pod has anything else of HAMi, or if the configuration has a
default for HAMi's memory or cores. A count alone is then an exclusive GPU without a default for the
memory, and several are different GPUs. The dialect `vendors` reads other vendors' names.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from drawbridge.config.model import Legacy
from drawbridge.documents.values import as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    Colocation,
    EnvironmentVariable,
    Isolation,
    Kind,
    PodRequests,
    StrategyPreference,
    TopologyScope,
)
from drawbridge.translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_REFUSED,
    HINT_EMPTY,
    HINT_LOST,
    MEANING_CHANGES,
    POD_REFUSED,
    RESTRICTION_LOST,
)
from drawbridge.translate.legacy.dialects import hami_policies, vgpu
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import (
    Container,
    DeviceResource,
    PodView,
    annotation_path,
    format_value,
)
from drawbridge.translate.legacy.selectors import AskSelector

NAME: Final = "hami"
PROJECT: Final = "HAMi"
NAMES: Final = vgpu.VgpuNames(
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    percent="nvidia.com/gpumem-percentage",
    cores="nvidia.com/gpucores",
    mode="nvidia.com/vgpu-mode",
    use_uuid="nvidia.com/use-gpuuuid",
    nouse_uuid="nvidia.com/nouse-gpuuuid",
    exclusive_count=True,
)
_PRIORITY: Final = "nvidia.com/priority"
_PRIORITY_VARIABLE: Final = "CUDA_TASK_PRIORITY"
_NUMA: Final = "nvidia.com/numa-bind"
_SCHEDULER: Final = "hami-scheduler"
ALLOCATED: Final = ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-node")
_BY_NUMBER: Final = "is not carried over, because the index of a GPU is not a device attribute"
# Annotations that restrict the GPUs of the pod, which a claim cannot express.
_RESTRICTIONS: Final = ("nvidia.com/use-gpuindexes", "nvidia.com/nouse-gpuindexes")
# Annotations that a claim cannot express, and why.
_NOT_EXPRESSIBLE: Final = {
    "nvidia.com/mig-profile-preference": (
        "is ignored, because the claim requests the smallest profile with enough memory"
    ),
    "hami.io/vulkan": "is ignored, because the DRA driver decides which APIs a container can use",
}
_ANNOTATIONS: Final = (
    *NAMES.annotations,
    _NUMA,
    hami_policies.WEIGHTS,
    *_RESTRICTIONS,
    *_NOT_EXPRESSIBLE,
    *hami_policies.POLICIES,
)
# `nvidia.com/gpu` alone is HAMi's only with an annotation, the scheduler or a configured default.
TRIGGERS: Final = frozenset({*NAMES.resources, _PRIORITY, *_ANNOTATIONS, *ALLOCATED, _SCHEDULER})
READS: Final = frozenset({"container.securityContext", "spec.nodeName"})
STANDALONE_KEYS: Final = ()
# As Go parses booleans.
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class _PodAnnotations(NamedTuple):
    """The settings of the pod's annotations, which apply to all its devices."""

    selectors: tuple[AskSelector, ...] = ()
    isolation: Isolation = Isolation.MEMORY
    colocation: Colocation | None = None
    preferences: tuple[StrategyPreference, ...] = ()
    findings: Sequence[Finding] = ()
    mode_findings: Sequence[Finding] = ()  # reported together with the first ask


_RELEVANT: Final = frozenset(_ANNOTATIONS)
# A default for one of these in the configuration means that HAMi serves the cluster's GPUs.
_DEFAULTED: Final = frozenset({NAMES.memory, NAMES.cores})
UNITS: Final = (NAMES.memory,)
DEFAULTS: Final = (NAMES.count, NAMES.memory, NAMES.cores)
_NO_ANNOTATIONS: Final = _PodAnnotations()


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the requests of each container and the pod's annotations, which apply to all of them."""
    if not _uses_hami(pod, legacy):
        return NO_REQUESTS
    builder = RequestBuilder(NAME, pod)
    allocated = next((key for key in ALLOCATED if key in pod.annotations), None)
    if allocated:
        builder.findings.append(_already_allocated(allocated))
        builder.keep_resources(
            container.resources[name]
            for container in pod.containers
            for name in (*NAMES.resources, _PRIORITY)
            if name in container.resources
        )
        return builder.build()
    annotations = _read_annotations(pod)
    builder.findings += annotations.findings
    for container in pod.containers:
        _read_container(builder, container, legacy, annotations)
    if annotations is not _NO_ANNOTATIONS:
        _report_lost_hints(builder)
        builder.add_annotations(_ANNOTATIONS)
    builder.handle_scheduler(_SCHEDULER)
    builder.findings += _check_refused(pod)
    return builder.build()


def _read_annotations(pod: PodView) -> _PodAnnotations:
    if _RELEVANT.isdisjoint(pod.annotations):
        return _NO_ANNOTATIONS
    selectors, findings = vgpu.read_selectors(NAMES, pod)
    isolation, mode_findings = vgpu.read_isolation(NAMES, pod)
    return _PodAnnotations(
        selectors,
        isolation,
        _read_numa_binding(pod),
        hami_policies.read(pod.annotations),
        findings,
        mode_findings,
    )


def _uses_hami(pod: PodView, legacy: Legacy) -> bool:
    own = (NAMES.memory, NAMES.percent, NAMES.cores, _PRIORITY)
    if any(name in container.resources for container in pod.containers for name in own):
        return True
    if not any(NAMES.count in container.resources for container in pod.containers):
        return False
    mentioned = any(name in container.zeros for container in pod.containers for name in own)
    if mentioned or pod.scheduler == _SCHEDULER:
        return True
    if pod.labels.get("hami.io/webhook") == "ignore":
        return False
    # HAMi's webhook leaves pods of other schedulers alone.
    served = not pod.scheduler and not _DEFAULTED.isdisjoint(vgpu.defaults(legacy))
    return served or any(key in pod.annotations for key in (*_ANNOTATIONS, *ALLOCATED))


def _read_container(
    builder: RequestBuilder, container: Container, legacy: Legacy, annotations: _PodAnnotations
) -> None:
    resources = container.resources
    used = [resources[name] for name in (*NAMES.resources, _PRIORITY) if name in resources]
    if not any(name in resources for name in NAMES.resources):
        _reject_priority_alone(builder, used)
        return
    count = _read_count(builder, container, legacy)
    if not count:
        return
    share, row, findings = vgpu.read_share(NAMES, container, legacy, annotations.isolation)
    priority, priority_findings = _read_priority(container)
    mode_findings = annotations.mode_findings if not builder.asks else []
    ask = Ask(
        kind=Kind.GPU,
        row=row,
        vendor="nvidia",
        count=count,
        share=share,
        selectors=annotations.selectors,
        partition=annotations.isolation is Isolation.MIG,
        colocation=annotations.colocation,
        preferences=annotations.preferences,
        settings=priority,
        users=(container.user,),
    )
    builder.add_ask(ask, used)
    builder.findings += [*findings, *priority_findings, *mode_findings]
    builder.findings += vgpu.check_uuid_count(NAMES, ask, container.where)


def _read_count(builder: RequestBuilder, container: Container, legacy: Legacy) -> int:
    resource = container.resources.get(NAMES.count)
    if resource:
        return builder.read_count(resource)
    if vgpu.drop_without_count(NAMES, container, builder):
        return 0
    # A configured 0 means that memory alone does not request a GPU.
    return vgpu.configured_amount(vgpu.defaults(legacy), NAMES.count, 1)


def _read_numa_binding(pod: PodView) -> Colocation | None:
    return (
        Colocation(TopologyScope.NUMA, annotation=_NUMA)
        if pod.annotations.get(_NUMA) in _TRUE
        else None
    )


def _reject_priority_alone(builder: RequestBuilder, used: list[DeviceResource]) -> None:
    builder.findings += [
        AMOUNT_REFUSED.at(one.where, f"{one.original_name} has no effect without a GPU request")
        for one in used
    ]
    builder.keep_resources(used)


def _read_priority(container: Container) -> tuple[tuple[EnvironmentVariable, ...], list[Finding]]:
    """Read the priority. 0 is the high priority, so it differs from no priority."""
    resource = container.resources.get(_PRIORITY) or container.zeros.get(_PRIORITY)
    if resource is None:
        return (), []
    if resource.amount > 1:
        return (), [
            AMOUNT_REFUSED.at(
                resource.where,
                f"{resource.original_name} must be 0 or 1, not {resource.amount_text}",
            )
        ]
    return (EnvironmentVariable(_PRIORITY_VARIABLE, str(resource.amount)),), [
        MEANING_CHANGES.at(
            resource.where,
            f"{resource.original_name} becomes the environment variable {_PRIORITY_VARIABLE}, "
            "which only HAMi-core reads",
        )
    ]


def _report_lost_hints(builder: RequestBuilder) -> None:
    annotations = builder.pod.annotations
    builder.findings += hami_policies.report_lost(annotations)
    builder.findings += [
        HINT_LOST.at(annotation_path(key), f"{format_value(annotations[key])} {why}")
        for key, why in _NOT_EXPRESSIBLE.items()
        if key in annotations
    ]
    builder.findings += [
        RESTRICTION_LOST.at(annotation_path(key), f"{format_value(annotations[key])} {_BY_NUMBER}")
        for key in _RESTRICTIONS
        if key in annotations
    ]
    if annotations.get(_NUMA) in _TRUE and all(ask.count == 1 for ask in builder.asks):
        what = f"{_NUMA} has no effect, because no container requests several GPUs"
        builder.findings.append(HINT_EMPTY.at(annotation_path(_NUMA), what))
    if annotations.get(_NUMA, "true") not in _TRUE | _FALSE:
        builder.findings.append(vgpu.unknown_value(_NUMA, annotations[_NUMA], ("true", "false")))


def _already_allocated(key: str) -> Finding:
    return ALREADY_PLACED.at(
        annotation_path(key),
        "HAMi has already allocated the devices of the pod, so the pod is not translated",
    )


def _check_refused(pod: PodView) -> list[Finding]:
    findings = [
        POD_REFUSED.at(
            container.where,
            f"container {container.user.name} is privileged, and HAMi does not allocate GPUs to "
            "pods with a privileged container",
        )
        for container in pod.containers
        if as_mapping(container.raw.get("securityContext")).get("privileged") is True
    ]
    if pod.spec.get("nodeName"):
        findings.append(
            POD_REFUSED.at(
                "spec.nodeName", "nodeName is set, so no scheduler allocates the GPUs of the pod"
            )
        )
    return findings
