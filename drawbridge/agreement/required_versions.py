"""What an allocator must know before it writes, by an annotation on the Lease of its scheduler.

An allocator writes only while it has read this Lease a short time ago. So when the controller has
written the annotation and the duration of the Lease has passed, each allocator that writes knows
the nodes and the configuration at these versions, however late its watches are. So does each that
writes to a pool which only the policy keeps from others, with the policy.
"""

from collections.abc import Mapping

import msgspec

from drawbridge.names import REQUIRED_VERSIONS_ANNOTATION
from drawbridge.resource_version import parse_version


class RequiredVersions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The resourceVersions of the nodes, and of two objects.

    These are the ConfigMap with the configuration in use, and the policy that names pools.
    """

    nodes: str = ""
    configuration: str = ""
    policy: str = ""

    def with_newer(self, other: "RequiredVersions") -> "RequiredVersions":
        """Return the newer version of each kind."""
        fields = self.__struct_fields__
        both = ((getattr(self, name), getattr(other, name)) for name in fields)
        return RequiredVersions(*(max(pair, key=parse_version) for pair in both))

    def annotation(self) -> dict[str, str]:
        """Return the annotation."""
        return {REQUIRED_VERSIONS_ANNOTATION: msgspec.json.encode(self).decode()}


def read_required(annotations: Mapping[str, str] | None) -> RequiredVersions:
    """Read the annotation; one that cannot be read requires nothing."""
    text = (annotations or {}).get(REQUIRED_VERSIONS_ANNOTATION, "{}")
    try:
        return msgspec.json.decode(text, type=RequiredVersions)
    except (msgspec.MsgspecError, UnicodeError):
        return RequiredVersions()
