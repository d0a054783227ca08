"""Findings and their codes.

A finding is the format of every message to users: CLI output, admission warnings and events.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec


class Severity(enum.StrEnum):
    """The severity of a finding. Info never changes an exit code."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Activity(enum.StrEnum):
    """What a person does when a finding appears: the headings of the reference of all codes."""

    READ = "Read manifests and objects"
    TRANSLATE = "Translate device-plugin requests"
    CREATE_PODS = "Create pods in a translated namespace"
    WRITE_CLAIMS = "Write claims and templates"
    EXPLAIN = "Explain a pod that waits"
    PLACE = "Place pods on devices"
    PUBLISH = "Publish devices and classes"
    CONFIGURE = "Configure Drawbridge"
    OPERATE = "Operate Drawbridge"


class Trait(enum.Enum):
    """A property of a code that decides what happens to its findings."""

    DEPENDS_ON_NAMESPACE = enum.auto()
    """The same pod may be admitted later: the denial has the HTTP status 403 instead of 422."""
    DEPENDS_ON_SLICES = enum.auto()
    """The error may go away with other slices, or is a limit of ours, so it proves nothing."""
    ONLY_WHEN_TRANSLATED = enum.auto()
    """The finding does not apply to a pod that stays as it is."""
    ONLY_FOR_PODS = enum.auto()
    """The finding does not apply to a pod template."""
    LEAVES_REQUEST = enum.auto()
    """The finding says why a request stays with its device plugin or DeviceClass."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One message to the user, about a field of an object."""

    code: str
    severity: Severity
    path: str = ""
    object: str = ""
    message: str
    remedy: str


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of finding: a stable name, its documentation, and how its findings are handled."""

    name: str
    severity: Severity
    text: str
    example: str
    remedy: str
    loses: str = ""
    """The property of a request that the translation loses."""
    traits: frozenset[Trait] = frozenset()

    def at(
        self,
        path: str,
        message: str,
        *,
        object: str = "",  # noqa: A002  # a field of Finding
        remedy: str | None = None,
    ) -> Finding:
        """Return a finding with this code. The default remedy is that of the code."""
        return Finding(
            code=self.name,
            severity=self.severity,
            path=path,
            object=object,
            message=message,
            remedy=self.remedy if remedy is None else remedy,
        )


class Codes(Mapping[str, Code]):
    """The codes of one package, by name, in definition order. All appear in one `activity`."""

    def __init__(self, activity: Activity) -> None:
        self.activity = activity
        self._codes: dict[str, Code] = {}

    def define(  # noqa: PLR0913  # the parts of a code
        self,
        name: str,
        severity: Severity,
        *traits: Trait,
        text: str,
        example: str,
        remedy: str,
        loses: str = "",
    ) -> Code:
        """Add a code, which is assigned to a constant of the same name in upper case."""
        if name in self._codes:
            raise ValueError(f"two codes have the name {name}")
        self._codes[name] = Code(
            name=name,
            severity=severity,
            text=text,
            example=example,
            remedy=remedy,
            loses=loses,
            traits=frozenset(traits),
        )
        return self._codes[name]

    def __getitem__(self, name: str) -> Code:
        return self._codes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)


def codes_by_activity(tables: Iterable[Codes]) -> dict[Activity, tuple[Code, ...]]:
    """Group the codes of all tables by activity."""
    tables = tuple(tables)
    return {
        activity: tuple(
            code for table in tables if table.activity is activity for code in table.values()
        )
        for activity in Activity
    }


def find_names(tables: Iterable[Codes], trait: Trait) -> frozenset[str]:
    """Return the names of the codes that have a trait."""
    return frozenset(
        code.name for table in tables for code in table.values() if trait in code.traits
    )
