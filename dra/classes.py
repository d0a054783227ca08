"""DeviceClasses: what an administrator offers by name.

The structs are the wire form, the same in every served version. Whether the selectors select
anything is not asked here.
"""

import msgspec

from dra.allocation import Opaque
from dra.claim import ClaimMetadata, Selector
from dra.decode import Object, Reader
from dra.finding import Finding

KIND = "DeviceClass"
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


class ClassConfig(msgspec.Struct, frozen=True):
    """Configuration that every device of the class gets."""

    opaque: Opaque | None = None


class ClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a class stands for; it may change at any time."""

    selectors: tuple[Selector, ...] = ()
    config: tuple[ClassConfig, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True, rename="camel", kw_only=True):
    """A DeviceClass."""

    metadata: ClaimMetadata
    spec: ClassSpec = ClassSpec()


def class_reader() -> Reader[DeviceClass]:
    """Make a reader of classes."""
    versions = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")
    return Reader(KIND, dict.fromkeys(versions, DeviceClass), lambda wire: wire)


def read_class(
    raw: object, reader: Reader[DeviceClass] | None = None
) -> DeviceClass | tuple[Finding, ...]:
    """Read one class of any served version from JSON bytes or a plain dict."""
    return (reader or class_reader()).read(raw)
