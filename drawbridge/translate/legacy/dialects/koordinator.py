"""Koordinator's dialect: devices of the whole pod, in percent and bytes.

Koordinator sums the requests of all containers and gives every container all devices. Each type of
device is therefore one ask, used by all containers that request it. `koordinator_hints` reads the
annotations.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from drawbridge.config.model import Legacy
from drawbridge.containers import most_at_once
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    Bytes,
    ContainerRole,
    DeviceShare,
    DeviceUser,
    Isolation,
    Kind,
    Percent,
    PodRequests,
)
from drawbridge.translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_REFUSED,
    MEANING_CHANGES,
    NAME_OLD,
    REQUEST_INCOMPLETE,
    REQUESTS_CONTRADICT,
    VENDOR_WITHOUT_DRIVER,
)
from drawbridge.translate.legacy.dialects import koordinator_hints as hints
from drawbridge.translate.legacy.draft import MAX_NICS, RequestBuilder
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView, annotation_path

NAME: Final = "koordinator"
PROJECT: Final = "Koordinator"
_OWN: Final = "koordinator.sh/"
_KUBERNETES: Final = "kubernetes.io/"
_GPU, _CORE, _MEMORY = "gpu", "gpu-core", "gpu-memory"
_RATIO, _SHARED = "gpu-memory-ratio", "gpu.shared"
_RDMA, _FPGA = "rdma", "fpga"
_NPU: Final = ("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")
_VENDORS: Final = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd", "dcu.com/gpu": "hygon"}
_GPU_NAMES: Final = (_GPU, _CORE, _MEMORY, _RATIO, _SHARED, *_VENDORS, *_NPU)
_NAMES: Final = (*_GPU_NAMES, _RDMA, _FPGA)
# The short names of Koordinator's own resources. Names of other vendors have no short form.
_SHORT: Final = {
    **{prefix + name: name for prefix in (_OWN, _KUBERNETES) for name in _NAMES},
    **{name: name for name in (*_VENDORS, *_NPU)},
}
ALLOCATED: Final = ("scheduling.koordinator.sh/device-allocated",)
_PROVIDER: Final = "koordinator.sh/gpu-isolation-provider"
_SCHEDULER: Final = "koord-scheduler"
_VENDOR_NAMES: Final = frozenset((*_VENDORS, *_NPU))
_OWN_NAMES: Final = frozenset(name for name, short in _SHORT.items() if short not in _VENDOR_NAMES)
# Beside them, or an annotation or the scheduler of Koordinator, the names of vendors are its own.
TRIGGERS: Final = frozenset(
    {"koordinator.sh", "kubernetes.io", *hints.KEYS, *ALLOCATED, _SCHEDULER}
)
READS: Final = frozenset({"spec.hostNetwork"})
STANDALONE_KEYS: Final = ()
_VALID_COMBINATIONS: Final = frozenset(
    frozenset(names)
    for names in (
        *((vendor,) for vendor in _VENDORS),
        (_GPU,), (_MEMORY,), (_RATIO,), (_CORE, _MEMORY), (_CORE, _RATIO),
        (_SHARED, _MEMORY), (_SHARED, _RATIO), (_SHARED, _CORE, _MEMORY),
        (_SHARED, _CORE, _RATIO), (_NPU[0], _RATIO),
        (_SHARED, _NPU[0], _NPU[1], _MEMORY), (_SHARED, *_NPU, _MEMORY),
    )
)  # fmt: skip


class _PodResource:
    """The amount of one resource that the whole pod requests, and its sources."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sources: list[DeviceResource] = []
        self.needs: list[tuple[bool, int]] = []  # of each container: whether it ends, how much

    @property
    def amount(self) -> int:
        return most_at_once(self.needs)

    def add(self, resource: DeviceResource, role: ContainerRole) -> None:
        self.sources.append(resource)
        self.needs.append((role is ContainerRole.INIT, resource.amount))

    def reject(self, why: str, remedy: str | None = None) -> Finding:
        first = self.sources[0]
        return AMOUNT_REFUSED.at(
            first.where, f"{first.original_name}: {self.amount} {why}", remedy=remedy
        )


_PodResources = dict[str, _PodResource]


