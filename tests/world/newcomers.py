"""Nodes of others with the name of one that was ours, and what our controller knew of them.

It keeps other schedulers off such a node until our allocators know it. It can do so before the node
is ready, if it has known both nodes since it leads, and hears of the new one as soon as others do.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from drawbridge.agreement.owned_pools import has_fence as is_fenced
from tests.cluster.fake.kinds import JSON, Kind, named
from tests.cluster.fake.store import Change
from tests.world.control import Controllers
from tests.world.fence import DeviceFence
from tests.world.machines import READY_SECONDS
from tests.world.network import Network
from tests.world.objects import has_fence

# From the time at which the controller has heard of a node until the node has its taint.
_WRITE_SECONDS: Final = 2.0


class Newcomers:
    """Follows nodes in the storage."""

    def __init__(self, network: Network, controllers: Controllers, fence: DeviceFence) -> None:
        self._network, self._controllers, self._fence = network, controllers, fence
        # The terms of the controller that knew the last node of ours of a name; 0 if none did. They
        # count for each node that follows, until one has the fence or is heard of in time.
        self._terms: dict[str, int] = {}
        self._unheard: set[str] = set()  # the UIDs of nodes that it heard of too late
        # What was given on nodes that are not ready and can get their taint in time, by UID.
        self._given: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}  # the UIDs of the last nodes by name
        self._excused: set[tuple[str, frozenset[str]]] = set()  # also when the node has gone
        self.beyond_fences: list[str] = []  # what our allocators gave on nodes without a fence

    def follow(self, kind: Kind, change: Change) -> None:
        """Note a node that is deleted, and look what is known of one that registers."""
        if kind.plural != "nodes":
            return
        before, after = change.before, change.after
        name = (before or after or {})["metadata"]["name"]
        if after is not None:
            self._last[name] = after["metadata"]["uid"]
        if before is not None and after is None and has_fence(before):
            heard = self._controllers.find_node(name)
            is_known = heard is not None and is_fenced(heard.value.spec.taints or ())
            self._terms[name] = self._controllers.terms if is_known else 0
        elif after is not None and has_fence(after):
            self._terms.pop(name, None)
        elif before is None and after is not None and name in self._terms:
            self._look_soon(name, after["metadata"]["uid"], self._terms[name])

    def _look_soon(self, name: str, uid: str, term: int) -> None:
        def look() -> None:
            heard = self._controllers.find_node(name)
            if term != self._controllers.terms or heard is None or heard.uid != uid:
                self._unheard.add(uid)
                self._network.count("node of others that the controller hears of too late")

        def judge() -> None:
            if self._controllers.find_node(name) is None:
                self._unheard.add(uid)  # its write has to wait
            given, node = self._given.pop(uid), self._find(name)
            is_open = node is not None and node["metadata"]["uid"] == uid and not has_fence(node)
            if is_open and uid not in self._unheard:
                self._terms.pop(name, None)
                self.beyond_fences += given

        self._given[uid] = []
        asyncio.get_running_loop().call_later(READY_SECONDS - _WRITE_SECONDS, look)
        asyncio.get_running_loop().call_later(READY_SECONDS, judge)

    def note_given(self, claim: str, name: str) -> None:
        """Note that an allocator of ours gave a device of a node; one that is new has its time."""
        node = self._find(name)
        if node is None or has_fence(node) or self._fence.guards(name):
            return
        if node["metadata"]["uid"] in self._unheard:
            return
        given = self._given.get(node["metadata"]["uid"], self.beyond_fences)
        given.append(f"{claim} is on {name}")

    def _find(self, name: str) -> JSON | None:
        return self._network.store.find(named("nodes"), "", name)

    def excuses(self, name: str, claims: Iterable[str]) -> bool:
        """Whether nobody could keep others off a node when these claims came to have a device."""
        if self._last.get(name) in self._unheard:
            self._excused.add((name, frozenset(claims)))
        return (name, frozenset(claims)) in self._excused
