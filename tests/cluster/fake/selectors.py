"""Label and field selectors, such as `a=b,c!=d,e in (f,g),!h`."""

import functools
import re
from collections.abc import Mapping

from tests.cluster.fake.kinds import JSON

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")


def selects(labels: str, fields: str, value: JSON) -> bool:
    """Whether the selectors match an object."""
    if not labels and not fields:
        return True
    own = value["metadata"].get("labels") or {}
    return all(_label(one, own) for one in _split(labels)) and all(
        _field(one, value) for one in _split(fields)
    )


@functools.lru_cache
def _split(selector: str) -> list[str]:
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label(requirement: str, own: Mapping[str, str]) -> bool:
    if match := _SET.fullmatch(requirement):
        among = own.get(match[1]) in [word.strip() for word in match[3].split(",")]
        return among == (match[2] == "in")
    if "!=" in requirement:
        key, wanted = requirement.split("!=")
        return own.get(key.strip()) != wanted.strip()
    if "=" in requirement:
        key, wanted = requirement.replace("==", "=").split("=")
        return own.get(key.strip()) == wanted.strip()
    if requirement.startswith("!"):
        return requirement[1:] not in own
    return requirement in own


def _field(requirement: str, value: JSON) -> bool:
    path, wanted, differs = _read_field(requirement)
    actual: object = value
    for name in path:
        actual = actual.get(name, "") if isinstance(actual, dict) else ""
    return (actual == wanted) != differs


@functools.lru_cache
def _read_field(requirement: str) -> tuple[list[str], str, bool]:
    """Return the path of a field, its value, and whether it must have another one."""
    path, wanted = re.split(r"!=|==?", requirement, maxsplit=1)
    return path.strip().split("."), wanted.strip(), "!=" in requirement
