"""Semantic versions, parsed and ordered as in Kubernetes.

Comparisons ignore build metadata.
"""

import re
from typing import Final

from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.numbers import parse_uint

_DIGITS: Final = re.compile(r"[0-9]*")
_WORD: Final = re.compile(r"[0-9A-Za-z-]*")


class Semver:
    """A semantic version; two are equal if their precedence is equal, without build metadata."""

    __slots__ = ("build", "key")

    # (major, minor, patch, is a release, prerelease identifiers), ordered by precedence
    key: Final[tuple[int, int, int, bool, tuple[tuple[bool, int | str], ...]]]
    build: Final[str]

    def __init__(
        self,
        numbers: tuple[int, int, int],
        prerelease: tuple[tuple[bool, int | str], ...] = (),
        build: str = "",
    ) -> None:
        self.key = (*numbers, not prerelease, prerelease)
        self.build = build

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        major, minor, patch, _, prerelease = self.key
        tail = "-" + ".".join(str(part) for _, part in prerelease) if prerelease else ""
        return f"{major}.{minor}.{patch}{tail}{self.build and '+' + self.build}"

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"


def parse(text: str) -> Semver:
    """Parse `major.minor.patch[-prerelease][+build]`."""
    if not text:
        raise _error("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise _error("No Major.Minor.Patch elements found")
    major, minor = _number("Major", parts[0]), _number("Minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    number = _number("Patch", patch)
    identifiers = tuple(map(_identifier, prerelease.split("."))) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise _error("Build meta data is empty")
        if not _WORD.fullmatch(part):
            raise _error(f'Invalid character(s) found in build meta data "{part}"')
    return Semver((major, minor, number), identifiers, build)


def parse_normalized(text: str) -> Semver:
    """Parse a version with optional `v`, minor, patch and leading zeros."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise _error("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] and stripped[0] in "0123456789" else "0" + stripped


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise _error(f'Invalid character(s) found in {name.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise _error(f'{name} number must not contain leading zeroes "{text}"')
    value = parse_uint(text)
    if value is None:
        raise _error(f'{name} number "{text}" is missing or out of range')
    return value


def _identifier(text: str) -> tuple[bool, int | str]:
    if not text:
        raise _error("Prerelease is empty")
    if not _WORD.fullmatch(text):
        raise _error(f'Invalid character(s) found in prerelease "{text}"')
    if not _DIGITS.fullmatch(text):
        return True, text
    if len(text) > 1 and text[0] == "0":
        raise _error(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    value = parse_uint(text)
    if value is None:
        raise _error(f'prerelease number "{text}" is out of range')
    return False, value


def _error(message: str) -> EvaluationError:
    return EvaluationError("semver", message)
