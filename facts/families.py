"""The driver families this version knows: what their devices are, and whose names they serve.

The one table of drivers; who prints claims for them adds how. A driver that is not here is known
from the Configuration alone.
"""

import fnmatch
import functools
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from config.model import Configuration, Target

GPU: Final = "gpu"
NIC: Final = "nic"


class Family(msgspec.Struct, frozen=True):
    """A driver as it is shipped: bare names are in the driver's own domain."""

    kind: str
    driver: str
    classes: tuple[str, ...]
    short_name: str = ""  # what the configuration calls it
    type: str = ""  # the attribute that tells whole devices from others
    whole_types: tuple[str, ...] = ()  # its values for whole devices
    name: str = ""  # the attribute that names the product
    profile: str = ""
    architecture: str = ""
    legacy_names: tuple[str, ...] = ()  # names under which a plugin hands out the same devices
    required_attribute: str = ""  # a NIC counts where this attribute is true


FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        GPU,
        "gpu.nvidia.com",
        ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"),
        short_name="nvidia",
        type="type",
        whole_types=("gpu",),
        name="productName",
        profile="profile",
        architecture="architecture",
        legacy_names=(
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-*",
            "nvidia.com/pgpu",
            "volcano.sh/vgpu-number",
        ),
    ),
    Family(
        GPU,
        "hami-core-gpu.project-hami.io",
        ("hami-core-gpu.project-hami.io",),
        short_name="hami",
        type="type",
        whole_types=("hami-gpu",),
        name="productName",
        architecture="architecture",
        legacy_names=("nvidia.com/gpu", "nvidia.com/gpu.shared", "volcano.sh/vgpu-number"),
    ),
    Family(
        GPU,
        "gpu.amd.com",
        ("gpu.amd.com",),
        short_name="amd",
        type="type",
        whole_types=("amdgpu",),
        name="productName",
        profile="partitionProfile",
        architecture="family",
        legacy_names=("amd.com/gpu", "amd.com/?px_nps*"),
    ),
    Family(
        GPU,
        "gpu.intel.com",
        ("gpu.intel.com", "gpu-vfio.intel.com"),
        short_name="intel",
        type="type",
        name="model",
        architecture="family",
        legacy_names=("gpu.intel.com/i915", "gpu.intel.com/xe", "intel.com/gpu"),
    ),
    Family(
        NIC,
        "dra.net",
        ("dra.net", "dranet", "dranet.net"),
        short_name="dranet",
        type="type",
        name="pciDevice",
        required_attribute="rdma",
    ),
    Family(
        NIC,
        "sriovnetwork.k8snetworkplumbingwg.io",
        ("sriovnetwork.k8snetworkplumbingwg.io",),
        short_name="sriov",
        name="resourceName",
    ),
)
BY_DRIVER: Final[Mapping[str, Family]] = {each.driver: each for each in FAMILIES}
BY_SHORT_NAME: Final[Mapping[str, Family]] = {each.short_name: each for each in FAMILIES}


def find_family(target: Target) -> Family | None:
    """The known family that a target of the configuration behaves like."""
    return BY_SHORT_NAME.get(target.family) if target.family else BY_DRIVER.get(target.driver)


def known_families(configuration: Configuration) -> Mapping[str, Family]:
    """The families by driver, with those that the configuration says a driver behaves like."""
    known = dict(BY_DRIVER)
    for target in configuration.targets:
        if target.driver not in known:
            like = find_family(target)
            known[target.driver] = (
                msgspec.structs.replace(like, driver=target.driver, classes=(target.class_,))
                if like
                else _own(target)
            )
    return known


def _own(target: Target) -> Family:
    """A family that only the configuration knows."""
    words = {f"{word}": f"{attribute}" for word, attribute in target.attributes.items()}
    return Family(
        target.kind,
        target.driver,
        (target.class_,),
        name=words.get("product", ""),
        profile=words.get("profile", ""),
        architecture=words.get("architecture", ""),
    )


def serves_name(family: Family, name: str) -> bool:
    """Whether a plugin that advertises `name` hands out devices of this family."""
    return bool(family.legacy_names) and _any(family.legacy_names).match(name) is not None


@functools.lru_cache
def served_names(patterns: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
    """Which of the names are a family's by its patterns; those of one cluster are required_attribute again."""
    return frozenset(filter(_any(patterns).match, names)) if patterns else frozenset()


@functools.cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all patterns; there are as many as there are families with some."""
    return re.compile("|".join(map(fnmatch.translate, patterns)))
