"""Facts as text: canonical bytes, their hash, and reading them back strictly.

The same facts are the same bytes anywhere. A file may hold some of the tables only, to stand in
for what was gathered. Knows nothing of files.
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
    """Encode facts as canonical JSON: sorted keys, no blanks, no defaults."""
    return msgspec.json.encode(_named(facts), order="sorted")


def facts_hash(facts: Facts) -> str:
    """The hash of the content."""
    return f"sha256:{hashlib.sha256(encode_facts(facts)).hexdigest()}"


def facts_to_plain(facts: Facts) -> dict[str, object]:
    """The file: kind and version first, then the hash, then the tables."""
    content = _named(facts)
    rest = {name: item for name, item in content.items() if name not in ("apiVersion", "kind")}
    return {"apiVersion": API_VERSION, "kind": KIND, HASH: facts_hash(facts), **rest}


def read_facts(value: object, base: Facts | None = None) -> Facts | tuple[Finding, ...]:
    """Read a file; tables that it does not have are those of `base`.

    A hash in the file must be that of the file's own content.
    """
    said = None
    if isinstance(value, Mapping):
        said = value.get(HASH)
        value = {name: item for name, item in value.items() if name != HASH}
    found = convert(value, _SCHEMA, object=KIND)
    if isinstance(found, tuple):
        return found
    own: Facts = found
    if said is not None and said != facts_hash(own):
        message = f"the content has {facts_hash(own)}, the file says {said}"
        return (codes.HASH_DIFFERS.at(HASH, message, object=KIND),)
    if base is None or not isinstance(value, Mapping):
        return own
    fields = (f for f in Facts.__struct_fields__ if f not in value and f in _TABLES)
    return msgspec.structs.replace(own, **{field: getattr(base, field) for field in fields})


_TABLES: Final = ("cluster", "classes", "names", "products", "drivers", "shapes", "omitted")


def _named(facts: Facts) -> dict[str, object]:
    """Everything, also kind and version, which are defaults."""
    content = msgspec.to_builtins(facts)
    return {"apiVersion": API_VERSION, "kind": KIND, **content}
