"""DeviceClasses: their types and reader. The wire format is the same in all API versions."""

from functools import cached_property

import msgspec

from drawbridge.digest import digest
from drawbridge.dra.allocation import Opaque
from drawbridge.dra.claim import CapacityRequests, ClaimMetadata, Selector
from drawbridge.dra.decode import Object, Reader
from drawbridge.finding import Finding

KIND = "DeviceClass"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
# A class with a longer name has no implicit extended resource.
MAX_IMPLICIT_LENGTH = 63


def is_implicit_name(name: str) -> bool:
    """Whether a resource has the implicit name of a class, which only the scheduler reads."""
    return name.startswith(IMPLICIT_PREFIX)


def compose_implicit_name(device_class: str) -> str:
    """Return the implicit extended resource of a class; empty if it has none."""
    return IMPLICIT_PREFIX + device_class if len(device_class) <= MAX_IMPLICIT_LENGTH else ""


class ClassConfig(msgspec.Struct, frozen=True):
    """Configuration for every device of the class."""

    opaque: Opaque | None = None


class ClassSpec(msgspec.Struct, frozen=True, rename="camel", dict=True):  # for the cached property
    """The spec of a DeviceClass. It is mutable.

    With `extended_resource_capacity_requests` (KEP-6406, proposed for 1.38) a device that the
    extended resource counts is a share of these amounts. Only an API server that serves the field
    stores it, so a class that has it tells that shares have a name.
    """

    selectors: tuple[Selector, ...] = ()
    config: tuple[ClassConfig, ...] = ()
    extended_resource_name: str | None = None
    extended_resource_capacity_requests: CapacityRequests | None = None

    @cached_property
    def digest(self) -> bytes:
        """A short key that is equal for equal specs."""
        return digest(msgspec.json.encode(self, enc_hook=str))

    @property
    def share(self) -> CapacityRequests | None:
        """What a unit of the extended resource takes of a device; None for whole devices."""
        requested = self.extended_resource_capacity_requests
        is_named = bool(self.extended_resource_name)
        return requested if is_named and requested and requested.requests else None


class DeviceClass(Object, frozen=True, rename="camel", kw_only=True):
    """A DeviceClass."""

    metadata: ClaimMetadata
    spec: ClassSpec = ClassSpec()


def class_reader() -> Reader[DeviceClass]:
    """Return a reader of DeviceClasses."""
    versions = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
    return Reader(KIND, dict.fromkeys(versions, DeviceClass))


def read_class(raw: object) -> DeviceClass | tuple[Finding, ...]:
    """Read one DeviceClass of any API version from JSON bytes or a dict."""
    return class_reader().read(raw)
