"""The book of what Drawbridge changed: translated pods by day, namespace, owner and claim.

A day has a bounded number of rows; what is beyond it is summed up. Pods are counted when they are
seen, and so are in the book when they are gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

KEY: Final = "changes.json"
OTHER: Final = "(other)"
# The book of usage is beside it in one ConfigMap.
MAX_ROWS: Final = 400
MAX_OF_NAMESPACE: Final = 100
_MAX_TEXT: Final = 120


class ChangedPods(NamedTuple):
    """What became of alike pods: their root owner, and the claims that they got."""

    namespace: str
    owner: str
    claims: str


class ChangesOfDay(msgspec.Struct, frozen=True):
    """The rows of a day: namespace, owner, claims, and the number of pods.

    `through` is the creation of the last pod that was counted, in Unix seconds.
    """

    through: int = 0
    rows: tuple[tuple[str, str, str, int], ...] = ()


class ChangeBook:
    """The changes of one day, as they are counted."""

    def __init__(self, read: ChangesOfDay | None = None) -> None:
        self._pods = Counter[ChangedPods]()
        self._of_namespace = Counter[str]()
        self.through = read.through if read else 0
        for namespace, owner, claims, number in read.rows if read else ():
            self._add(ChangedPods(namespace, owner, claims), number)

    def count(self, change: ChangedPods, created: int) -> None:
        """Count one pod."""
        self.through = max(self.through, created)
        cut = (text[:_MAX_TEXT] for text in (change.owner, change.claims))
        self._add(ChangedPods(change.namespace, *cut), 1)

    def _add(self, change: ChangedPods, number: int) -> None:
        if change not in self._pods:
            if self._of_namespace[change.namespace] >= MAX_OF_NAMESPACE:
                change = ChangedPods(change.namespace, OTHER, OTHER)
            if change not in self._pods and len(self._pods) >= MAX_ROWS:
                change = ChangedPods(OTHER, OTHER, OTHER)
        self._of_namespace[change.namespace] += change not in self._pods
        self._pods[change] += number

    def write(self) -> str:
        """Return the book as text."""
        rows = tuple((*change, number) for change, number in sorted(self._pods.items()))
        return msgspec.json.encode(ChangesOfDay(self.through, rows)).decode()


def read_changes(config_map: Mapping[str, Any]) -> ChangesOfDay | None:
    """Read the changes in a ConfigMap; None if it has none that can be read."""
    data = config_map.get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    try:
        return msgspec.json.decode(text, type=ChangesOfDay) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None


def sum_changes(days: Iterator[ChangesOfDay]) -> list[tuple[ChangedPods, int]]:
    """Return the changes of several days, most pods first."""
    pods = Counter[ChangedPods]()
    for day in days:
        for namespace, owner, claims, number in day.rows:
            pods[ChangedPods(namespace, owner, claims)] += number
    return sorted(pods.items(), key=lambda each: (-each[1], each[0]))
