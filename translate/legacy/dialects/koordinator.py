"""Koordinator's dialect: the devices of a whole pod, in percent and bytes.

What containers ask is summed first, and every container then gets all devices: so each type of
device is one ask, of all containers that named any. Annotations about them are read beside this.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from config.model import Legacy
from dra.finding import Finding
from translate.legacy.asks import (
    NOTHING,
    Ask,
    Bytes,
    Isolation,
    Kind,
    Percent,
    Reading,
    Role,
    Share,
    User,
)
from translate.legacy.codes import (
    ALREADY_PLACED,
    AMOUNT_REFUSED,
    MEANING_CHANGES,
    NAME_MISSPELT,
    NAME_OLD,
    REQUEST_INCOMPLETE,
    REQUESTS_CONTRADICT,
    VENDOR_WITHOUT_DRIVER,
)
from translate.legacy.dialects import koordinator_hints as hints
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, Resource, annotation_path

NAME: Final = "koordinator"
_OWN: Final = "koordinator.sh/"
_FIRST: Final = "kubernetes.io/"
_GPU, _CORE, _MEMORY = "gpu", "gpu-core", "gpu-memory"
_RATIO, _SHARED = "gpu-memory-ratio", "gpu.shared"
_RDMA, _FPGA = "rdma", "fpga"
_NPU: Final = ("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")
_VENDORS: Final = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd", "dcu.com/gpu": "hygon"}
_GPU_NAMES: Final = (_GPU, _CORE, _MEMORY, _RATIO, _SHARED, *_VENDORS, *_NPU)
_NAMES: Final = (*_GPU_NAMES, _RDMA, _FPGA)
# The short names of its own resources; other vendors' stay as they are.
_SHORT: Final = {
    **{prefix + name: name for prefix in (_OWN, _FIRST) for name in _NAMES},
    **{name: name for name in (*_VENDORS, *_NPU)},
}
_PLACED: Final = "scheduling.koordinator.sh/device-allocated"
_PROVIDER: Final = "koordinator.sh/gpu-isolation-provider"
_SCHEDULER: Final = "koord-scheduler"
_MISSPELT: Final = "koordinator.sh/gpu-shared"
_OWN_NAMES: Final = frozenset(
    {_MISSPELT, *(name for name, short in _SHORT.items() if short not in _VENDORS)}
)
# With one of the last three the vendors' names are its as well.
CALLED_BY: Final = frozenset(
    {"koordinator.sh", "kubernetes.io", "huawei.com", *hints.KEYS, _PLACED, _SCHEDULER}
)
_VALID: Final = frozenset(
    frozenset(names)
    for names in (
        *((vendor,) for vendor in _VENDORS),
        (_GPU,), (_MEMORY,), (_RATIO,), (_CORE, _MEMORY), (_CORE, _RATIO),
        (_SHARED, _MEMORY), (_SHARED, _RATIO), (_SHARED, _CORE, _MEMORY),
        (_SHARED, _CORE, _RATIO), (_NPU[0], _RATIO),
        (_SHARED, _NPU[0], _NPU[1], _MEMORY), (_SHARED, *_NPU, _MEMORY),
    )
)  # fmt: skip


class _Sum:
    """What the pod asks of one resource, and where."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[Resource] = []
        self.apps = self.sidecars = self.inits = self.amount = 0

    def add(self, one: Resource, role: Role) -> None:
        self.found.append(one)
        if role is Role.INIT:
            self.inits = max(self.inits, one.amount)
        elif role is Role.SIDECAR:
            self.sidecars += one.amount
        else:
            self.apps += one.amount
        self.amount = max(self.inits, self.apps) + self.sidecars

    def refused(self, why: str, remedy: str | None = None) -> Finding:
        first = self.found[0]
        return AMOUNT_REFUSED.at(
            first.where, f"{first.written}: {self.amount} {why}", remedy=remedy
        )


_Sums = dict[str, _Sum]


def read(pod: PodView, legacy: Legacy) -> Reading:
    """Read what the pod asks for altogether."""
    if not _speaks(pod):
        return NOTHING
    draft = Draft(NAME, pod)
    sums = _summed(draft)
    if _PLACED in pod.annotations:
        draft.findings.append(
            ALREADY_PLACED.at(annotation_path(_PLACED), "Koordinator has chosen the pod's devices")
        )
        _leave(draft, sums.values())
        return draft.reading()
    said = hints.read(draft, {name: one.amount for name, one in sums.items()})
    gpus = {name: sums[name] for name in _GPU_NAMES if name in sums}
    if gpus:
        _gpus(draft, gpus, said, legacy)
    if _RDMA in sums:
        _rdma(draft, sums[_RDMA], said, legacy)
    if _FPGA in sums:
        _fpga(draft, sums[_FPGA])
    if draft.asks:
        draft.annotations(hints.KEYS)
        draft.labels((_PROVIDER,), removed=False)
        draft.scheduler(_SCHEDULER)
        draft.others(user for ask in draft.asks for user in ask.users)
    return draft.reading()


