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
    """The immutable table of the codes of one package, by name, in definition order."""

    def __init__(self, package: str, codes: Iterable[Code]) -> None:
        self.package = package
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


def render_page(packages: Iterable[Codes]) -> str:
    """Render the reference page of all codes, `docs/findings.md`, package by package."""
    lines = [
        "# Findings",
        "",
        "Every warning, error and event of Drawbridge is a finding with one of these codes. This",
        "page is generated from the tables in the code (`make docs`).",
    ]
    rendered: set[str] = set()
    for package in packages:
        lines += ["", f"## {package.package}"]
        for code in package.values():
            if code.name in rendered:
                continue  # also in the table of another package; anchors must be unique
            rendered.add(code.name)
            lines += ["", f"### {code.name}", "", f"*{code.severity}*: {code.text}", ""]
            lines += [f"Example: {code.example}", "", f"Remedy: {code.remedy}"]
    return "\n".join(lines) + "\n"
