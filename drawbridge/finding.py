"""Findings and their codes.

A finding is the format of every message to users: CLI output, admission warnings and events. What
a code means stands once, on the page findings.md beside this module, which people read as well.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

# What lasts is told again: the API server deletes an Event after an hour, and nobody reads the log
# of another day.
REPEAT_SECONDS: Final = 3600.0


class Severity(enum.StrEnum):
    """The severity of a finding. Info never changes an exit code."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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

    @property
    def sentences(self) -> str:
        """The message and the remedy, one after the other."""
        if not (self.message and self.remedy):
            return self.message or self.remedy
        end = "" if self.message.endswith((".", "!", "?", "…", ":")) else "."
        return f"{self.message}{end} {self.remedy}"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of finding: a stable name, its documentation, and how its findings are handled."""

    name: str
    activity: str
    """What a person does when a finding appears: the heading of the page."""
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


def parse_page(page: str) -> dict[str, Code]:
    """Return the codes that a page explains, in its order.

    A code is a heading of the third level below its activity, and has three paragraphs: severity
    and meaning, an example, and the remedy.
    """
    explained: dict[str, Code] = {}
    for part in page.split("\n## ")[1:]:
        activity, *sections = part.split("\n### ")
        for section in sections:
            name, *paragraphs = (" ".join(each.split()) for each in section.strip().split("\n\n"))
            meaning, example, remedy = paragraphs
            severity, _, text = meaning.partition(": ")
            if name in explained:
                raise ValueError(f"two codes have the name {name}")
            explained[name] = Code(
                name=name,
                activity=activity.partition("\n")[0],
                severity=Severity(severity.strip("*")),
                text=text,
                example=example.removeprefix("Example: "),
                remedy=remedy.removeprefix("Remedy: "),
            )
    return explained


PAGE: Final = f"{__file__.rpartition('/')[0]}/findings.md"
with open(PAGE, encoding="utf-8") as _page:  # noqa: PTH123  # pathlib takes 0.7 MiB of each process
    EXPLAINED: Final[Mapping[str, Code]] = parse_page(_page.read())


class Codes(Mapping[str, Code]):
    """The codes of one package, by name, in definition order."""

    def __init__(self) -> None:
        self._codes: dict[str, Code] = {}

    def define(self, name: str, *traits: Trait, loses: str = "") -> Code:
        """Add a code of the page. A constant of the same name in upper case has it."""
        if name not in EXPLAINED:
            raise ValueError(f"{PAGE} has no section {name}")
        code = msgspec.structs.replace(EXPLAINED[name], traits=frozenset(traits), loses=loses)
        self._codes[name] = code
        return code

    def __getitem__(self, name: str) -> Code:
        return self._codes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)


def find_names(tables: Iterable[Codes], trait: Trait) -> frozenset[str]:
    """Return the names of the codes that have a trait."""
    return frozenset(
        code.name for table in tables for code in table.values() if trait in code.traits
    )
