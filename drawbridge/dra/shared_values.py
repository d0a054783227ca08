"""Equal values of many objects, kept once.

The devices of a model differ in their identity only, and the claims of a template not at all.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from drawbridge.dra.allocation import ConfigEntry
from drawbridge.dra.device import Attribute, Device

# Values beyond these numbers are kept more than once. Those that many objects have are used often
# enough to stay, so that a driver or a tenant with distinct values displaces none of them.
MAX_ATTRIBUTES: Final = 16_384
MAX_PARAMETERS: Final = 512  # of 10 KiB at most


class SharedValues:
    """Replaces values of objects that were just read by equal ones that were read before.

    Capacities are not shared: quantities are equal by value, in any notation of any driver.
    """

    def __init__(self) -> None:
        self._attribute = lru_cache(MAX_ATTRIBUTES)(_same)
        self._parameters = lru_cache(MAX_PARAMETERS)(msgspec.Raw)

    def __len__(self) -> int:
        return sum(each.cache_info().currsize for each in (self._attribute, self._parameters))

    def share_attributes(self, devices: Iterable[Device]) -> None:
        """Share the attributes of devices that nothing else has yet."""
        shared = self._attribute
        for device in devices:
            attributes = device.attributes
            if isinstance(attributes, dict):
                for name, attribute in attributes.items():
                    attributes[name] = shared(attribute)

    def share_parameters(self, configs: Iterable[ConfigEntry]) -> None:
        """Share the parameters of configurations that nothing else has yet."""
        for config in configs:
            if config.opaque is not None and config.opaque.sent:
                force_setattr(config.opaque, "sent", self._parameters(bytes(config.opaque.sent)))


def _same(value: Attribute) -> Attribute:
    return value
