"""The decision table: what each kind of legacy request becomes at best, and what that loses.

Each ask names its row. The target that serves the ask rates separately how well it can express
the ask, and the worse rating counts. The documentation shows this table.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.dra.families import OTHER_DRIVERS
from drawbridge.translate.targets.plan import Expressibility


class Row(msgspec.Struct, frozen=True):
    """One row of the table; the properties in `lost` are lost with every target."""

    name: str
    legacy: str
    becomes: str
    expressibility: Expressibility = Expressibility.EQUAL
    lost: tuple[str, ...] = ()
    # Left to a device plugin that serves it, because a claim would give the pod less.
    stays_with_plugin: bool = False


def _lossy(name: str, legacy: str, becomes: str, *lost: str) -> Row:
    return Row(name, legacy, becomes, Expressibility.LOSSY, lost)


def _never(name: str, legacy: str, why: str) -> Row:
    return Row(name, legacy, why, Expressibility.NOT_EXPRESSIBLE)


_SHARE: Final = "a share by consumable capacity"
_PERCENT: Final = "the same by product, as alternatives"
# Begins the result of a row that has no counterpart in DRA.
NOTHING: Final = "nothing: "
_NO_DRIVER: Final = f"{NOTHING}no DRA driver for it is known"
_NOT_CONFIGURED: Final = f"{NOTHING}its DRA driver is not configured"

_ROWS: Final = (
    Row("nvidia/whole", "nvidia.com/gpu: N", "count N of a GPU class, or left to the class"),
    Row("nvidia/mig", "nvidia.com/mig-1g.5gb: N", "count N of a MIG class with the profile"),
    Row("nvidia/mig-single", "nvidia.com/gpu: N on nodes of one MIG profile", "N of that profile"),
    _lossy("nvidia/replica", "nvidia.com/gpu.shared: 1", "one share", "replicas"),
    _lossy("nvidia/mig-replica", "nvidia.com/mig-1g.5gb.shared: 1", "one share", "replicas"),
    Row("nvidia/passthrough", "nvidia.com/pgpu: N", "count N of a class for virtual machines"),
    _never("nvidia/vgpu", "nvidia.com/GRID_T4-2Q: N", "nothing: no driver publishes vGPU types"),
    Row("hami/whole", "nvidia.com/gpu: N with HAMi's names", "count N of whole devices"),
    Row("hami/memory", "nvidia.com/gpumem: MiB", _SHARE),
    Row("hami/percent", "nvidia.com/gpumem-percentage: P", _PERCENT),
    Row("hami/cores", "nvidia.com/gpucores: P", _SHARE),
    Row("hami/mig", "nvidia.com/gpumem: MiB, vgpu-mode mig", "the smallest profiles that hold it"),
    Row("volcano/whole", "volcano.sh/vgpu-number: N", "count N of whole devices"),
    Row("volcano/memory", "volcano.sh/vgpu-memory: MiB", _SHARE),
    Row("volcano/percent", "volcano.sh/vgpu-memory-percentage: P", _PERCENT),
    Row("volcano/cores", "volcano.sh/vgpu-cores: P", _SHARE),
    Row("volcano/mig", "volcano.sh/vgpu-memory: MiB, vgpu-mode mig", "the smallest profiles"),
    Row("volcano/old-memory", "volcano.sh/gpu-memory: MB", _SHARE),
    Row("koordinator/whole", "koordinator.sh/gpu: 100*N", "count N of a GPU class"),
    Row("koordinator/vendor", "nvidia.com/gpu: N under koord-scheduler", "count N of its class"),
    Row("koordinator/percent", "koordinator.sh/gpu: P", _PERCENT),
    Row("koordinator/memory", "koordinator.sh/gpu-memory: bytes", _SHARE),
    Row("koordinator/rdma", "koordinator.sh/rdma: 100*N", "count N of a NIC class"),
    _lossy("koordinator/rdma-share", "koordinator.sh/rdma: 1 to 99", "whole NICs", "density"),
    Row("koordinator/rdma-all", "koordinator.sh/rdma: 100, ApplyForAll", "all NICs"),
    _lossy(
        "koordinator/rdma-all-share",
        "koordinator.sh/rdma: 1 to 99, ApplyForAll",
        "all NICs; nothing if a pod in the host network requests GPUs",
        "density",
    ),
    _never(
        "koordinator/rdma-all-vf",
        "koordinator.sh/rdma with a vfSelector, ApplyForAll",
        "nothing: a claim asks for all VFs or for a number, not for one of every NIC",
    ),
    Row("koordinator/rdma-vf", "koordinator.sh/rdma with a vfSelector", "VFs of different PFs"),
    _never("koordinator/npu", "huawei.com/npu-core with koordinator.sh names", _NO_DRIVER),
    _never("koordinator/fpga", "koordinator.sh/fpga: 100*N", _NO_DRIVER),
    Row("kai/fraction", "gpu-fraction: F", _PERCENT),
    Row("kai/memory", "gpu-memory: MiB", _SHARE),
    Row("aliyun/memory", "aliyun.com/gpu-mem: GiB", _SHARE),
    Row("amd/whole", "amd.com/gpu: N", "count N of an AMD GPU class"),
    Row("amd/partition", "amd.com/cpx_nps4: N", "count N of partitions with the profile"),
    Row("intel/whole", "gpu.intel.com/i915: N", "count N of an Intel GPU class"),
    Row("intel/monitoring", "gpu.intel.com/monitoring: 1", "all GPUs, with admin access"),
    Row("metax/whole", "metax-tech.com/gpu: N", "count N of the class of a configured driver"),
    Row("metax/memory", "metax-tech.com/vmemory: GiB", _SHARE),
    Row("metax/cores", "metax-tech.com/vcore: P", _SHARE),
    Row(
        "rdma/token",
        "rdma/hca_shared_devices_a: 1",
        "left to its plugin; otherwise exclusive NICs",
        Expressibility.LOSSY,
        ("density",),
        stays_with_plugin=True,
    ),
    Row("rdma/exclusive", "vpc.amazonaws.com/efa: N", "count N of EFA devices"),
    _lossy(
        "rdma/network",
        "networking.gke.io.networks/rdma-0: 1",
        "a NIC of whichever network",
        "network",
    ),
    _lossy("sriov/vf", "intel.com/intel_sriov_netdevice: N", "VFs of the pool", "environment"),
    _lossy("sriov/network", "k8s.v1.cni.cncf.io/networks: a", "VFs of its pool", "environment"),
    Row("nos/memory", "nvidia.com/gpu-10gb: 1", _SHARE),
    Row("tensor-fusion/whole", "tensor-fusion.ai/isolation: shared", "count N of whole devices"),
    Row("tensor-fusion/memory", "tensor-fusion.ai/vram-limit: bytes", _SHARE),
    Row("tensor-fusion/cores", "tensor-fusion.ai/compute-percent-limit: P", _SHARE),
    Row("tensor-fusion/mig", "tensor-fusion.ai/isolation: partitioned", "the smallest profiles"),
)
# What each loss in the table means to the pod.
LOSSES: Final[Mapping[str, str]] = {
    "density": "the claim allocates a whole device, so fewer pods fit on a node",
    "environment": "the claim does not set the environment variables of the device plugin",
    "network": "the claim may allocate a NIC of any network",
    "replicas": "the claim does not preserve the number of replicas",
}
ROWS: Final[Mapping[str, Row]] = {row.name: row for row in _ROWS}
_VENDORS: Final = "vendors/"
# In these dialects the resource name alone selects the devices; the others read annotations too.
_SELECTED_BY_NAME: Final = frozenset(
    {"amd", "intel", "named", "nos", "nvidia", "rdma", "sriov", "vendors"}
)


def get_row(name: str) -> Row:
    """Return the row of this name; without one, the target alone rates the ask."""
    if name.startswith(_VENDORS):
        is_known = name.removeprefix(_VENDORS) in OTHER_DRIVERS
        return _never(name, name, _NOT_CONFIGURED if is_known else _NO_DRIVER)
    return ROWS.get(name) or Row(name, name, "")


def is_selected_by_name(name: str) -> bool:
    """Whether the resource name alone, without annotations, selects the devices of this row."""
    return name.partition("/")[0] in _SELECTED_BY_NAME
