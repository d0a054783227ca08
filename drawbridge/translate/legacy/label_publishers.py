"""The programs that label nodes about their devices, and stop when a device plugin is removed.

As of November 2026: GPU feature discovery 0.19.3 and Koordinator 1.8.0 from their sources, the
others from their pages. Labels of clouds, of Karpenter and of Node Feature Discovery are not
listed: they are about the machine and stay.
"""

import re
from typing import Final, NamedTuple


class Publisher(NamedTuple):
    """A program, and the vendor of the devices that its labels describe; empty: of several."""

    name: str
    vendor: str
    keys: re.Pattern[str]


_NVIDIA: Final = "nvidia"
_PUBLISHERS: Final = tuple(
    Publisher(name, vendor, re.compile(keys))
    for name, vendor, keys in (
        (
            "the GPU Operator",
            _NVIDIA,
            r"nvidia\.com/(gpu\.present|gpu\.deploy\..+|mig\.config.*|device-plugin\.config|cc\..+)",
        ),
        (
            "GPU feature discovery",
            _NVIDIA,
            r"nvidia\.com/((gpu|cuda|mig|mps|vgpu|gfd)\.|mig-\d).*",
        ),
        ("AMD's node labeller", "amd", r"(beta\.)?amd\.com/(gpu|cpu)\..*"),
        ("Intel's device plugins", "intel", r"gpu\.intel\.com/.*"),
        ("Koordinator", "", r"node\.koordinator\.sh/gpu-.+"),
        ("HAMi", "", r"hami\.io/.+"),
        ("MetaX's labeller", "metax", r"metax-tech\.com/.+"),
        ("tensor-fusion", "", r"tensor-fusion\.ai/.+"),
    )
)


def find_publisher(key: str) -> Publisher | None:
    """Return the program that publishes a node label about devices."""
    if "/" not in key:
        return None
    return next((each for each in _PUBLISHERS if each.keys.fullmatch(key)), None)
