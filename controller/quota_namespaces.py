"""The namespaces with quotas: what each has, and which have to be looked at.

These are the ones of which a quota, or the namespace itself, has changed since nothing was left to
do in them; all, if there are none, or if something changed that concerns all.
"""

import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

from controller.protocols import ObjectCache, WatchedObject
from controller.watched_objects import PartialObject, WatchedQuota

_MAX_AGE: Final = 1.0  # of what a run knows of a namespace at its turn


class QuotaNamespaces:
    """Reads the quotas of all namespaces, and remembers what was seen of those that are done."""

    def __init__(
        self,
        quotas: ObjectCache[WatchedQuota],
        namespaces: ObjectCache[PartialObject],
        now: Callable[[], float],
    ) -> None:
        self._quotas, self._namespaces = quotas, namespaces
        self._now = now
        self._read_at = -math.inf
        self._quotas_of: dict[str, list[WatchedQuota]] = {}
        # What was read of each namespace: the changes that concern all, and versions.
        self._states: dict[str, tuple[int | str, ...]] = {}
        self._settled: dict[str, tuple[int | str, ...]] = {}
        self._changes = 0

    def read(self) -> AbstractSet[str]:
        """Read the quotas, and return the namespaces that have some.

        The watch of quotas can be ahead of that of namespaces. In a namespace that is being
        deleted, nothing can be created.
        """
        self._read_at = self._now()
        quotas: dict[str, list[WatchedObject[WatchedQuota]]] = {}
        for quota in self._quotas.all():
            quotas.setdefault(quota.namespace, []).append(quota)
        self._quotas_of, self._states = {}, {}
        for name, listed in quotas.items():
            cached = self._namespaces.get(name)
            if cached is not None and cached.value.metadata.deletion_timestamp is None:
                self._quotas_of[name] = [quota.value for quota in listed]
                versions = (quota.version for quota in listed)
                self._states[name] = (self._changes, cached.version, *versions)
        self._settled = {name: each for name, each in self._settled.items() if name in quotas}
        return self._quotas_of.keys()

    def find_due(self) -> list[str]:
        """Return the namespaces that have to be looked at."""
        states = self._states.items()
        changed = [name for name, state in states if self._settled.get(name) != state]
        return changed or [*self._states]

    def find(self, name: str) -> list[WatchedQuota]:
        """Return the quotas of a namespace as they are now: the writes before take time."""
        if self._now() - self._read_at >= _MAX_AGE:
            self.read()
        return self._quotas_of.get(name, [])

    def settle(self, name: str) -> None:
        """Note that nothing is left to do in a namespace until what was found of it changes."""
        self._settled[name] = self._states[name]

    def look_at_all(self) -> None:
        """Look at all namespaces: something has changed that decides what they need."""
        self._changes += 1