def read(pod: PodView, legacy: Legacy) -> PodRequests:
    """Read the requests of the whole pod."""
    if not _uses_koordinator(pod):
        return NO_REQUESTS
    builder = RequestBuilder(NAME, pod)
    sums = _sum_resources(builder)
    if allocated := next((key for key in ALLOCATED if key in pod.annotations), None):
        builder.findings.append(
            ALREADY_PLACED.at(
                annotation_path(allocated),
                "Koordinator has already allocated the devices of the pod",
            )
        )
        builder.keep_resources(each for one in sums.values() for each in one.sources)
        return builder.build()
    pod_hints = hints.read_hints(builder, {name: one.amount for name, one in sums.items()})
    gpus = {name: sums[name] for name in _GPU_NAMES if name in sums}
    if gpus:
        _read_gpus(builder, gpus, pod_hints, legacy)
    if _RDMA in sums:
        _read_rdma(builder, sums[_RDMA], pod_hints, legacy)
    if _FPGA in sums:
        _read_fpga(builder, sums[_FPGA])
    if builder.asks:
        builder.add_annotations(hints.KEYS)
        builder.add_labels((_PROVIDER,), removed=False)
        builder.handle_scheduler(_SCHEDULER)
        builder.warn_other_containers(user for ask in builder.asks for user in ask.users)
    return builder.build()


def _uses_koordinator(pod: PodView) -> bool:
    names = {name for container in pod.containers for name in container.resources}
    if not _OWN_NAMES.isdisjoint(names):
        return True
    marks = (*hints.KEYS, *ALLOCATED)
    marked = pod.scheduler == _SCHEDULER or any(key in pod.annotations for key in marks)
    return marked and not _VENDOR_NAMES.isdisjoint(names)


def _sum_resources(builder: RequestBuilder) -> _PodResources:
    sums: _PodResources = {}
    for container in builder.pod.containers:
        for resource in container.resources.values():
            name = _SHORT.get(resource.name)
            if name:
                sums.setdefault(name, _PodResource(name)).add(resource, container.user.role)
                if resource.name.startswith(_KUBERNETES):
                    builder.findings.append(
                        NAME_OLD.at(
                            resource.where, f"{resource.original_name} is now named {_OWN}{name}"
                        )
                    )
    return sums


def _read_gpus(
    builder: RequestBuilder, sums: _PodResources, pod_hints: hints.AllocationHints, legacy: Legacy
) -> None:
    problems = _check(sums)
    if problems:
        builder.findings += problems
        builder.keep_resources(each for one in sums.values() for each in one.sources)
        return
    ask = _read_vendor_devices(builder, sums) or _read_shares(builder.pod, sums)
    ask = hints.apply_hints(builder, ask, "gpu", pod_hints, legacy)
    _add(builder, ask, sums.values())


def _add(builder: RequestBuilder, ask: Ask, sums: Iterable[_PodResource]) -> None:
    pairs = [(resource, one.amount) for one in sums for resource in one.sources]
    sources, totals = [each for each, _ in pairs], {one.original_name: n for one, n in pairs}
    builder.add_ask(ask, sources, _find_users(builder.pod, sources), totals)


def _find_users(pod: PodView, resources: Iterable[DeviceResource]) -> tuple[DeviceUser, ...]:
    paths = {one.container for one in resources}
    return tuple(one.user for one in pod.containers if one.user.path in paths)


def _check(sums: _PodResources) -> list[Finding]:
    """Check names and amounts in the order of Koordinator's webhook."""
    first = next(iter(sums.values())).sources[0]
    if _GPU in sums and _SHARED in sums:
        return [
            REQUESTS_CONTRADICT.at(
                first.where, f"{_OWN}{_GPU} and {_OWN}{_SHARED} exclude each other"
            )
        ]
    if _MEMORY in sums and _RATIO in sums:
        return [
            REQUESTS_CONTRADICT.at(
                first.where, f"{_OWN}{_MEMORY} and {_OWN}{_RATIO} exclude each other"
            )
        ]
    if frozenset(sums) not in _VALID_COMBINATIONS:
        written = ", ".join(sorted({one.original_name for s in sums.values() for one in s.sources}))
        missing = f"; add {_OWN}{_MEMORY} or {_OWN}{_RATIO}" if _lacks_memory(sums) else ""
        return [REQUEST_INCOMPLETE.at(first.where, f"{written}: not a valid GPU request{missing}")]
    shared = sums[_SHARED].amount if _SHARED in sums else 0
    if shared:
        return _check_shares(sums, shared)
    return [
        problem
        for name in (_GPU, _CORE, _RATIO)
        if name in sums
        for problem in _check_whole_devices(sums[name])
    ]


