"""Faults that tests inject into the fake API server for a number of requests."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.cluster.fake.kinds import JSON


@dataclass(frozen=True)
class Seen:
    """A recorded request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def watches(self) -> bool:
        """Whether the request is a watch."""
        return self.query.get("watch") in ("true", "1")


@dataclass
class Trouble:
    """A fault for matching requests, instead of or before their handling."""

    method: str
    part: str
    watch: bool | None
    times: float
    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after: float | None = None
    body: bytes | None = None
    cut: bool = False
    after: bool = False
    details: JSON = field(default_factory=dict)
    gate: asyncio.Event | None = None
    action: Callable[[], object] | None = None

    def meets(self, seen: Seen) -> bool:
        """Whether the fault applies to a request."""
        return (
            self.times > 0
            and self.method in ("", seen.method)
            and self.part in seen.path
            and self.watch in (None, seen.watches)
        )
