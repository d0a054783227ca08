"""Kubernetes' functions of semantic versions."""

from collections.abc import Callable
from typing import Final

from drawbridge.cel import semver
from drawbridge.cel.declare import Function, Library, Overload
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.library import costs
from drawbridge.cel.numbers import wrap_int64
from drawbridge.cel.types import BOOL, INT, SEMVER, STRING, Type
from drawbridge.cel.values import CelValue, Semver


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


def _parsing(
    name: str, ids: tuple[str, str], result: Type, implementation: Callable[..., CelValue]
) -> Function:
    return Function(
        name,
        (
            Overload(ids[0], (STRING,), result, implementation),
            Overload(ids[1], (STRING, BOOL), result, implementation),
        ),
        cost=costs.of_argument(0),
        estimate=costs.estimate_argument(0),
    )


def _member(
    name: str,
    id_: str,
    params: tuple[Type, ...],
    result: Type,
    implementation: Callable[..., CelValue],
) -> Function:
    return Function(name, (Overload(id_, params, result, implementation, member=True),))


_TWO: Final = (SEMVER, SEMVER)
SEMVERS: Final = Library(
    "kubernetes.Semver",
    (
        _parsing("semver", ("string_to_semver", "string_bool_to_semver"), SEMVER, _semver),
        _parsing("isSemver", ("is_semver_string", "is_semver_string_bool"), BOOL, _is_semver),
        _member("isGreaterThan", "semver_is_greater_than", _TWO, BOOL, _greater),
        _member("isLessThan", "semver_is_less_than", _TWO, BOOL, _less),
        _member("compareTo", "semver_compare_to", _TWO, INT, _compare),
        _member("major", "semver_major", (SEMVER,), INT, _part(0)),
        _member("minor", "semver_minor", (SEMVER,), INT, _part(1)),
        _member("patch", "semver_patch", (SEMVER,), INT, _part(2)),
    ),
)