def _lacks_memory(sums: _PodResources) -> bool:
    own = set(sums) & {_CORE, _SHARED}
    return bool(own) and not set(sums) & {_MEMORY, _RATIO, *_VENDORS}


def _check_shares(sums: _PodResources, shared: int) -> list[Finding]:
    problems = []
    for name in (_CORE, _RATIO):
        if name not in sums:
            continue
        total = sums[name]
        if total.amount % shared:
            problems.append(
                total.reject(f"is not a multiple of {_OWN}{_SHARED}, which is {shared}")
            )
        elif total.amount > 100 * shared:
            problems.append(total.reject(f"exceeds 100 for each GPU ({_OWN}{_SHARED} is {shared})"))
    if _NPU[0] in sums and shared != 1:
        problems.append(sums[_SHARED].reject("is invalid; slices of an NPU require 1"))
    if _NPU[2] in sums and sums[_NPU[2]].amount > 100:
        problems.append(sums[_NPU[2]].reject("exceeds 100 percent"))
    return problems


def _check_whole_devices(total: _PodResource) -> list[Finding]:
    """Check that an amount above 100 is a number of whole devices."""
    if total.amount <= 100 or total.amount % 100 == 0:
        return []
    lower = total.amount // 100 * 100
    return [
        total.reject(
            "is above 100 but not a multiple of 100",
            f'Write "{lower}" or "{lower + 100}" in total.',
        )
    ]


def _read_vendor_devices(builder: RequestBuilder, sums: _PodResources) -> Ask | None:
    """Read whole devices of a vendor, and slices of NPUs."""
    if _NPU[0] in sums:
        _warn_no_driver(builder, sums[_NPU[0]])
        return Ask(kind=Kind.OTHER, row="npu", vendor="huawei")
    for name, vendor in _VENDORS.items():
        if name not in sums:
            continue
        kind = Kind.GPU if vendor in {"nvidia", "amd"} else Kind.OTHER
        if kind is Kind.OTHER:
            _warn_no_driver(builder, sums[name])
        first = sums[name].sources[0]
        builder.read_count(replace(first, amount=sums[name].amount))
        return Ask(kind=kind, row="vendor", vendor=vendor, count=sums[name].amount)
    return None


def _warn_no_driver(builder: RequestBuilder, total: _PodResource) -> None:
    first = total.sources[0]
    builder.findings.append(
        VENDOR_WITHOUT_DRIVER.at(first.where, f"no known DRA driver serves {first.original_name}")
    )


