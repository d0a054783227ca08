"""tensor-fusion's labels and annotations: parts of GPUs for a whole pod.

`nvidia.com/gpu` beside them is their number of GPUs, not a second dialect. Only GPUs of the pod's
own node can be said; amounts that stand in a profile elsewhere cannot be read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from config.model import Legacy
from dra.finding import Finding
from dra.quantity import Quantity, QuantityError, parse
from translate.legacy import annotation_json
from translate.legacy.asks import Ask, Bytes, Isolation, Kind, Percent, Reading, Share, User
from translate.legacy.codes import (
    AMOUNT_REFUSED,
    HINT_EMPTY,
    HINT_LOST,
    LABEL_LOOSE,
    MEANING_CHANGES,
    REQUEST_INCOMPLETE,
    SCHEDULER_UNUSABLE,
    VENDOR_WITHOUT_DRIVER,
    WORD_UNKNOWN,
)
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, Resource, annotation_path, label_path, mapping, text
from translate.legacy.selectors import ProductContains, Profile, Selector, Uuid

NAME: Final = "tensor-fusion"
CALLED_BY: Final = frozenset({"tensor-fusion.ai"})
_PREFIX: Final = "tensor-fusion.ai/"
_GPU: Final = "nvidia.com/gpu"
_SCHEDULER: Final = "tensor-fusion-scheduler"
_AMOUNTS: Final = (
    "gpu-count", "tflops-request", "tflops-limit", "vram-request", "vram-limit",
    "compute-percent-request", "compute-percent-limit",
)  # fmt: skip
# What asks for a GPU without an amount of it, and how many each container gets.
_NAMED: Final = ("dedicated-gpu", "partition-id")
_COUNTS: Final = "container-gpu-count"
_PROFILES: Final = ("workload-profile", "client-profile")
_READ: Final = (
    *_AMOUNTS, _COUNTS, "enabled", "inject-container", "is-local-gpu", "isolation", "partition-id",
    "gpu-model", "gpu-ids", "vendor", "dedicated-gpu",
)  # fmt: skip
_EMPTY: Final = ("gpupool",)
_ISOLATIONS: Final = ("soft", "hard", "shared", "partitioned")
_QOS: Final = ("low", "medium", "high", "critical")
_VENDORS: Final = ("nvidia", "amd", "intel")


@dataclass(frozen=True, slots=True)
class _Said:
    """What the pod says under the prefix; an annotation counts before a label."""

    pod: PodView
    values: Mapping[str, str]

    def where(self, key: str) -> str:
        full = _PREFIX + key
        return annotation_path(full) if full in self.pod.annotations else label_path(full)

    def refused(self, key: str, why: str) -> Finding:
        return AMOUNT_REFUSED.at(self.where(key), f"{text(self.values[key])!r} is {why}")

    def flag(self, key: str) -> bool:
        return self.values.get(key) == "true"


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what the pod asks for."""
    draft = Draft(NAME, pod)
    both = {**pod.labels, **pod.annotations}
    values = {k.removeprefix(_PREFIX): v for k, v in both.items() if k.startswith(_PREFIX)}
    said = _Said(pod, values)
    speaks = said.flag("enabled") or any(key in values for key in (*_AMOUNTS, *_NAMED, _COUNTS))
    if values.get("enabled") == "false" or not speaks:
        return draft.reading()
    native = [c.resources[_GPU] for c in pod.containers if _GPU in c.resources]
    counts, uncounted = _counts(said)
    problems = [*_unsayable(said), *_wrong(said, native), *uncounted]
    users, unknown = _users(said, native, counts)
    amounts, amiss = _share(said, native)
    draft.findings += [*problems, *unknown, *amiss]
    keys = [_PREFIX + key for key in values]
    if problems or unknown or amiss:
        draft.traces += [trace for one in native for trace in one.traces(removed=False)]
        draft.annotations(keys, removed=False)
        draft.labels(keys, removed=False)
        return draft.reading()
    for who, count, of in _shares(said, users, native, counts):
        draft.findings += _too_few(said, draft.ask(_ask(said, who, amounts, count), of))
    draft.findings += _remarks(said)
    draft.annotations(keys)
    draft.labels(keys)
    return draft.reading()


def _unsayable(said: _Said) -> list[Finding]:
    found = []
    if said.pod.scheduler == _SCHEDULER:
        found.append(
            SCHEDULER_UNUSABLE.at(
                "spec.schedulerName", f"{_SCHEDULER} chooses GPUs by itself and knows no claims"
            )
        )
    profile = next((key for key in _PROFILES if key in said.values), "")
    if profile:
        found.append(
            REQUEST_INCOMPLETE.at(
                said.where(profile),
                "the amounts stand in a profile outside of the pod",
                remedy="Write the amounts into the pod's annotations.",
            )
        )
    elif not said.flag("is-local-gpu"):
        found.append(
            SCHEDULER_UNUSABLE.at(
                "metadata.annotations",
                f"without {_PREFIX}is-local-gpu the GPU is a remote one",
                remedy=f'Say {_PREFIX}is-local-gpu: "true", or leave the pod to tensor-fusion.',
            )
        )
    return found


