"""The book of what Drawbridge changed: translated pods by day, namespace, owner and claim.

A day has a bounded number of rows; what is beyond it is summed up. Pods are counted when they are
seen, and so are in the book when they are gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.usage.accounts import OTHER
from drawbridge.usage.book import clean_name

KEY: Final = "changes.json"
# The book of usage is beside it in one ConfigMap.
MAX_ROWS: Final = 400
MAX_OF_NAMESPACE: Final = 100
MAX_TEXT: Final = 120
# Bytes of a row as JSON.
_LONGEST_ROW: Final = 3 * MAX_TEXT + 40


class ChangedPods(NamedTuple):
    """What became of alike pods: their root owner, and the claims that they got."""

    namespace: str
    owner: str
    claims: str


class ChangesOfDay(msgspec.Struct, frozen=True):
    """The rows of a day: namespace, owner, claims, and the number of pods.

    `through` is the last second of which pods were counted, in Unix time.
    """

    through: int = 0
    rows: tuple[tuple[str, str, str, int], ...] = ()


class ChangeBook:
    """The changes of one day, as they are counted.

    If there is no room, the namespace with most rows loses one, so that nobody displaces others.
    """

    def __init__(self, read: ChangesOfDay | None = None) -> None:
        self._pods: dict[str, Counter[ChangedPods]] = {}
        self.through = read.through if read else 0
        for namespace, owner, claims, number in read.rows if read else ():
            self._add(ChangedPods(namespace, owner, claims), number)

    def count(self, change: ChangedPods, through: int, number: int = 1) -> None:
        """Count alike pods; all that were created until then are counted now."""
        self.through = max(self.through, through)
        self._add(change, number)

    def _add(self, change: ChangedPods, number: int) -> None:
        change = ChangedPods(*(clean_name(text, MAX_TEXT) for text in change))
        rows = self._pods.setdefault(change.namespace, Counter())
        if change not in rows and len(rows) >= MAX_OF_NAMESPACE:
            change = _other(change.namespace)
        rows[change] += number
        while self._size() > MAX_ROWS:
            self._join_rows()

    def _size(self) -> int:
        return sum(map(len, self._pods.values()))

    def _join_rows(self) -> None:
        """Join two rows of the namespace with most rows, or two namespaces with one row each."""
        namespace = max(self._pods, key=lambda each: (len(self._pods[each]), each))
        rows = self._pods[namespace]
        if len(rows) == 1:
            namespace = max(each for each in self._pods if each != OTHER)
            rows = self._pods.pop(namespace)
            self._pods.setdefault(OTHER, Counter())[_other(OTHER)] += rows.total()
            return
        other = _other(namespace)
        owned = sorted((each for each in rows if each != other), key=lambda each: rows[each])
        for each in owned[: 1 if other in rows else 2]:
            rows[other] += rows.pop(each)

    def write(self, most: int) -> str | None:
        """Return the book as text of so many bytes at most; None if that is not possible."""
        while len(text := self._encode()) > most:
            for _ in range(max(1, (len(text) - most) // _LONGEST_ROW)):
                if self._pods.keys() <= {OTHER}:
                    return None
                self._join_rows()
        return text.decode()

    def _encode(self) -> bytes:
        pods = sorted(each for rows in self._pods.values() for each in rows.items())
        rows = tuple((*change, number) for change, number in pods)
        return msgspec.json.encode(ChangesOfDay(self.through, rows))


def _other(namespace: str) -> ChangedPods:
    return ChangedPods(namespace, OTHER, OTHER)


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
