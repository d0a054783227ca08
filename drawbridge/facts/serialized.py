"""Encode facts as canonical JSON, compute their hash, and read facts files.

Equal facts have equal bytes. The hash covers what decisions read: one more node like the others
changes the counts, which messages quote, and not the hash. A facts file may contain only some
tables, to override the tables computed from a cluster.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.dra.decode_errors import Schema, convert
from drawbridge.facts import codes
from drawbridge.facts.model import KIND, ClassFacts, Facts
from drawbridge.finding import Finding
from drawbridge.names import API_VERSION

HASH: Final = "hash"
_SCHEMA: Final = Schema(Facts)


def encode_facts(facts: Facts) -> bytes:
    """Encode facts as canonical JSON: sorted keys, no whitespace, no defaults."""
    return msgspec.json.encode(_content(facts), order="sorted")


def facts_hash(facts: Facts) -> str:
    """Return the hash of the facts without counts, with the shapes in order of frequency."""
    return _hash(_without_counts(facts))


def accepted_hashes(facts: Facts) -> frozenset[str]:
    """Return the hashes that name these facts. Earlier versions also hashed the counts."""
    return frozenset((facts_hash(facts), _hash(facts)))


def has_hash(facts: Facts, digest: str) -> bool:
    """Tell whether a hash names these facts."""
    return digest in accepted_hashes(facts)


def _hash(facts: Facts) -> str:
    return f"sha256:{hashlib.sha256(encode_facts(facts)).hexdigest()}"


def _without_counts(facts: Facts) -> Facts:
    """Reduce counts to what decisions read of them: whether there are any, and their order."""
    return replace(
        facts,
        classes=tuple(map(_reduce_class, facts.classes)),
        names=tuple(
            replace(name, nodes=min(name.nodes, 1), devices=0, most=0, dual=min(name.dual, 1))
            for name in facts.names
        ),
        products=tuple(replace(each, devices=0, nodes=0, most=0) for each in facts.products),
        drivers=tuple(
            replace(driver, devices=0, nodes=0, dual=min(driver.dual, 1))
            for driver in facts.drivers
        ),
        shapes=tuple(replace(each, nodes=1) for each in facts.shapes_by_frequency),
        offers=tuple(replace(each, nodes=1) for each in facts.offers_by_frequency),
        omitted=dict.fromkeys(facts.omitted, 1),
    )


def _reduce_class(row: ClassFacts) -> ClassFacts:
    """Keep whether none, some or all of the devices are owned, which decides a warning.

    Earlier versions tell none and unknown apart no more than this hash does.
    """
    owned = bool(row.owned) + bool(row.owned and row.owned == row.devices)
    return replace(row, devices=0, owned=owned or None, closed=False)


def facts_to_plain(facts: Facts) -> dict[str, object]:
    """Return the file content: kind and version, then the hash, then the tables."""
    content = _content(facts)
    tables = {name: item for name, item in content.items() if name not in ("apiVersion", "kind")}
    return {"apiVersion": API_VERSION, "kind": KIND, HASH: facts_hash(facts), **tables}


def read_facts(value: object, base: Facts | None = None) -> Facts | tuple[Finding, ...]:
    """Read the content of a facts file. Takes missing tables from `base`.

    A hash in the file must match the content of the file.
    """
    recorded = None
    if isinstance(value, Mapping):
        recorded = value.get(HASH)
        value = {name: item for name, item in value.items() if name != HASH}
    decoded = convert(value, _SCHEMA, object=KIND)
    if isinstance(decoded, tuple):
        return decoded
    own: Facts = decoded
    if recorded is not None and not has_hash(own, f"{recorded}"):
        message = f"hash is {recorded}, but the content has {facts_hash(own)}"
        return (codes.FACTS_HASH_DIFFERS.at(HASH, message, object=KIND),)
    if base is None or not isinstance(value, Mapping):
        return own
    # The offers of `base` repeat what the file overrides.
    overridden = {"offers"} if _OFFERED.intersection(value) else set()
    fields = _TABLES - value.keys() - overridden
    return replace(own, **{field: getattr(base, field) for field in fields})


_TABLES: Final = frozenset(
    (
        "cluster",
        "classes",
        "names",
        "products",
        "drivers",
        "shapes",
        "offers",
        "networks",
        "omitted",
        "scheduler",
    )
)
# Tables that say what nodes offer, as `offers` does.
_OFFERED: Final = frozenset({"classes", "names"})


def _content(facts: Facts) -> dict[str, object]:
    """Return all fields, including kind and apiVersion, which are defaults."""
    content = msgspec.to_builtins(facts)
    return {"apiVersion": API_VERSION, "kind": KIND, **content}
