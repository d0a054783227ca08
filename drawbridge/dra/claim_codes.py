"""The finding codes of claims that no published device satisfies."""

from drawbridge.finding import Codes

CODES = Codes()

DEVICE_NEVER_MATCHES = CODES.define("DeviceNeverMatches")
CAPACITY_NEVER_FITS = CODES.define("CapacityNeverFits")
COUNT_NEVER_FITS = CODES.define("CountNeverFits")
CLASS_WITHOUT_DEVICES = CODES.define("ClassWithoutDevices")