def _whole(said: _Said) -> bool:
    return said.values.get("isolation") == "shared" or said.flag("dedicated-gpu")


def _wrong(said: _Said, native: list[Resource]) -> list[Finding]:
    values, found = said.values, []
    if "gpu-count" in values and not 1 <= _number(values["gpu-count"]) <= 128:
        found.append(said.refused("gpu-count", "not a number of GPUs from 1 to 128"))
    for key, allowed in (("isolation", _ISOLATIONS), ("qos", _QOS)):
        if values.get(key, allowed[0]) not in allowed:
            found.append(
                WORD_UNKNOWN.at(
                    said.where(key), f"{text(values[key])} is none of {', '.join(allowed)}"
                )
            )
    if said.flag("dedicated-gpu") and "gpu-model" not in values:
        found.append(REQUEST_INCOMPLETE.at(said.where("dedicated-gpu"), "gpu-model is missing"))
    something = any(key in values for key in (*_AMOUNTS, _COUNTS, "partition-id", *_PROFILES))
    if not something and not native and not _whole(said):
        found.append(
            REQUEST_INCOMPLETE.at("metadata.annotations", "it is not said how much is asked for")
        )
    return found


def _number(said: str) -> int:
    return int(said) if said.isascii() and said.isdigit() and len(said) < 6 else 0


def _counts(said: _Said) -> tuple[Mapping[str, int], list[Finding]]:
    """Read how many GPUs each container gets, by its name."""
    if _COUNTS not in said.values:
        return {}, []
    value, problem = annotation_json.read(_PREFIX + _COUNTS, said.values[_COUNTS])
    if problem is not None:
        return {}, [problem]
    counts = {key: _number(text(number)) for key, number in mapping(value).items()}
    names = {one.user.name for one in said.pod.containers}
    lost = [key for key, number in counts.items() if key not in names or not number]
    if lost or not counts:
        why = f"no container with a number of GPUs: {text(lost[0])}" if lost else "no such map"
        return {}, [said.refused(_COUNTS, why)]
    return counts, []


def _shares(
    said: _Said, users: tuple[User, ...], native: list[Resource], counts: Mapping[str, int]
) -> list[tuple[tuple[User, ...], int, list[Resource]]]:
    """Say who gets how many GPUs: all the same ones, or each container its own number."""
    if "gpu-count" in said.values:
        return [(users, _number(said.values["gpu-count"]), native)]
    numbers = {one.holder: one.amount for one in native}
    numbers |= {user.path: counts[user.name] for user in users if user.name in counts}
    if any(user.path not in numbers for user in users):
        return [(users, sum(numbers.values()) or 1, native)]
    return [
        ((user,), numbers[user.path], [one for one in native if one.holder == user.path])
        for user in users
    ]


def _too_few(said: _Said, ask: Ask) -> list[Finding]:
    """Say where more GPUs are asked for than are named."""
    named = {one.strip() for one in said.values.get("gpu-ids", "").split(",")} - {""}
    if not named or (ask.count or 0) <= len(named):
        return []
    return [said.refused("gpu-ids", f"{len(named)} GPUs, and {ask.count} are asked for")]


def _users(
    said: _Said, native: list[Resource], counts: Mapping[str, int]
) -> tuple[tuple[User, ...], list[Finding]]:
    """Find who gets the GPUs: whom the pod names, who asks by a limit, or the only container."""
    users = [one.user for one in said.pod.containers]
    named = said.values.get("inject-container")
    if named is not None:
        wanted = [name.strip() for name in named.split(",")]
        lost = [name for name in wanted if name not in {user.name for user in users}]
        where = said.where("inject-container")
        return tuple(user for user in users if user.name in wanted), [
            WORD_UNKNOWN.at(where, f"no container is called {text(name)!r}") for name in lost
        ]
    holders = {one.holder for one in native}
    holders |= {user.path for user in users if user.name in counts}
    if holders:
        return tuple(user for user in users if user.path in holders), []
    apps = tuple(user for user in users if user.path[1] == "containers")
    if len(apps) == 1:
        return apps, []
    return (), [
        REQUEST_INCOMPLETE.at(
            "spec.containers", f"{_PREFIX}inject-container has to say which of them gets the GPU"
        )
    ]