def _speaks(pod: PodView) -> bool:
    names = {name for container in pod.containers for name in container.resources}
    if not _OWN_NAMES.isdisjoint(names):
        return True
    marks = (*hints.KEYS, _PLACED)
    marked = pod.scheduler == _SCHEDULER or any(key in pod.annotations for key in marks)
    return marked and bool(names & set(_VENDORS))


def _summed(draft: Draft) -> _Sums:
    sums: _Sums = {}
    for container in draft.pod.containers:
        for one in container.resources.values():
            name = _SHORT.get(one.name)
            if name:
                sums.setdefault(name, _Sum(name)).add(one, container.user.role)
                if one.name.startswith(_FIRST):
                    draft.findings.append(
                        NAME_OLD.at(one.where, f"{one.written} is read as {_OWN}{name}")
                    )
            elif one.name == _MISSPELT:
                draft.traces += one.traces(removed=False)
                draft.findings.append(
                    NAME_MISSPELT.at(one.where, f"{one.written}: it is called {_OWN}{_SHARED}")
                )
    return sums


def _leave(draft: Draft, sums: Iterable[_Sum]) -> None:
    draft.traces += [t for one in sums for r in one.found for t in r.traces(removed=False)]


def _gpus(draft: Draft, sums: _Sums, said: hints.Hints, legacy: Legacy) -> None:
    problems = _refusals(sums)
    if problems:
        draft.findings += problems
        _leave(draft, sums.values())
        return
    ask = _vendors(draft, sums) or _parts(draft.pod, sums)
    ask = hints.applied(draft, ask, "gpu", said, legacy)
    _add(draft, ask, sums.values())


def _add(draft: Draft, ask: Ask, sums: Iterable[_Sum]) -> None:
    found = [resource for one in sums for resource in one.found]
    draft.ask(ask, found, _users(draft.pod, found))


def _users(pod: PodView, found: Iterable[Resource]) -> tuple[User, ...]:
    holders = {one.holder for one in found}
    return tuple(one.user for one in pod.containers if one.user.path in holders)


def _refusals(sums: _Sums) -> list[Finding]:
    """Check names and amounts; in the project's own order, in words of ours."""
    first = next(iter(sums.values())).found[0]
    if _GPU in sums and _SHARED in sums:
        return [REQUESTS_CONTRADICT.at(first.where, "a GPU and a GPU share exclude each other")]
    if _MEMORY in sums and _RATIO in sums:
        return [
            REQUESTS_CONTRADICT.at(
                first.where, "GPU memory in bytes and as a ratio exclude each other"
            )
        ]
    if frozenset(sums) not in _VALID:
        written = ", ".join(sorted({one.written for s in sums.values() for one in s.found}))
        more = ": memory, in bytes or as a ratio, is missing" if _memoryless(sums) else ""
        return [
            REQUEST_INCOMPLETE.at(first.where, f"{written} do not make a request together{more}")
        ]
    shared = sums[_SHARED].amount if _SHARED in sums else 0
    if shared:
        return _shares(sums, shared)
    return [
        problem
        for name in (_GPU, _CORE, _RATIO)
        if name in sums
        for problem in hundreds(sums[name])
    ]


def _memoryless(sums: _Sums) -> bool:
    own = set(sums) & {_CORE, _SHARED}
    return bool(own) and not set(sums) & {_MEMORY, _RATIO, *_VENDORS}


def _shares(sums: _Sums, shared: int) -> list[Finding]:
    problems = []
    for name in (_CORE, _RATIO):
        if name not in sums:
            continue
        one = sums[name]
        if one.amount % shared:
            problems.append(one.refused(f"is no multiple of {_OWN}{_SHARED}, which is {shared}"))
        elif one.amount > 100 * shared:
            problems.append(one.refused(f"is more than 100 for each of {shared} GPUs"))
    if _NPU[0] in sums and shared != 1:
        problems.append(sums[_SHARED].refused("is not 1, as slices of an NPU need"))
    if _NPU[2] in sums and sums[_NPU[2]].amount > 100:
        problems.append(sums[_NPU[2]].refused("is more than 100 percent"))
    return problems


def hundreds(one: _Sum) -> list[Finding]:
    """Check that more than one device is a number of whole ones."""
    if one.amount <= 100 or one.amount % 100 == 0:
        return []
    near = one.amount // 100 * 100
    return [
        one.refused(
            "is above 100 and no multiple of 100", f'Write "{near}" or "{near + 100}" in all.'
        )
    ]


