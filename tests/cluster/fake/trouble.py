"""Ways for the fake API server to misbehave, on request and for as many requests as asked."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.cluster.fake.kinds import JSON


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watches(self) -> bool:
        """Whether it asks to be kept told."""
        return self.query.get("watch") in ("true", "1")


@dataclass
class Trouble:
    """What is done to the requests it is meant for, instead of answering or before."""

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
        """Tell whether it is meant for a request."""
        return (
            self.times > 0
            and self.method in ("", seen.method)
            and self.part in seen.path
            and self.watch in (None, seen.watches)
        )