def _amount(said: _Said, kind: str) -> tuple[Quantity | None, list[Finding]]:
    """Read the limit, or the request where there is none; what may burst gets its limit."""
    read: list[Quantity] = []
    for key in (f"{kind}-limit", f"{kind}-request"):
        if key in said.values:
            try:
                read.append(parse(said.values[key].strip()))
            except QuantityError as error:
                return None, [said.refused(key, f"no quantity: {error}")]
            if read[-1].sign() <= 0:
                return None, [said.refused(key, "nothing")]
    return (read[0] if read else None), []


def _flops(said: _Said) -> bool:
    return any(key.startswith("tflops-") for key in said.values)


def _share(said: _Said, native: list[Resource]) -> tuple[Share | None, list[Finding]]:
    vram, wrong = _amount(said, "vram")
    cores, also = _amount(said, "compute-percent")
    _, too = _amount(said, "tflops")
    findings = [*wrong, *also, *too]
    if cores is not None and cores > Quantity.of(100):
        key = "compute-percent-limit"
        key = key if key in said.values else "compute-percent-request"
        findings.append(said.refused(key, "more than 100 percent"))
    isolation = said.values.get("isolation", "soft")
    flops = _flops(said)
    counted = "gpu-count" in said.values or bool(native)
    bare = vram is None and cores is None and not flops and counted
    if _whole(said) or (bare and isolation != "partitioned"):
        return None, findings
    percent = None
    if cores is not None and not flops:
        percent = Percent(Decimal(cores.milli_value()) / 1000)
    return Share(
        memory=Bytes(vram.value()) if vram is not None else None,
        cores=percent,
        isolation=Isolation.MIG if isolation == "partitioned" else Isolation.MEMORY,
    ), findings


def _ask(said: _Said, users: tuple[User, ...], share: Share | None, count: int) -> Ask:
    values = said.values
    selectors: list[Selector] = []
    if values.get("gpu-model"):
        # `A100_SXM_80G` is a name of its own; products are written with dashes and blanks.
        words = values["gpu-model"].lower().replace("_", " ").split()
        selectors += [ProductContains((word,)) for word in words]
    ids = tuple(one.strip() for one in values.get("gpu-ids", "").split(",") if one.strip())
    if ids:
        selectors.append(Uuid(ids))
    partition = share is not None and share.isolation is Isolation.MIG
    if partition and values.get("partition-id"):
        name = values["partition-id"].strip()
        # An alias writes `mig-4g-94gb` for `4g.94gb`.
        alias = name.removeprefix("mig-").replace("-", ".", 1) if name[:4] == "mig-" else name
        selectors.append(Profile((alias,)))
    vendor = values.get("vendor", "nvidia").strip().lower()
    row = (
        "whole" if share is None else "mig" if partition else "memory" if share.memory else "cores"
    )
    return Ask(
        kind=Kind.GPU if vendor in _VENDORS else Kind.OTHER,
        row=row,
        vendor=vendor,
        count=count,
        share=share,
        selectors=tuple(selectors),
        partition=partition,
        users=users,
    )


def _remarks(said: _Said) -> list[Finding]:
    """Say what of it is not carried over."""
    found = []
    # What is not carried over at all is told of elsewhere.
    for kind in ("vram",) if _flops(said) else ("vram", "compute-percent"):
        limit, request = said.values.get(f"{kind}-limit"), said.values.get(f"{kind}-request")
        if limit and request and parse(request.strip()) < parse(limit.strip()):
            found.append(
                MEANING_CHANGES.at(
                    said.where(f"{kind}-limit"), f"{kind} of the limit is held all the time"
                )
            )
    if {key.rpartition("-")[0] for key in said.values} >= {"compute-percent", "tflops"}:
        found.append(
            HINT_EMPTY.at(
                "metadata.annotations", "tflops win over compute-percent, which is unused"
            )
        )
    if model := text(said.values.get("gpu-model", "")):
        found.append(
            LABEL_LOOSE.at(said.where("gpu-model"), f"{model} is looked for in names of products")
        )
    vendor = said.values.get("vendor", "nvidia").strip().lower()
    if vendor not in _VENDORS:
        found.append(
            VENDOR_WITHOUT_DRIVER.at(
                said.where("vendor"), f"no DRA driver of {text(vendor)} is known"
            )
        )
    return [*found, *_uncarried(said)]


def _uncarried(said: _Said) -> list[Finding]:
    found = []
    for key in said.values:
        if key in _EMPTY:
            why = f"{key}: pools of GPUs have no counterpart"
            found.append(HINT_EMPTY.at(said.where(key), why))
        elif key not in _READ or key.startswith("tflops-"):
            found.append(HINT_LOST.at(said.where(key), f"{key} has no counterpart"))
    return found
