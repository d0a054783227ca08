"""Kubernetes' functions of semantic versions."""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import semver
from drawbridge.cel.declare import Library, Overload, members
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.numbers import wrap_int64
from drawbridge.cel.types import BOOL, INT, SEMVER, STRING
from drawbridge.cel.values import Semver


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002  # as in the language
    return semver.parse_normalized(text) if normalize else semver.parse(text)


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002  # as in the language
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _greater(a: Semver, b: Semver) -> bool:
    return a.key > b.key


def _less(a: Semver, b: Semver) -> bool:
    return a.key < b.key


def _compare(a: Semver, b: Semver) -> int:
    return (a.key > b.key) - (a.key < b.key)


def _part(position: int) -> Callable[[Semver], int]:
    def part(version: Semver) -> int:
        # Kubernetes stores them as uint64 and returns them as int64.
        return wrap_int64((version.key[0], version.key[1], version.key[2])[position])

    return part


_TWO: Final = (SEMVER, SEMVER)
SEMVERS: Final = Library(
    "kubernetes.Semver",
    (
        costs.parsing(
            "semver",
            Overload("string_to_semver", (STRING,), SEMVER, _semver),
            Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, _semver),
        ),
        costs.parsing(
            "isSemver",
            Overload("is_semver_string", (STRING,), BOOL, _is_semver),
            Overload("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
        ),
        members("isGreaterThan", ("semver_is_greater_than", _TWO, BOOL, _greater)),
        members("isLessThan", ("semver_is_less_than", _TWO, BOOL, _less)),
        members("compareTo", ("semver_compare_to", _TWO, INT, _compare)),
        members("major", ("semver_major", (SEMVER,), INT, _part(0))),
        members("minor", ("semver_minor", (SEMVER,), INT, _part(1))),
        members("patch", ("semver_patch", (SEMVER,), INT, _part(2))),
    ),
)
