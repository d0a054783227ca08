"""The conformance cases of bridge/protocol."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

PROTOCOL = Path(__file__).parents[2] / "bridge" / "protocol"
Plain: TypeAlias = dict[str, Any]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case; README.md of the folder describes the fields."""

    name: str
    plays: tuple[str, ...]
    request: Plain
    reply: Plain
    objects: tuple[Plain, ...] = ()
    status: Plain = msgspec.field(
        default_factory=lambda: {"ready": True, "leading": True, "reasons": []}
    )
    binder: Plain = {}
    before: tuple[Plain, ...] = ()
    plugin: Plain | None = None

    def __str__(self) -> str:
        return self.name


CASES = tuple(
    msgspec.json.decode(path.read_bytes(), type=Case)
    for path in sorted((PROTOCOL / "cases").glob("*.json"))
)
CLUSTER: tuple[Plain, ...] = tuple(json.loads((PROTOCOL / "cluster.json").read_text("utf-8")))