def _vendors(draft: Draft, sums: _Sums) -> Ask | None:
    """Read whole devices by a vendor's name, and slices of NPUs."""
    if _NPU[0] in sums:
        _driverless(draft, sums[_NPU[0]])
        return Ask(kind=Kind.OTHER, row="npu", vendor="huawei")
    for name, vendor in _VENDORS.items():
        if name not in sums:
            continue
        kind = Kind.GPU if vendor in {"nvidia", "amd"} else Kind.OTHER
        if kind is Kind.OTHER:
            _driverless(draft, sums[name])
        first = sums[name].found[0]
        draft.count(replace_amount(first, sums[name].amount))
        return Ask(kind=kind, row="vendor", vendor=vendor, count=sums[name].amount)
    return None


def replace_amount(one: Resource, amount: int) -> Resource:
    """Return the resource with the amount of the whole pod."""
    return Resource(one.name, one.written, amount, one.text, one.holder, one.places)


def _driverless(draft: Draft, one: _Sum) -> None:
    first = one.found[0]
    draft.findings.append(
        VENDOR_WITHOUT_DRIVER.at(first.where, f"no DRA driver for {first.written} is known")
    )


def _parts(pod: PodView, sums: _Sums) -> Ask:
    """Read GPUs in percent or bytes; counts and parts as Koordinator divides them."""
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
        share=Share(
            memory=Bytes(size // count) if size else Percent(Decimal(ratio // count)),
            cores=Percent(Decimal(core // count)) if core else None,
            isolation=Isolation.MEMORY if hami else Isolation.NONE,
        ),
    )


def _rdma(draft: Draft, one: _Sum, said: hints.Hints, legacy: Legacy) -> None:
    hint = said.types.get(_RDMA)
    strategy = hint.strategy if hint else ""
    problems = hundreds(one) if not strategy else []
    if problems:
        draft.findings += problems
        _leave(draft, (one,))
        return
    virtual = hint is not None and hint.virtual
    if strategy == "ApplyForAll":
        _every(draft, one, said, legacy, virtual=virtual)
        return
    count: int | None = max(1, one.amount // 100)
    share = Share(per_mille=one.amount * 10) if one.amount < 100 and not virtual else None
    row = "rdma-share" if share else "rdma"
    if strategy == "RequestsAsCount":
        exclusive = virtual or (hint is not None and hint.exclusive)
        draft.count(replace_amount(one.found[0], one.amount))
        count, row = one.amount, "rdma" if exclusive else "rdma-share"
        share = None if exclusive else Share(per_mille=10)
    if virtual:
        row = "rdma-vf"
    ask = Ask(kind=Kind.NIC, row=row, count=count, share=share)
    _add(draft, hints.applied(draft, ask, _RDMA, said, legacy), (one,))


def _every(draft: Draft, one: _Sum, said: hints.Hints, legacy: Legacy, *, virtual: bool) -> None:
    """Ask for every network device; the amount is that of each, and 100 is all of it.

    Shares of all of them are what pods ask that use the host's network, and so have them anyway.
    """
    if one.amount > 100:
        why = "is asked of every device, and a device has 100"
        draft.findings.append(one.refused(why, 'Write "100" to have every device to itself.'))
        _leave(draft, (one,))
        return
    gpus = tuple(ask.name for ask in draft.asks)
    if draft.pod.spec.get("hostNetwork") is True and gpus and not virtual and one.amount < 100:
        _of_host(draft, one, gpus)
        return
    row = "rdma-all-vf" if virtual else "rdma-all" if one.amount == 100 else "rdma-all-share"
    ask = Ask(kind=Kind.NIC, row=row, count=None)
    _add(draft, hints.applied(draft, ask, _RDMA, said, legacy), (one,))


def _of_host(draft: Draft, one: _Sum, gpus: tuple[str, ...]) -> None:
    """Drop what a pod of the host's network has without a claim, together with its GPUs."""
    for resource in one.found:
        draft.traces += resource.traces(asks=gpus)
        draft.findings.append(
            MEANING_CHANGES.at(
                resource.where,
                f"{resource.written}: the pod is in the network of its host, whose devices need no "
                "claim; the request for a share of each is dropped",
                remedy="See that /dev/infiniband of the host reaches the container.",
            )
        )


def _fpga(draft: Draft, one: _Sum) -> None:
    problems = hundreds(one)
    draft.findings += problems
    if problems:
        _leave(draft, (one,))
        return
    _driverless(draft, one)
    share = Share(per_mille=one.amount * 10) if one.amount < 100 else None
    ask = Ask(kind=Kind.OTHER, row="fpga", count=max(1, one.amount // 100), share=share)
    _add(draft, ask, (one,))
