"""Recognizes device resources that no known DRA driver serves.

They stay in the pod until a target for them is configured. The resources of one vendor that
describe the same device in one container form one ask.
"""

import re
from collections.abc import Sequence
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.dra.families import OTHER_DRIVERS, SERVED_VENDORS
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import Ask, Kind, PodRequests
from drawbridge.translate.legacy.codes import VENDOR_WITHOUT_DRIVER
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import Container, DeviceResource, PodView

NAME: Final = "vendors"
PROJECT: Final = ""
TRIGGERS: Final = frozenset(
    {
        "4paradigm.com", "amd.com", "aws.amazon.com", "birentech.com", "cambricon.com", "dcu.com",
        "dlb.intel.com", "dsa", "dsa.intel.com", "enflame.com", "fpga", "fpga.intel.com",
        "furiosa.ai", "google.com", "gpu.intel.com", "habana.ai", "huawei.com", "hygon.com",
        "iaa.intel.com", "iluvatar.ai",
        "intel.com", "k8s.amazonaws.com", "kunlunxin.com", "metax-tech.com",
        "mthreads.com", "qat", "qat.intel.com", "sgx.intel.com", "tencent.com", "vastaitech.com",
    }
)  # fmt: skip
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
# Vendor, pattern of resources that count devices, pattern of resources for parts of a device.
_KNOWN: Final = tuple(
    (vendor, re.compile(count), re.compile(part))
    for vendor, count, part in (
        ("huawei", r"huawei\.com/Ascend[0-9A-Z-]+", r"huawei\.com/Ascend[0-9A-Z-]+-(memory|core)"),
        ("hygon", r"(hygon|dcu)\.com/(dcunum|hcunum|gpu)", r"hygon\.com/[dh]cu(mem|cores)"),
        ("cambricon", r"cambricon\.com/(vmlu|mlu\w*)", r"cambricon\.com/.*\.v(memory|core)"),
        ("metax", r"metax-tech\.com/s?gpu", r"metax-tech\.com/v(core|memory)"),
        ("mthreads", r"mthreads\.com/v?gpu", r"mthreads\.com/sgpu-(memory|core)"),
        ("iluvatar", r"iluvatar\.ai/([\w.-]+-v?gpu|v?gpu)", r"iluvatar\.ai/[\w.-]+\.v(Core|Mem)"),
        ("kunlunxin", r"kunlunxin\.com/v?xpu", r"kunlunxin\.com/vxpu-memory"),
        ("enflame", r"enflame\.com/(v?gcu|drs-gcu)",
         r"enflame\.com/(vgcu-percentage|gcu-(memory|core))"),
        ("neuron", r"aws\.amazon\.com/neuron(core|device)?", r"aws\.amazon\.com/-"),
        ("tpu", r"google\.com/tpu", r"google\.com/-"),
        ("furiosa", r"(?:alpha\.|beta\.)?furiosa\.ai/[\w.-]+", r"furiosa\.ai/-"),
        ("vastai", r"vastaitech\.com/va", r"vastaitech\.com/-"),
        ("biren", r"birentech\.com/[\w-]*gpu", r"birentech\.com/-"),
        ("amd", r"amd\.com/gpu", r"amd\.com/gpu(mem(-percentage)?|cores)"),
        ("intel", r"gpu\.intel\.com/(i915|xe)", r"gpu\.intel\.com/(millicores|memory\.max|tiles)"),
        ("habana", r"habana\.ai/gaudi|intel\.com/gaudi", r"habana\.ai/-"),
        ("qat", r"qat\.intel\.com/.+|intel\.com/qat", r"qat/-"),
        ("sgx", r"sgx\.intel\.com/(enclave|provision)", r"sgx\.intel\.com/epc"),
        ("fpga", r"fpga\.intel\.com/.+", r"fpga/-"),
        ("dsa", r"(dsa|dlb|iaa)\.intel\.com/.+", r"dsa/-"),
        ("tencent", r"tencent\.com/vcuda-core", r"tencent\.com/vcuda-memory"),
        ("aws-vgpu", r"k8s\.amazonaws\.com/vgpu", r"k8s\.amazonaws\.com/-"),
        ("4paradigm", r"4paradigm\.com/vgpu", r"4paradigm\.com/vgpu-.+"),
        ("npu", r"npu/-", r"huawei\.com/npu-(core|cpu|dvpp)"),
    )
)  # fmt: skip
_ANY: Final = re.compile(
    "|".join(f"(?:{pattern.pattern})" for _, *patterns in _KNOWN for pattern in patterns)
)


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        if not any(_ANY.fullmatch(name) for name in container.resources):
            continue
        for vendor, count, part in _KNOWN:
            _read_vendor(builder, container, vendor, (count, part))
    return builder.build()


def _read_vendor(
    builder: RequestBuilder,
    container: Container,
    vendor: str,
    names: tuple[re.Pattern[str], re.Pattern[str]],
) -> None:
    """Make one ask for each counting resource. The parts belong to the first one."""
    count, part = names
    parts = [resource for name, resource in container.resources.items() if part.fullmatch(name)]
    others = [resource for resource in container.resources.values() if resource not in parts]
    counted = [resource for resource in others if count.fullmatch(resource.name)]
    for i, resource in enumerate(counted):
        _add_ask(builder, container, vendor, [resource], parts if i == 0 else [])
    if parts and not counted:
        _add_ask(builder, container, vendor, [], parts)


def _add_ask(
    builder: RequestBuilder,
    container: Container,
    vendor: str,
    counted: list[DeviceResource],
    parts: list[DeviceResource],
) -> None:
    count = counted[0].amount if counted else 1
    ask = Ask(kind=Kind.OTHER, row=vendor, vendor=vendor, count=count, users=(container.user,))
    builder.add_ask(ask, [*counted, *parts])
    builder.findings.append(_report_vendor(vendor, counted, parts))


def _report_vendor(
    vendor: str, counted: Sequence[DeviceResource], parts: Sequence[DeviceResource]
) -> Finding:
    """Report that resources stay unchanged, and name the DRA driver for them if one exists."""
    resources = [*counted, *parts]
    written = ", ".join(one.original_name for one in resources)
    if vendor in SERVED_VENDORS and counted and parts:
        whole, shares = counted[0].original_name, ", ".join(one.original_name for one in parts)
        return VENDOR_WITHOUT_DRIVER.at(
            resources[0].where,
            f"no known DRA driver serves the shares of GPUs that {shares} request; {whole} is "
            "translated only without them",
            remedy=f"Keep the device plugin, or remove {shares} to request whole GPUs.",
        )
    if vendor not in OTHER_DRIVERS:
        return VENDOR_WITHOUT_DRIVER.at(resources[0].where, f"no known DRA driver serves {written}")
    driver, class_ = OTHER_DRIVERS[vendor]
    name = resources[0].original_name
    return VENDOR_WITHOUT_DRIVER.at(
        resources[0].where,
        f"no target is configured for {written}; the DRA driver {driver} serves such devices",
        remedy=(
            f"Keep the device plugin, or install the driver and set `targets: [{{resources: "
            f"[{name}], driver: {driver}, class: {class_}}}]`."
        ),
    )
