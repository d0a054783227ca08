"""tensor-fusion's dialect: labels and annotations request shares of GPUs for the whole pod.

`nvidia.com/gpu` in such a pod is the number of its GPUs, not a request in another dialect. Only
GPUs of the pod's own node are supported, and no amounts in a workload profile outside of the pod.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.documents.values import as_mapping
from drawbridge.dra.decode_errors import describe_choice
from drawbridge.dra.quantity import Quantity, QuantityError, parse
from drawbridge.finding import Finding
from drawbridge.translate.legacy import annotation_json
from drawbridge.translate.legacy.asks import (
    Ask,
    Bytes,
    DeviceShare,
    DeviceUser,
    Isolation,
    Kind,
    Percent,
    PodRequests,
)
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    REQUEST_INCOMPLETE,
    REQUESTS_CONTRADICT,
    SCHEDULER_UNUSABLE,
    WORD_UNKNOWN,
)
from drawbridge.translate.legacy.dialects.tensor_fusion_settings import (
    AMOUNTS,
    COUNTS,
    PREFIX,
    PROFILES,
    VENDORS,
    TensorFusionSettings,
    report_changes,
    uses_tflops,
)
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView, format_value
from drawbridge.translate.legacy.selectors import (
    AskSelector,
    PartitionProfile,
    ProductContains,
    Uuid,
)

NAME: Final = "tensor-fusion"
PROJECT: Final = "tensor-fusion"
TRIGGERS: Final = frozenset({"tensor-fusion.ai"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = (PREFIX,)
ALLOCATED: Final = ()
_GPU: Final = "nvidia.com/gpu"
_SCHEDULER: Final = "tensor-fusion-scheduler"
# Keys that request a GPU without an amount.
_WITHOUT_AMOUNT: Final = ("dedicated-gpu", "partition-id")
_ISOLATIONS: Final = ("soft", "hard", "shared", "partitioned")
_QOS: Final = ("low", "medium", "high", "critical")


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of the pod."""
    builder = RequestBuilder(NAME, pod)
    both = {**pod.labels, **pod.annotations}
    values = {k.removeprefix(PREFIX): v for k, v in both.items() if k.startswith(PREFIX)}
    settings = TensorFusionSettings(pod, values)
    enabled = settings.is_true("enabled") or any(
        key in values for key in (*AMOUNTS, *_WITHOUT_AMOUNT, COUNTS)
    )
    if values.get("enabled") == "false" or not enabled:
        return builder.build()
    native = [c.resources[_GPU] for c in pod.containers if _GPU in c.resources]
    counts, count_problems = _read_container_counts(settings)
    problems = [*_check_supported(settings), *_check(settings, native), *count_problems]
    users, user_problems = _find_users(settings, native, counts)
    share, share_problems = _read_share(settings, native)
    builder.findings += [*problems, *user_problems, *share_problems]
    keys = [PREFIX + key for key in values]
    if problems or user_problems or share_problems:
        builder.keep_resources(native)
        builder.add_annotations(keys, removed=False)
        builder.add_labels(keys, removed=False)
        return builder.build()
    for group, count, sources in _group_users(settings, users, native, counts):
        ask = builder.add_ask(_make_ask(settings, group, share, count), sources)
        builder.findings += _check_gpu_ids(settings, ask)
    builder.findings += report_changes(settings)
    builder.add_annotations(keys)
    builder.add_labels(keys)
    return builder.build()


def _check_supported(settings: TensorFusionSettings) -> list[Finding]:
    findings = []
    if settings.pod.scheduler == _SCHEDULER:
        findings.append(
            SCHEDULER_UNUSABLE.at(
                "spec.schedulerName",
                f"{_SCHEDULER} allocates GPUs itself and does not support claims",
            )
        )
    profile = next((key for key in PROFILES if key in settings.values), "")
    if profile:
        findings.append(
            REQUEST_INCOMPLETE.at(
                settings.where(profile),
                "the amounts are in a workload profile, which is not part of the pod",
                remedy="Write the amounts in annotations of the pod.",
            )
        )
    elif not (settings.is_true("is-local-gpu") or settings.is_true("sidecar-worker")):
        findings.append(
            SCHEDULER_UNUSABLE.at(
                "metadata.annotations",
                f'{PREFIX}is-local-gpu is not "true", so the pod requests a remote GPU, which DRA '
                "does not support",
                remedy=f'Set `{PREFIX}is-local-gpu: "true"`, or run the pod with tensor-fusion.',
            )
        )
    return findings


