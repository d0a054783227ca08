"""Findings, their codes, and the reference page of all codes.

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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One message to the user, about a field of an object."""

    code: str
    severity: Severity
    path: str = ""
    object: str = ""
    message: str
    remedy: str


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of finding: a stable name, and its documentation."""

    name: str
    severity: Severity
    text: str
    example: str
    remedy: str

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
    """The immutable table of the codes of one package, by name, in definition order.

    All of them appear in the same `activity`.
    """

    def __init__(self, package: str, activity: Activity, codes: Iterable[Code]) -> None:
        self.package = package
        self.activity = activity
        self._codes: dict[str, Code] = {}
        for code in codes:
            if self._codes.setdefault(code.name, code) is not code:
                raise ValueError(f"{package} has two codes with the name {code.name}")

    def __getitem__(self, name: str) -> Code:
        return self._codes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)


def codes_by_activity(tables: Iterable[Codes]) -> dict[Activity, tuple[Code, ...]]:
    """Group the codes of all tables by activity; a code of several tables is in the first."""
    found: dict[Activity, list[Code]] = {each: [] for each in Activity}
    known: set[str] = set()
    for table in tables:
        found[table.activity] += (each for name, each in table.items() if name not in known)
        known |= set(table)
    return {activity: tuple(codes) for activity, codes in found.items() if codes}


def render_page(tables: Iterable[Codes]) -> str:
    """Render the reference page of all codes, `docs/findings.md`, activity by activity."""
    lines = [
        "# Findings",
        "",
        "Every warning, error and event of Drawbridge is a finding with one of these codes,",
        "grouped by what you do when it appears. `drawbridge help CODE` prints the same text.",
        "This page is generated from the tables in the code (`make docs`).",
    ]
    for activity, codes in codes_by_activity(tables).items():
        lines += ["", f"## {activity}"]
        for code in codes:
            lines += ["", f"### {code.name}", "", f"*{code.severity}*: {code.text}", ""]
            lines += [f"Example: {code.example}", "", f"Remedy: {code.remedy}"]
    return "\n".join(lines) + "\n"
