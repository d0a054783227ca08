"""What the duties need of the outside: objects watched and written, somebody to tell, a clock.

The processes hand in the real ones, tests hand in others. Knows no protocol and no address.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from dra.finding import Finding

# An object of the API as JSON has it; what is not read here must survive being written back.
Object: TypeAlias = dict[str, Any]
T_co = TypeVar("T_co", covariant=True)


class About(msgspec.Struct, frozen=True):
    """The object that a finding is told of."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class Kept(Protocol[T_co]):
    """One watched object."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty for what has none."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its identity."""

    @property
    def version(self) -> str:
        """Its resourceVersion."""

    @property
    def raw(self) -> bytes:
        """All of it."""

    @property
    def value(self) -> T_co:
        """What is read of it."""


class Watched(Protocol[T_co]):
    """All objects of a kind, as last seen."""

    def get(self, name: str, namespace: str = "") -> Kept[T_co] | None:
        """Give one of them."""

    def all(self, namespace: str | None = None) -> Iterable[Kept[T_co]]:
        """Give all of them, or those of a namespace."""


class Store(Protocol):
    """Objects of one kind on the API server; what goes wrong there is raised."""

    async def read(self, name: str, namespace: str = "") -> Object | None:
        """Give an object as it is now."""

    async def list(self, namespace: str = "", *, fields: str = "") -> list[Object]:
        """Give the objects of a namespace, those that a field selector selects."""

    async def create(self, value: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        """Make an object, or see what would be made."""

    async def replace(self, value: Object, namespace: str = "") -> Object:
        """Write an object unless it has changed since it was read."""

    async def apply(self, value: Object, namespace: str = "") -> Object:
        """Say the fields that are ours."""

    async def merge(self, name: str, value: Object, namespace: str = "") -> Object:
        """Change what `value` says, null takes away."""

    async def delete(self, name: str, namespace: str = "", *, uid: str, version: str) -> bool:
        """Delete just this version of just this object; False where it is another by now."""


class Told(Protocol):
    """Who tells people, and who counts."""

    def say(self, finding: Finding, about: About, action: str) -> None:
        """Tell a finding about an object; never waits."""

    def count(self, duty: str, what: str) -> None:
        """Count something that a duty did or met."""

    def level(self, duty: str, what: str, amount: float) -> None:
        """Say how much of something there is now."""


Now: TypeAlias = Callable[[], datetime]


def refused(error: Exception, *codes: int) -> bool:
    """Whether the API server answered an error with one of these codes.

    Its exception is known here by what it says only: `code` is 0 where no answer came.
    """
    return getattr(error, "code", None) in codes
