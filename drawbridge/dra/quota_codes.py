"""The finding codes of device quotas."""

from drawbridge.finding import Codes, Trait

CODES = Codes()

DEVICE_QUOTA_USED_UP = CODES.define("DeviceQuotaUsedUp")
DEVICE_QUOTA_TOO_SMALL = CODES.define("DeviceQuotaTooSmall", Trait.DEPENDS_ON_NAMESPACE)