def _check(settings: TensorFusionSettings, native: list[DeviceResource]) -> list[Finding]:
    values, findings = settings.values, []
    if "gpu-count" in values and not 1 <= _parse_count(values["gpu-count"]) <= 128:
        findings.append(settings.reject("gpu-count", "is not a number of GPUs from 1 to 128"))
    for key, allowed in (("isolation", _ISOLATIONS), ("qos", _QOS)):
        if values.get(key, allowed[0]) not in allowed:
            message = f"the value {describe_choice(values[key], allowed)}"
            findings.append(WORD_UNKNOWN.at(settings.where(key), message))
    if settings.is_true("dedicated-gpu") and "gpu-model" not in values:
        findings.append(
            REQUEST_INCOMPLETE.at(
                settings.where("dedicated-gpu"),
                f"{PREFIX}dedicated-gpu requires {PREFIX}gpu-model",
            )
        )
    if uses_tflops(settings) and "compute-percent-request" in values:
        findings.append(
            REQUESTS_CONTRADICT.at(
                settings.where("compute-percent-request"),
                f"{PREFIX}compute-percent-request excludes TFLOPS",
            )
        )
    return [*findings, *_check_amount(settings, native)]


def _check_amount(
    settings: TensorFusionSettings, native: list[DeviceResource]
) -> Iterator[Finding]:
    """Check that the pod requests an amount."""
    keys = (*AMOUNTS, COUNTS, "gpu-indices", "partition-id", *PROFILES)
    has_amount = any(key in settings.values for key in keys)
    if not has_amount and not native and not settings.is_whole:
        yield REQUEST_INCOMPLETE.at(
            "metadata.annotations", "the pod does not specify an amount of GPU memory or compute"
        )


def _parse_count(text: str) -> int:
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else 0


def _read_container_counts(
    settings: TensorFusionSettings,
) -> tuple[Mapping[str, int], list[Finding]]:
    """Read the number of GPUs of each container, by container name."""
    if COUNTS not in settings.values:
        return {}, []
    value, problem = annotation_json.parse_annotation(PREFIX + COUNTS, settings.values[COUNTS])
    if problem is not None:
        return {}, [problem]
    counts = {key: _parse_count(format_value(number)) for key, number in as_mapping(value).items()}
    names = {one.user.name for one in settings.pod.containers}
    invalid = [key for key, number in counts.items() if key not in names or not number]
    if invalid or not counts:
        why = "must map container names to numbers of GPUs"
        if invalid:
            why = f"{why}; the entry {format_value(invalid[0])!r} is invalid"
        return {}, [settings.reject(COUNTS, why)]
    return counts, []


def _group_users(
    settings: TensorFusionSettings,
    users: tuple[DeviceUser, ...],
    native: list[DeviceResource],
    counts: Mapping[str, int],
) -> list[tuple[tuple[DeviceUser, ...], int, list[DeviceResource]]]:
    """Group the containers that share GPUs: all of them, or each container by itself."""
    if indices := settings.listed("gpu-indices"):
        return [(users, len(indices), native)]
    if "gpu-count" in settings.values:
        return [(users, _parse_count(settings.values["gpu-count"]), native)]
    numbers = {one.container: one.amount for one in native}
    numbers |= {user.path: counts[user.name] for user in users if user.name in counts}
    if any(user.path not in numbers for user in users):
        return [(users, sum(numbers.values()) or 1, native)]
    return [
        ((user,), numbers[user.path], [one for one in native if one.container == user.path])
        for user in users
    ]


def _check_gpu_ids(settings: TensorFusionSettings, ask: Ask) -> list[Finding]:
    """Check that at least as many GPUs are listed as requested."""
    named = set(settings.listed("gpu-ids"))
    if not named or (ask.count or 0) <= len(named):
        return []
    return [
        settings.reject(
            "gpu-ids",
            f"lists {'1 GPU' if len(named) == 1 else f'{len(named)} GPUs'}, but the pod requests "
            f"{ask.count}",
        )
    ]


