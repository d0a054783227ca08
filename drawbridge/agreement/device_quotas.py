"""Refuses pods whose claims exceed a device quota by themselves, whatever others have.

Admission asks this about a pod, and the controller before it creates templates of a pod. What is
left changes until the allocator decides, so neither looks at it. With native placement nothing else
enforces these quotas.
"""

from collections.abc import Iterator, Mapping

from drawbridge.config.model import Configuration, Quota
from drawbridge.config.policy import device_quotas
from drawbridge.dra.device_quotas import Charge, DeviceQuota, find_impossible
from drawbridge.dra.quota_codes import DEVICE_QUOTA_TOO_SMALL
from drawbridge.finding import Finding


class ConfiguredQuotas:
    """The quotas of the configuration, read again when they change."""

    def __init__(self) -> None:
        self._read: tuple[tuple[Quota, ...], tuple[DeviceQuota, ...]] = ((), ())

    def selecting(
        self, configuration: Configuration, namespace: str, labels: Mapping[str, str]
    ) -> tuple[DeviceQuota, ...]:
        """Return the quotas that apply to a namespace."""
        if self._read[0] is not configuration.quotas:
            self._read = (configuration.quotas, device_quotas(configuration))
        return tuple(each for each in self._read[1] if each.selects(namespace, labels))


def check_device_quotas(
    charge: Charge, namespace: str, quotas: tuple[DeviceQuota, ...]
) -> Iterator[Finding]:
    """Report a quota that the claims of a pod exceed by themselves."""
    excess = find_impossible(quotas, namespace, charge)
    if excess is not None:
        yield DEVICE_QUOTA_TOO_SMALL.at("spec", excess.message)
