"""Encode facts as canonical JSON, compute their hash, and read facts files.

Equal facts have equal bytes. A facts file may contain only some tables, to override the tables
computed from a cluster.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from dra.decode_errors import Schema, convert
from dra.finding import Finding
from dra.names import API_VERSION
from facts import codes
from facts.model import KIND, Facts

HASH: Final = "hash"
_SCHEMA: Final = Schema(Facts)


def encode_facts(facts: Facts) -> bytes:
    """Encode facts as canonical JSON: sorted keys, no whitespace, no defaults."""
    return msgspec.json.encode(_content(facts), order="sorted")


def facts_hash(facts: Facts) -> str:
    """Return the hash of the content."""
    return f"sha256:{hashlib.sha256(encode_facts(facts)).hexdigest()}"


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
    found = convert(value, _SCHEMA, object=KIND)
    if isinstance(found, tuple):
        return found
    own: Facts = found
    if recorded is not None and recorded != facts_hash(own):
        message = f"hash is {recorded}, but the content has {facts_hash(own)}"
        return (codes.HASH_DIFFERS.at(HASH, message, object=KIND),)
    if base is None or not isinstance(value, Mapping):
        return own
    fields = (f for f in Facts.__struct_fields__ if f not in value and f in _TABLES)
    return msgspec.structs.replace(own, **{field: getattr(base, field) for field in fields})


_TABLES: Final = ("cluster", "classes", "names", "products", "drivers", "shapes", "omitted")


def _content(facts: Facts) -> dict[str, object]:
    """Return all fields, including kind and apiVersion, which are defaults."""
    content = msgspec.to_builtins(facts)
    return {"apiVersion": API_VERSION, "kind": KIND, **content}
