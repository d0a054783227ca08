"""Read the facts that the controller publishes in a ConfigMap.

The hash of the facts must match their content. Otherwise reading fails.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.dra.counted import count_noun
from drawbridge.facts import serialized
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding

CURRENT_KEY: Final = "current"
_SHORT_HASH_LENGTH: Final = 16
_HASH_PREFIX: Final = "sha256:"
_KEY_PREFIX: Final = "facts-"


class PublishedFactsError(Exception):
    """The ConfigMap does not contain usable facts. The message describes the problem."""


class FactsConfigMap(msgspec.Struct, frozen=True):
    """The ConfigMap in its wire format."""

    data: Mapping[str, str] | None = None


def build_data_key(digest: str) -> str:
    """Return the key in `data` that holds the facts with this hash."""
    return f"{_KEY_PREFIX}{digest.removeprefix(_HASH_PREFIX)[:_SHORT_HASH_LENGTH]}.json"


def read_current_hash(config_map: FactsConfigMap) -> str:
    """Return the hash of the current facts. Raise PublishedFactsError if it is not valid."""
    digest = (config_map.data or {}).get(CURRENT_KEY, "")
    if not digest.startswith(_HASH_PREFIX):
        raise PublishedFactsError(f"data.{CURRENT_KEY} is not a valid hash: {digest[:80]!r}")
    return digest


def read_facts(config_map: FactsConfigMap) -> Facts:
    """Read the current facts. Raise PublishedFactsError if they are missing or invalid."""
    digest = read_current_hash(config_map)
    key = build_data_key(digest)
    content = (config_map.data or {}).get(key)
    if content is None:
        raise PublishedFactsError(f"data.{CURRENT_KEY} refers to data.{key}, which does not exist")
    try:
        plain = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise PublishedFactsError(f"data.{key} is not valid JSON: {error}") from None
    facts = serialized.read_facts(plain)
    if not isinstance(facts, Facts):
        raise PublishedFactsError(f"data.{key}: {_format_first(facts)}")
    if not serialized.has_hash(facts, digest):
        actual = serialized.facts_hash(facts)
        raise PublishedFactsError(f"data.{key} has the hash {actual}, expected {digest}")
    return facts


def read_kept_facts(config_map: FactsConfigMap) -> tuple[Facts, ...]:
    """Read all kept versions of the facts, except for unreadable ones."""
    kept = []
    for key, content in sorted((config_map.data or {}).items()):
        if key.startswith(_KEY_PREFIX):
            try:
                facts = serialized.read_facts(msgspec.json.decode(content))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            kept += [facts] if isinstance(facts, Facts) else []
    return tuple(kept)


def _format_first(findings: tuple[Finding, ...]) -> str:
    more = f", and {count_noun(len(findings) - 1, 'more error')}" if len(findings) > 1 else ""
    return f"{findings[0].path}: {findings[0].message}{more}"
