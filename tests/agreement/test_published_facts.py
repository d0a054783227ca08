"""Tests of published facts whose hash an earlier version of the controller computed."""

from pathlib import Path

import msgspec
import pytest

from controller.facts import ParsedVersions
from drawbridge.agreement.published_facts import (
    FactsConfigMap,
    PublishedFactsError,
    build_data_key,
    read_facts,
)
from drawbridge.config.model import Configuration
from drawbridge.facts import serialized
from drawbridge.translate.context import make_context

OLDER = Path(__file__).parents[1] / "facts" / "cases" / "older.json"


def published(digest: str) -> dict[str, str]:
    """The data of a ConfigMap with the older facts under a hash."""
    plain = msgspec.json.decode(OLDER.read_bytes())
    del plain["hash"]
    return {"current": digest, build_data_key(digest): msgspec.json.encode(plain).decode()}


def test_facts_of_an_earlier_controller_are_used_under_their_own_hash() -> None:
    digest = msgspec.json.decode(OLDER.read_bytes())["hash"]
    facts = read_facts(FactsConfigMap(published(digest)))
    assert serialized.facts_hash(facts) != digest
    assert make_context(Configuration(), facts, digest).facts_digest == digest
    assert ParsedVersions().find(published(digest), digest) == facts


def test_facts_under_a_hash_of_other_facts_are_not_used() -> None:
    digest = f"sha256:{'0' * 64}"
    with pytest.raises(PublishedFactsError, match="expected sha256:000"):
        read_facts(FactsConfigMap(published(digest)))
    assert ParsedVersions().find(published(digest), digest) is None
