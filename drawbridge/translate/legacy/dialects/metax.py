"""MetaX: whole GPUs of its device plugin, and HAMi's shares of them.

`metax-tech.com/sgpu` counts GPUs, and each of them has `vmemory` in GiB, or in bytes with a suffix,
and `vcore` in percent. What is missing is all of the GPU. No DRA driver for MetaX is known, so the
Configuration declares one. Koordinator counts its own names beside these; they stay with `vendors`.
"""

from decimal import Decimal
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    Bytes,
    DeviceShare,
    Isolation,
    Kind,
    Percent,
    PodRequests,
)
from drawbridge.translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_SUSPICIOUS,
    HINT_LOST,
    REQUEST_INCOMPLETE,
)
from drawbridge.translate.legacy.dialects import hami_policies, vgpu
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import (
    Container,
    DeviceResource,
    PodView,
    annotation_path,
)

NAME: Final = "metax"
PROJECT: Final = ""
TRIGGERS: Final = frozenset({"metax-tech.com"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = (
    "hami.io/metax-gpu-devices-allocated",
    "hami.io/metax-sgpu-devices-allocated",
    "metax-tech.com/gpu-devices-allocated",
)
_GPU: Final = "metax-tech.com/gpu"
_NAMES: Final = vgpu.VgpuNames(
    count="metax-tech.com/sgpu",
    memory="metax-tech.com/vmemory",
    percent="",
    cores="metax-tech.com/vcore",
    mode="",
    use_uuid="metax-tech.com/use-gpuuuid",
    nouse_uuid="metax-tech.com/nouse-gpuuuid",
    use_type="",
    nouse_type="",
)
_PARTS: Final = (_NAMES.memory, _NAMES.cores)
UNITS: Final = (_NAMES.memory,)
_CLASS: Final = "metax-tech.com/sgpu-app-class"
_ONLINE: Final = "online"
_POLICY: Final = "metax-tech.com/sgpu-qos-policy"
# Annotations with these values only, and why a claim cannot express them.
_HINTS: Final = {
    _CLASS: ((_ONLINE, "offline"), "a claim has no class of applications"),
    _POLICY: (
        ("best-effort", "fixed-share", "burst-share"),
        "the DRA driver decides how pods that share a GPU are limited",
    ),
    "metax-tech.com/sgpu-topology-aware": ((), "a claim does not know the links between GPUs"),
}
_SCHEDULERS: Final = ("hami-scheduler", "koord-scheduler")
_GI: Final = 1 << 30
_ALL: Final = Percent(Decimal(100))


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the requests of each container; the annotations are for the shares of all of them."""
    if pod.scheduler == _SCHEDULERS[1]:
        return NO_REQUESTS
    builder = RequestBuilder(NAME, pod)
    names = (_GPU, _NAMES.count, *_PARTS)
    allocated = next((key for key in ALLOCATED if key in pod.annotations), None)
    for container in pod.containers:
        resources = [container.resources[name] for name in names if name in container.resources]
        if allocated:
            builder.keep_resources(resources)
        elif resources:
            _read_container(builder, container, legacy)
    if allocated and builder.source_fields:
        where = annotation_path(allocated)
        builder.findings.append(ALREADY_PLACED.at(where, "the GPUs of the pod are allocated"))
    if builder.asks:
        _read_hints(builder)
        builder.handle_scheduler(_SCHEDULERS[0])
    return builder.build()


def _read_container(builder: RequestBuilder, container: Container, legacy: Legacy) -> None:
    resources = container.resources
    preferences = hami_policies.read(builder.pod.annotations)
    if whole := resources.get(_GPU):
        ask = Ask(
            kind=Kind.GPU,
            row="whole",
            vendor=NAME,
            count=builder.read_count(whole),
            preferences=preferences,
            users=(container.user,),
        )
        builder.add_ask(ask, (whole,))
    parts = [resources[name] for name in _PARTS if name in resources]
    shared = resources.get(_NAMES.count)
    if shared is None:
        if parts and not vgpu.drop_without_count(_NAMES, container, builder):
            builder.keep_resources(parts)
            what = f"{parts[0].original_name} requires {_NAMES.count}"
            builder.findings.append(REQUEST_INCOMPLETE.at(parts[0].where, what))
        return
    share, row = _read_share(builder, container, legacy)
    selectors, findings = vgpu.read_selectors(_NAMES, builder.pod)
    ask = Ask(
        kind=Kind.GPU,
        row=row,
        vendor=NAME,
        count=builder.read_count(shared),
        share=share,
        selectors=selectors,
        preferences=preferences,
        users=(container.user,),
    )
    builder.add_ask(ask, (shared, *parts))
    builder.findings += [*findings, *vgpu.check_uuid_count(_NAMES, ask, container.where)]


def _read_share(
    builder: RequestBuilder, container: Container, legacy: Legacy
) -> tuple[DeviceShare | None, str]:
    """Read the part of each GPU, None for a whole one, and the row of the decision table."""
    memory: Bytes | Percent = _ALL
    if resource := container.resources.get(_NAMES.memory):
        memory = _read_memory(builder, resource, legacy)
    cores: Percent | None = _ALL
    if resource := container.resources.get(_NAMES.cores):
        builder.findings += vgpu.check_percentage(resource)
        cores = Percent(Decimal(min(resource.amount, 100)))
    if _NAMES.cores in container.zeros or builder.pod.annotations.get(_CLASS) == _ONLINE:
        cores = None
    if memory == cores == _ALL:
        return None, "whole"
    row = "cores" if memory == _ALL else "memory"
    return DeviceShare(memory, cores, Isolation.MEMORY), row


def _read_memory(
    builder: RequestBuilder, resource: DeviceResource, legacy: Legacy
) -> Bytes | Percent:
    """Read memory: bytes with a suffix, in whole MiB, and units without. 0 MiB is all memory."""
    if not any(letter.isalpha() for letter in resource.amount_text):
        unit = vgpu.configured_amount(vgpu.units(legacy), resource.name, _GI)
        return Bytes(resource.amount * unit)
    if resource.amount >= vgpu.MI:
        return Bytes(resource.amount // vgpu.MI * vgpu.MI)
    what = f"{resource.amount_text} is less than 1Mi, which HAMi takes as all memory"
    builder.findings.append(AMOUNT_SUSPICIOUS.at(resource.where, what))
    return _ALL


def _read_hints(builder: RequestBuilder) -> None:
    annotations = builder.pod.annotations
    for key, (allowed, why) in _HINTS.items():
        if key not in annotations:
            continue
        if allowed and annotations[key] not in allowed:
            builder.findings.append(vgpu.unknown_value(key, annotations[key], allowed))
        what = f"{annotations[key]} is not carried over, because {why}"
        builder.findings.append(HINT_LOST.at(annotation_path(key), what))
    builder.findings += hami_policies.report_lost(annotations)
    keys = (_NAMES.use_uuid, _NAMES.nouse_uuid, *_HINTS, hami_policies.WEIGHTS)
    builder.add_annotations((*keys, *hami_policies.POLICIES))
