"""Volcano's dialect: virtual GPUs, and its older GPU sharing, for each container."""

from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Isolation, Kind, PodRequests
from drawbridge.translate.legacy.codes import HINT_EMPTY, HINT_LOST, NAME_OLD
from drawbridge.translate.legacy.dialects import vgpu
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import (
    Container,
    DeviceResource,
    PodView,
    annotation_path,
    format_value,
)
from drawbridge.translate.legacy.selectors import AskSelector

NAME: Final = "volcano"
PROJECT: Final = "Volcano"
TRIGGERS: Final = frozenset({"volcano.sh"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = (
    "volcano.sh/vgpu-ids-new",
    "volcano.sh/devices-to-allocate",
    "volcano.sh/vgpu-node",
    "volcano.sh/vgpu-time",
    "volcano.sh/bind-phase",
    "volcano.sh/bind-time",
)
NAMES: Final = vgpu.VgpuNames(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    percent="volcano.sh/vgpu-memory-percentage",
    cores="volcano.sh/vgpu-cores",
    mode="volcano.sh/vgpu-mode",
    use_uuid="volcano.sh/vgpu-use-gpuuuid",
    nouse_uuid="volcano.sh/vgpu-nouse-gpuuuid",
)
_OLD_MEMORY: Final = "volcano.sh/gpu-memory"
_OLD_COUNT: Final = "volcano.sh/gpu-number"
UNITS: Final = (NAMES.memory, _OLD_MEMORY)
DEFAULTS: Final = (NAMES.memory, NAMES.cores)
_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the requests of each container and the pod's annotations, which apply to all of them."""
    builder = RequestBuilder(NAME, pod)
    selectors, findings = vgpu.read_selectors(NAMES, pod)
    isolation, problems = vgpu.read_isolation(NAMES, pod)
    for container in pod.containers:
        _read_container(builder, container, legacy, selectors, isolation)
        for name in (_OLD_MEMORY, _OLD_COUNT):
            if name in container.resources:
                _read_old(builder, container, container.resources[name], legacy)
    if not builder.asks:
        return builder.build()
    if any(ask.resources[0] in NAMES.resources for ask in builder.asks):
        builder.findings += [*findings, *problems]
    else:
        builder.findings += [
            HINT_EMPTY.at(annotation_path(key), f"{key} has no effect on Volcano's older sharing")
            for key in NAMES.annotations
            if key in pod.annotations
        ]
    if _POLICY in pod.annotations:
        builder.findings.append(
            HINT_LOST.at(
                annotation_path(_POLICY),
                f"{format_value(pod.annotations[_POLICY])} applies to all pods of a group, which a "
                "claim cannot express",
            )
        )
    builder.add_annotations((*NAMES.annotations, _POLICY))
    builder.handle_scheduler("volcano", kept=True)
    return builder.build()


def _read_container(
    builder: RequestBuilder,
    container: Container,
    legacy: Legacy,
    selectors: tuple[AskSelector, ...],
    isolation: Isolation,
) -> None:
    resources = container.resources
    used = [resources[name] for name in NAMES.resources if name in resources]
    if not used or vgpu.drop_without_count(NAMES, container, builder):
        return
    share, row, findings = vgpu.read_share(NAMES, container, legacy, isolation)
    count = resources.get(NAMES.count)
    ask = Ask(
        kind=Kind.GPU,
        row=row,
        vendor="nvidia",
        count=builder.read_count(count) if count else 1,
        share=share,
        selectors=selectors,
        partition=isolation is Isolation.MIG,
        users=(container.user,),
    )
    builder.add_ask(ask, used)
    builder.findings += [*findings, *vgpu.check_uuid_count(NAMES, ask, container.where)]


def _read_old(
    builder: RequestBuilder, container: Container, resource: DeviceResource, legacy: Legacy
) -> None:
    """Read a resource of the older plugin: memory of one GPU in megabytes, or whole GPUs."""
    share = None
    if resource.name == _OLD_MEMORY:
        size, findings = vgpu.read_memory(resource, legacy)
        share = DeviceShare(Bytes(size.value), None, Isolation.NONE)
        builder.findings += findings
    count = 1 if share else builder.read_count(resource)
    ask = Ask(
        kind=Kind.GPU,
        row="old-memory" if share else "whole",
        vendor="nvidia",
        count=count,
        share=share,
        users=(container.user,),
    )
    builder.add_ask(ask, (resource,))
    builder.findings.append(
        NAME_OLD.at(
            resource.where, f"{resource.original_name} belongs to Volcano's older GPU sharing"
        )
    )
