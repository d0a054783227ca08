"""The facts that the controller publishes, as one ConfigMap: which are current, and reading them.

A hash that does not fit its content is an error, never facts. Knows nothing of watching, nor of
what facts mean.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from dra.finding import Finding
from facts import serialized
from facts.model import Facts

CURRENT: Final = "current"
_SHORT: Final = 16
_HASH: Final = "sha256:"


class UnpublishedError(Exception):
    """The ConfigMap does not hold facts that can be used; says what is wrong with it."""


class Published(msgspec.Struct, frozen=True):
    """The ConfigMap, as it is on the wire."""

    data: Mapping[str, str] | None = None


def key(digest: str) -> str:
    """Under which key the facts with this hash stand."""
    return f"facts-{digest.removeprefix(_HASH)[:_SHORT]}.json"


def current(published: Published) -> str:
    """The hash of the facts that count; UnpublishedError where it does not say."""
    said = (published.data or {}).get(CURRENT, "")
    if not said.startswith(_HASH):
        raise UnpublishedError(f"data.{CURRENT} is no hash: {said[:80]!r}")
    return said


def facts(published: Published) -> Facts:
    """Read the current facts; UnpublishedError says why there are none."""
    said = current(published)
    content = (published.data or {}).get(key(said))
    if content is None:
        raise UnpublishedError(f"data.{key(said)} is not there, and data.{CURRENT} names it")
    try:
        plain = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnpublishedError(f"data.{key(said)} is no JSON: {error}") from None
    found = serialized.read(plain)
    if not isinstance(found, Facts):
        raise UnpublishedError(f"data.{key(said)}: {_first(found)}")
    if (has := serialized.digest(found)) != said:
        raise UnpublishedError(f"data.{key(said)} has the hash {has}, not {said}")
    return found


def _first(findings: tuple[Finding, ...]) -> str:
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{findings[0].path}: {findings[0].message}{more}"