def _read_shares(pod: PodView, sums: _PodResources) -> Ask:
    """Read GPUs in percent or bytes. Counts and shares are divided as in Koordinator."""
    whole = sums[_GPU].amount if _GPU in sums else 0
    core = sums[_CORE].amount if _CORE in sums else whole
    ratio = sums[_RATIO].amount if _RATIO in sums else whole
    size = sums[_MEMORY].amount if _MEMORY in sums else 0
    if _SHARED in sums:
        count = sums[_SHARED].amount
    else:
        count = max(1, (ratio if ratio > 100 else core) // 100)
    if not size and ratio // count >= 100:
        return Ask(kind=Kind.GPU, row="whole", count=count)
    hami = pod.labels.get(_PROVIDER, "").lower() == "hami-core"
    return Ask(
        kind=Kind.GPU,
        row="memory" if size else "percent",
        count=count,
        share=DeviceShare(
            memory=Bytes(size // count) if size else Percent(Decimal(ratio // count)),
            cores=Percent(Decimal(core // count)) if core else None,
            isolation=Isolation.MEMORY if hami else Isolation.NONE,
        ),
    )


def _read_rdma(
    builder: RequestBuilder, rdma: _PodResource, pod_hints: hints.AllocationHints, legacy: Legacy
) -> None:
    """Read a request for network devices by the strategy of the hint for them.

    A multiple of 100 above it has one meaning in every strategy: whole devices.
    """
    hint = pod_hints.types.get(_RDMA, hints.NO_HINT)
    is_whole = rdma.amount > 100 and rdma.amount % 100 == 0
    strategy = "" if is_whole else hint.strategy
    if (is_whole and hint.strategy) or (rdma.amount == 1 and strategy == "RequestsAsCount"):
        why = f"allocateStrategy {hint.strategy} has no effect on an amount of {rdma.amount}"
        hints.add_no_effect(builder, hints.HINT, why)
    if strategy == "ApplyForAll":
        _read_all_rdma(builder, rdma, pod_hints, legacy, virtual=hint.uses_vfs)
        return
    if strategy == "RequestsAsCount":
        builder.read_count(replace(rdma.sources[0], amount=rdma.amount), MAX_NICS)
        ask = _count_nics(rdma.amount, hint)
    elif problems := _check_whole_devices(rdma):
        builder.findings += problems
        builder.keep_resources(rdma.sources)
        return
    else:
        ask = _divide_nics(rdma.amount, hint)
    _add(builder, hints.apply_hints(builder, ask, _RDMA, pod_hints, legacy), (rdma,))


def _count_nics(amount: int, hint: hints.DeviceHint) -> Ask:
    """Return an ask for as many devices as the amount, shared with other pods by default."""
    if hint.uses_vfs or hint.exclusive:
        row = "rdma-vf" if hint.uses_vfs else "rdma"
        return Ask(kind=Kind.NIC, row=row, count=amount)
    share = DeviceShare(per_mille=10)
    return Ask(kind=Kind.NIC, row="rdma-share", count=amount, share=share)


def _divide_nics(amount: int, hint: hints.DeviceHint) -> Ask:
    """Return an ask for one device for each 100, or for a share of one device."""
    if amount < 100 and not hint.uses_vfs:
        share = DeviceShare(per_mille=amount * 10)
        return Ask(kind=Kind.NIC, row="rdma-share", share=share)
    row = "rdma-vf" if hint.uses_vfs else "rdma"
    return Ask(kind=Kind.NIC, row=row, count=max(1, amount // 100))


def _read_all_rdma(
    builder: RequestBuilder,
    rdma: _PodResource,
    pod_hints: hints.AllocationHints,
    legacy: Legacy,
    *,
    virtual: bool,
) -> None:
    """Read a request for all network devices. The amount applies to each, and 100 is exclusive.

    Pods in the host network request shares of all devices, and can use them without a claim.
    """
    if rdma.amount > 100:
        why = "exceeds 100, the amount of each device with allocateStrategy ApplyForAll"
        builder.findings.append(rdma.reject(why, 'Write "100" to get all devices exclusively.'))
        builder.keep_resources(rdma.sources)
        return
    gpus = tuple(ask.name for ask in builder.asks)
    if builder.pod.spec.get("hostNetwork") is True and gpus and not virtual and rdma.amount < 100:
        _drop_host_network_request(builder, rdma, gpus)
        return
    row = "rdma-all-vf" if virtual else "rdma-all" if rdma.amount == 100 else "rdma-all-share"
    ask = Ask(kind=Kind.NIC, row=row, count=None)
    _add(builder, hints.apply_hints(builder, ask, _RDMA, pod_hints, legacy), (rdma,))


def _drop_host_network_request(
    builder: RequestBuilder, rdma: _PodResource, gpus: tuple[str, ...]
) -> None:
    """Drop a request of a pod in the host network together with its request for GPUs."""
    for resource in rdma.sources:
        builder.source_fields += resource.source_fields(asks=gpus)
        builder.findings.append(
            MEANING_CHANGES.at(
                resource.where,
                f"dropped {resource.original_name}, because a pod in the host network uses the "
                "network devices of the node without a claim",
                remedy="Mount /dev/infiniband of the node into the container.",
            )
        )


def _read_fpga(builder: RequestBuilder, fpga: _PodResource) -> None:
    problems = _check_whole_devices(fpga)
    builder.findings += problems
    if problems:
        builder.keep_resources(fpga.sources)
        return
    _warn_no_driver(builder, fpga)
    share = DeviceShare(per_mille=fpga.amount * 10) if fpga.amount < 100 else None
    ask = Ask(kind=Kind.OTHER, row="fpga", count=max(1, fpga.amount // 100), share=share)
    _add(builder, ask, (fpga,))