def _find_users(
    settings: TensorFusionSettings, native: list[DeviceResource], counts: Mapping[str, int]
) -> tuple[tuple[DeviceUser, ...], list[Finding]]:
    """Find the containers that get GPUs: named ones, those with a limit, or the only one."""
    users = [one.user for one in settings.pod.containers]
    named = settings.values.get("inject-container")
    if named is not None:
        wanted = [name.strip() for name in named.split(",")]
        unknown = [name for name in wanted if name not in {user.name for user in users}]
        where = settings.where("inject-container")
        return tuple(user for user in users if user.name in wanted), [
            WORD_UNKNOWN.at(where, f"the pod has no container {format_value(name)!r}")
            for name in unknown
        ]
    holders = {one.container for one in native}
    holders |= {user.path for user in users if user.name in counts}
    if holders:
        return tuple(user for user in users if user.path in holders), []
    apps = tuple(user for user in users if user.path[1] == "containers")
    if len(apps) == 1:
        return apps, []
    return (), [
        REQUEST_INCOMPLETE.at(
            "spec.containers",
            "the pod has several containers, but does not specify which of them gets the GPU",
            remedy=f"Set `{PREFIX}inject-container` to the name of the container.",
        )
    ]


def _read_amount(
    settings: TensorFusionSettings, kind: str
) -> tuple[Quantity | None, list[Finding]]:
    """Read the larger one of limit and request. A burstable amount is its limit."""
    read: list[Quantity] = []
    for key in (f"{kind}-limit", f"{kind}-request"):
        if key in settings.values:
            try:
                read.append(parse(settings.values[key].strip()))
            except QuantityError as error:
                return None, [AMOUNT_REFUSED.at(settings.where(key), f"{error}")]
            if read[-1].sign() <= 0:
                return None, [settings.reject(key, "must be greater than 0")]
    return max(read, default=None), []


def _read_share(
    settings: TensorFusionSettings, native: list[DeviceResource]
) -> tuple[DeviceShare | None, list[Finding]]:
    vram, vram_problems = _read_amount(settings, "vram")
    cores, core_problems = _read_amount(settings, "compute-percent")
    _, tflops_problems = _read_amount(settings, "tflops")
    findings = [*vram_problems, *core_problems, *tflops_problems]
    if cores is not None and cores > Quantity.of(100):
        key = "compute-percent-limit"
        key = key if key in settings.values else "compute-percent-request"
        findings.append(settings.reject(key, "exceeds 100 percent"))
    isolation = settings.values.get("isolation", "soft")
    tflops = uses_tflops(settings)
    counted = "gpu-count" in settings.values or bool(native)
    count_only = vram is None and cores is None and not tflops and counted
    if settings.is_whole or (count_only and isolation != "partitioned"):
        return None, findings
    percent = None
    if cores is not None and not tflops:
        percent = Percent(Decimal(cores.milli_value()) / 1000)
    return DeviceShare(
        memory=Bytes(vram.value()) if vram is not None else None,
        cores=percent,
        isolation=Isolation.MIG if isolation == "partitioned" else Isolation.MEMORY,
    ), findings


def _make_ask(
    settings: TensorFusionSettings,
    users: tuple[DeviceUser, ...],
    share: DeviceShare | None,
    count: int,
) -> Ask:
    values = settings.values
    selectors: list[AskSelector] = []
    if values.get("gpu-model"):
        # `A100_SXM_80G` is tensor-fusion's own spelling. Products use dashes and spaces.
        words = values["gpu-model"].lower().replace("_", " ").split()
        selectors += [ProductContains((word,)) for word in words]
    if ids := settings.listed("gpu-ids"):
        selectors.append(Uuid(ids))
    partition = share is not None and share.isolation is Isolation.MIG
    if partition and values.get("partition-id"):
        selectors.append(PartitionProfile((_profile_name(values["partition-id"].strip()),)))
    row = (
        "whole" if share is None else "mig" if partition else "memory" if share.memory else "cores"
    )
    return Ask(
        kind=Kind.GPU if settings.vendor in VENDORS else Kind.OTHER,
        row=row,
        vendor=settings.vendor,
        count=count,
        share=share,
        selectors=tuple(selectors),
        partition=partition,
        users=users,
    )


def _profile_name(name: str) -> str:
    # An alias is spelled `mig-4g-94gb` for `4g.94gb`.
    return name.removeprefix("mig-").replace("-", ".", 1) if name[:4] == "mig-" else name
