"""Notices that the API server has another history than the one that was watched.

That is so after etcd was restored from a backup. Versions of the two histories cannot be compared:
whatever was derived from the old one can be wrong, also where the server has passed its versions.

While a watch is in sync with a version, its reader has every object as it is at that version. So a
list of the same history cannot have an object with that version or an older one that the reader
does not have, and no object whose deletion the reader has seen. What a restored cluster has in
common with the old history is equal, what was written since then has newer versions, and everything
else contradicts.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from drawbridge.resource_version import parse_version

# A backup is restored while no API server runs, so that none answers for longer than this.
RESTORE_SECONDS: Final = 2.0
# Where each answer takes long, what was read is accepted after so many attempts.
INTERRUPTED_ATTEMPTS: Final = 3


class HistoryChangedError(Exception):
    """The API server was restored from a backup: what was derived from its objects must go."""


class Continuity:
    """Tells whether a restore fits between answers that are taken for those of one history.

    A server gives an answer between its request and its arrival. So no restore fits if each answer
    arrives soon after the request before it was sent. Nothing is verified while no watch is open.
    """

    needs_comparison = True  # whether a watch cannot continue before all objects are compared

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._asked: float | None = None
        self._is_broken = False
        self._attempts = 0  # in a row that were too slow
        self.verified: Final = asyncio.Event()

    def begin(self, asked: float | None = None) -> None:
        """Begin with the next answer, or with one that was given at a time or later."""
        self._asked, self._is_broken = asked, False

    def add(self, asked: float) -> None:
        """Add an answer that has just arrived, to a request that was sent at a time."""
        if self._asked is not None and self._now() - self._asked > RESTORE_SECONDS:
            self._is_broken = True
        self._asked = asked

    def reaches(self, asked: float) -> bool:
        """Whether a watch that has just been opened is of the history of the answers before."""
        self.add(asked)
        self._attempts = self._attempts + 1 if self._is_broken else 0
        if 0 < self._attempts < INTERRUPTED_ATTEMPTS:
            self.doubt()
            return False
        self._attempts = 0
        self.confirm()
        return True

    def end_watch(self, due: float) -> None:
        """End a watch that a server ends at a time; one that ended before can be cut by a restore.

        An end that a suspended process reads later can have another cause: it is an old answer.
        """
        if self._now() - due < -RESTORE_SECONDS:
            self.doubt()
        self.begin(due)

    def confirm(self) -> None:
        """Note that an open watch is of the history of what was read."""
        self.needs_comparison = False
        self.verified.set()

    def doubt(self) -> None:
        """Note that the server may have another history."""
        self.needs_comparison = True
        self.verified.clear()


class Identity(NamedTuple):
    """An object at a version."""

    uid: str
    version: str


def find_contradiction(
    cached: Mapping[tuple[str, str], Identity],
    synced_to: str,
    listed: Mapping[tuple[str, str], Identity],
    is_deleted: Callable[[str], bool] = lambda _: False,
) -> tuple[str, str] | None:
    """Return an object of a list that contradicts what is cached at a version; None if none does.

    Keys are namespace and name; `is_deleted` tells of a UID whether the deletion was seen.
    """
    latest = parse_version(synced_to)
    for key, identity in listed.items():
        is_covered = 0 < parse_version(identity.version) <= latest
        if (is_covered and cached.get(key) != identity) or is_deleted(identity.uid):
            return key
    return None


def check_listed(
    path: str,
    cached: Mapping[tuple[str, str], Identity],
    synced_to: str,
    listed: Mapping[tuple[str, str], Identity],
    is_deleted: Callable[[str], bool],
) -> None:
    """Raise HistoryChangedError if a list contradicts what is cached at a version."""
    key = find_contradiction(cached, synced_to, listed, is_deleted)
    if key is not None:
        name, at = "/".join(filter(None, key)), listed[key].version
        raise HistoryChangedError(
            f"{path}: {name} has version {at}, and was another object or deleted when "
            f"version {synced_to} was reached"
        )


class ExpectedVersions:
    """What responses have told of objects, and the watch has not reached."""

    newest = ""  # the latest version in a response

    def __init__(self, path: str) -> None:
        self._path = path
        self._expected: dict[tuple[str, str], Identity] = {}

    def __contains__(self, key: tuple[str, str]) -> bool:
        """Whether an object is expected at a version that the watch has not reached."""
        return key in self._expected

    def add(self, key: tuple[str, str], identity: Identity, reached: str) -> bool:
        """Add what a response has told; False if the watch, or another response, told as much."""
        self.newest = max(self.newest, identity.version, key=parse_version)
        newest = self._expected[key].version if key in self._expected else reached
        if is_newest := is_older(newest, identity.version):
            self._expected[key] = identity
        return is_newest

    def observe(self, key: tuple[str, str], version: str) -> None:
        """Drop an object of which the watch tells."""
        expected = self._expected.get(key)
        if expected is not None and not is_older(version, expected.version):
            del self._expected[key]

    def drop_reached(self, version: str) -> None:
        """Drop the objects of which a list tells."""
        left = self._expected.items()
        self._expected = {key: each for key, each in left if is_older(version, each.version)}

    def compare(self, listed: Mapping[tuple[str, str], Identity], listed_to: str) -> None:
        """Raise HistoryChangedError if a list has an object as it was before a response."""
        for key, (uid, had) in self._expected.items():
            shown = listed.get(key)
            if shown is None or shown.uid != uid or is_older(listed_to, had):
                continue
            if is_older(shown.version, had):
                name = "/".join(filter(None, key))
                raise HistoryChangedError(
                    f"{self._path}: {name} had version {had}, and has {shown.version} in a list"
                )

    def check_reached(self, version: str) -> None:
        """Raise HistoryChangedError if the watch has passed a version without an event."""
        for key, (_, had) in self._expected.items():
            if not is_older(version, had):
                name = "/".join(filter(None, key))
                raise HistoryChangedError(
                    f"{self._path}: {name} had version {had}, and version {version} was reached "
                    "without"
                )


def is_older(version: str, than: str) -> bool:
    """Compare two versions of one history; one that is not a number counts as new."""
    return 0 < parse_version(version) < parse_version(than)
