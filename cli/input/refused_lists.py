"""Says in one finding all that a command needs to list and may not."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from cli.input import codes
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding

if TYPE_CHECKING:
    from drawbridge.cluster.resources import Resource

T = TypeVar("T")
_FORBIDDEN: Final = 403


class RefusedLists:
    """The lists of kinds that the API server refused. False if there is none."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._names: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    async def read(self, resource: "Resource", reading: Awaitable[T]) -> T | None:
        """Return a list; None, and remember it, if it is refused."""
        try:
            return await reading
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            group = f".{resource.group}" if resource.group else ""
            self._names.append(f"{resource.plural}{group}")
            self._messages.append(error.describe())
            return None

    def describe(self) -> str:
        """Return what the API server said of the first list, and the names of the others."""
        others = ", ".join(self._names[1:])
        return f"{self._messages[0]}; nor may you read {others}" if others else self._messages[0]

    def report(self, reason: str = "", remedy: str = codes.ASK_FOR_READER) -> Finding:
        """Return an error about all lists; the reason says why nothing else takes their place."""
        message = f"{self.describe()}; {reason}" if reason else self.describe()
        return codes.CLUSTER_UNREADABLE.at("", message, remedy=remedy)
