"""What an allocator must know before it writes, by an annotation on the Lease of its scheduler.

An allocator writes only while it has read this Lease a short time ago. So when the controller has
written the annotation and the duration of the Lease has passed, each allocator that writes knows
the nodes and the configuration at these versions, however late its watches are. So does each that
writes to a pool which only the policy keeps from others, with the policy.

The annotation can have versions of another history: the Lease was copied from another cluster, or a
process wrote it that had not noticed a restore. An allocator that has read them since knows what
there was then, by a list, and nothing later.
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

    def requiring(self, versions: "RequiredVersions") -> "RequiredVersions":
        """Return what each process that has read this must look for to know these versions.

        Where this is newer, it can be of another history, so the version becomes one that no
        process has read. In the same history, one has it after the next change or list.
        """
        fields = self.__struct_fields__
        both = ((getattr(self, name), getattr(versions, name)) for name in fields)
        return RequiredVersions(*(_require(*pair) for pair in both))

    def annotation(self) -> dict[str, str]:
        """Return the annotation."""
        return {REQUIRED_VERSIONS_ANNOTATION: msgspec.json.encode(self).decode()}


def _require(before: str, version: str) -> str:
    number = parse_version(before)
    if 0 < parse_version(version) < number:
        return f"{number + 1}"
    return max(before, version, key=parse_version)


def read_required(annotations: Mapping[str, str] | None) -> RequiredVersions:
    """Read the annotation; one that cannot be read requires nothing."""
    text = (annotations or {}).get(REQUIRED_VERSIONS_ANNOTATION, "{}")
    try:
        return msgspec.json.decode(text, type=RequiredVersions)
    except (msgspec.MsgspecError, UnicodeError):
        return RequiredVersions()
