"""What a person is told: findings, their codes, and the page that lists the codes.

Knows nothing of where findings are shown: the command line, admission and events print them
each in their own way.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping

import msgspec


class Severity(enum.StrEnum):
    """How much a finding weighs; info never changes an exit code."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a person is told, in the form every output uses."""

    code: str
    severity: Severity
    path: str = ""
    object: str = ""
    message: str
    remedy: str


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of finding: a name that stays once released, and the prose that explains it."""

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
        object: str = "",  # noqa: A002  # the contract's word for the thing a finding is about
        remedy: str | None = None,
    ) -> Finding:
        """Make the finding of this kind at `path`, with the table's remedy unless one is given."""
        return Finding(
            code=self.name,
            severity=self.severity,
            path=path,
            object=object,
            message=message,
            remedy=self.remedy if remedy is None else remedy,
        )


class Codes(Mapping[str, Code]):
    """The frozen table of the codes of one package, by name and in the order they were written."""

    def __init__(self, package: str, codes: Iterable[Code]) -> None:
        self.package = package
        self._codes: dict[str, Code] = {}
        for code in codes:
            if self._codes.setdefault(code.name, code) is not code:
                raise ValueError(f"{package} has two codes of the name {code.name}")

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
        "Everything Drawbridge tells you is a finding with one of these codes. This page is",
        "generated from the tables in the code (`make docs`).",
    ]
    told: set[str] = set()
    for package in packages:
        lines += ["", f"## {package.package}"]
        for code in package.values():
            if code.name in told:
                continue  # of another package; an anchor stands for one place
            told.add(code.name)
            lines += ["", f"### {code.name}", "", f"*{code.severity}*: {code.text}", ""]
            lines += [f"Example: {code.example}", "", f"Remedy: {code.remedy}"]
    return "\n".join(lines) + "\n"
