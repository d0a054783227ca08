"""The table of known driver families: device attributes, classes and legacy resource names.

The Configuration accepts the names and vendors of this table, and can declare other drivers.
`drawbridge.translate.targets` defines how claims for each family are written.
"""

import fnmatch
import functools
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.dra.attributes import NUMA_NODE, split_name

GPU: Final = "gpu"
NIC: Final = "nic"


class Family(msgspec.Struct, frozen=True):
    """One driver family. Attribute names without a domain belong to the domain of the driver.

    The first of `classes` is for whole devices; the others are for special ones, or other names of
    the first (`one_class`).
    """

    kind: str
    driver: str
    classes: tuple[str, ...]
    one_class: bool = False
    short_name: str = ""  # the value of `targets[].family`, and the module of its claims
    vendor: str = ""  # of GPUs, the value of `targets[].vendor`
    type: str = ""  # the attribute with the device type
    whole_types: tuple[str, ...] = ()  # values of `type` for whole devices
    name: str = ""  # the attribute with the product name
    profile: str = ""
    architecture: str = ""
    # Device-plugin resources that count the same devices; `!` takes names from those before it.
    legacy_names: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()  # those of parts of them
    required_attribute: str = ""  # only devices with this attribute set to true count
    numa: str = ""  # the driver's own attribute with the NUMA node

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """All resources by which device plugins, or schedulers, allocate the same devices."""
        return (*self.legacy_names, *self.other_names)


_NOS: Final = "nvidia.com/gpu-*gb"
# Schedulers allocate NVIDIA's GPUs by these, whatever the driver publishes of them.
_OTHERS_OF_NVIDIA: Final = (
    "aliyun.com/gpu-*",
    "koordinator.sh/gpu*",
    "nvidia.com/gpucores",
    "nvidia.com/gpumem*",
    "volcano.sh/*gpu-*",
)
# The plugin for SR-IOV serves any device with virtual functions, under the prefix of a vendor whose
# other plugins use it, too. Names without a word of networks are in `legacy.networks`.
_OF_NETWORKS: Final = ("sriov", "hostdev", "mlnx", "netdev", "dpdk", "_nic", "nics", "rdma")
_OF_ACCELERATORS: Final = ("fec", "fpga", "qat", "dsa", "gpu")

FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        GPU,
        "gpu.nvidia.com",
        ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"),
        short_name="nvidia",
        vendor="nvidia",
        type="type",
        whole_types=("gpu",),
        name="productName",
        profile="profile",
        architecture="architecture",
        legacy_names=(
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            _NOS,
            "nvidia.com/mig-*",
            "nvidia.com/pgpu",
            "volcano.sh/vgpu-number",
        ),
        other_names=_OTHERS_OF_NVIDIA,
    ),
    Family(
        GPU,
        "hami-core-gpu.project-hami.io",
        ("hami-core-gpu.project-hami.io",),
        short_name="hami",
        vendor="nvidia",
        type="type",
        whole_types=("hami-gpu",),
        name="productName",
        architecture="architecture",
        legacy_names=("nvidia.com/gpu", "nvidia.com/gpu.shared", _NOS, "volcano.sh/vgpu-number"),
        other_names=("nvidia.com/mig-*", "nvidia.com/pgpu", *_OTHERS_OF_NVIDIA),
    ),
    Family(
        GPU,
        "gpu.amd.com",
        ("gpu.amd.com",),
        short_name="amd",
        vendor="amd",
        type="type",
        whole_types=("amdgpu",),
        name="productName",
        profile="partitionProfile",
        architecture="family",
        legacy_names=("amd.com/gpu", "amd.com/?px_nps*"),
        other_names=("amd.com/gpucores", "amd.com/gpumem*"),
        numa="numaNode",
    ),
    Family(
        GPU,
        "gpu.intel.com",
        ("gpu.intel.com", "gpu-vfio.intel.com"),
        short_name="intel",
        vendor="intel",
        type="type",
        name="model",
        architecture="family",
        legacy_names=("gpu.intel.com/i915", "gpu.intel.com/xe", "intel.com/gpu"),
        other_names=("gpu.intel.com/memory.max", "gpu.intel.com/millicores", "gpu.intel.com/tiles"),
    ),
    Family(
        NIC,
        "dra.net",
        # The last one is the class of EKS, which selects only EFA devices.
        ("dra.net", "dranet", "dranet.net", "efa.networking.k8s.aws"),
        one_class=True,
        short_name="dranet",
        type="type",
        name="pciDevice",
        # The tokens of the shared plugin, `rdma/*`, are not among them: all pods share its devices.
        legacy_names=(
            "vpc.amazonaws.com/efa",
            "networking.gke.io.networks/rdma-*",
            "vke.volcengine.com/rdma",
        ),
        other_names=("koordinator.sh/rdma",),  # in percent of a NIC
        required_attribute="rdma",
        numa="numaNode",
    ),
    Family(
        NIC,
        "sriovnetwork.k8snetworkplumbingwg.io",
        ("sriovnetwork.k8snetworkplumbingwg.io",),
        short_name="sriov",
        name="resourceName",
        legacy_names=(
            "mellanox.com/*",
            "openshift.io/*",
            *(f"intel.com/*{word}*" for word in _OF_NETWORKS),
            *(f"!intel.com/*{word}*" for word in _OF_ACCELERATORS),
            *(f"nvidia.com/*{word}*" for word in _OF_NETWORKS),
        ),
        numa="dra.net/numaNode",
    ),
)
# The names that a scheduler reads although no node advertises them, by what shows that it applies
# to a node: an annotation, or the name that its device plugin advertises.
_KOORDINATOR: Final = tuple(
    f"koordinator.sh/gpu{part}" for part in ("", "-core", "-memory", "-memory-ratio", ".shared")
)
COMPANIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "hami.io/node-nvidia-register": tuple(
        f"nvidia.com/{part}" for part in ("gpumem", "gpumem-percentage", "gpucores", "priority")
    ),
    "volcano.sh/vgpu-number": tuple(
        f"volcano.sh/vgpu-{part}" for part in ("memory", "memory-percentage", "cores")
    ),
    "koordinator.sh/gpu": _KOORDINATOR,
    "koordinator.sh/gpu-core": _KOORDINATOR,
}
BY_DRIVER: Final[Mapping[str, Family]] = {each.driver: each for each in FAMILIES}
BY_SHORT_NAME: Final[Mapping[str, Family]] = {each.short_name: each for each in FAMILIES}
# The vendors of GPUs that a driver allocates as whole devices.
SERVED_VENDORS: Final = frozenset(each.vendor for each in FAMILIES if each.vendor)
# Vendors of devices for which no DRA driver is known: the Configuration declares one, if any.
WITHOUT_DRIVER: Final = (
    Family(
        GPU,
        "",
        (),
        vendor="metax",
        legacy_names=("metax-tech.com/gpu", "metax-tech.com/sgpu"),
    ),
)
BY_VENDOR_WITHOUT_DRIVER: Final[Mapping[str, Family]] = {
    each.vendor: each for each in WITHOUT_DRIVER
}
# DRA drivers that exist for devices of other vendors, and the DeviceClass that comes with them. As
# of November 2026, by the documentation of the vendors; the page on dialects lists them.
OTHER_DRIVERS: Final[Mapping[str, tuple[str, str]]] = {
    "furiosa": ("npu.furiosa.ai", "npu.furiosa.ai"),
    "habana": ("gaudi.intel.com", "gaudi.intel.com"),
    "huawei": ("ascend.project-hami.io", "hami-vnpu-core.project-hami.io"),
    "hygon": ("dra.hygon.com", "dra.hygon.com"),
    "neuron": ("neuron.aws.com", "neuron.aws.com"),
    "qat": ("qat.intel.com", "qat.intel.com"),
    "tpu": ("tpu.google.com", "tpu.google.com"),
}
VENDORS: Final = tuple(
    dict.fromkeys(each.vendor for each in (*FAMILIES, *WITHOUT_DRIVER) if each.vendor)
)


def find_own_numa(family: Family, attributes: Mapping[str, str]) -> str:
    """Return the full name of the driver's own attribute with the NUMA node as a number.

    Empty if the driver publishes the attribute that drivers share, or none. `attributes` maps the
    full names of what it publishes to their types.
    """
    full = "/".join(split_name(family.numa, family.driver))
    is_own = family.numa and NUMA_NODE not in attributes and attributes.get(full) == "int"
    return full if is_own else ""


def serves_name(family: Family, name: str) -> bool:
    """Tell whether `name` counts devices of this family that a device plugin allocates."""
    return bool(family.legacy_names) and _compile(family.legacy_names).match(name) is not None


def allocates_by(family: Family, name: str) -> bool:
    """Tell whether a plugin that advertises `name` allocates devices of this family, or parts."""
    names = family.plugin_names
    return bool(names) and _compile(names).match(name) is not None


@functools.lru_cache
def served_names(patterns: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
    """Return the names that match the legacy patterns of a family. Results are cached."""
    return frozenset(filter(_compile(patterns).match, names)) if patterns else frozenset()


@functools.lru_cache
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile all patterns into one regular expression; cached once per family."""
    expression = r"(?!)"
    for pattern in patterns:
        names = fnmatch.translate(pattern.removeprefix("!"))
        is_taken = pattern.startswith("!")
        expression = f"(?!{names})(?:{expression})" if is_taken else f"{expression}|{names}"
    return re.compile(expression)
