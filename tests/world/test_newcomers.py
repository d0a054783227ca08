"""Which devices of a new node with the name of one of ours our allocators must not give."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from controller.watched_objects import WatchedNode
from drawbridge.cluster.store import CachedObject
from tests.cluster.fake.kinds import named
from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world.control import Controllers
from tests.world.fence import DeviceFence
from tests.world.machines import READY_SECONDS
from tests.world.network import Network
from tests.world.newcomers import Newcomers
from tests.world.objects import make_node

NODE, NODES = "n4", named("nodes")


class Controller(Controllers):
    """One that leads, and knows the last node of which it has heard."""

    heard: CachedObject[WatchedNode] | None = None

    def find_node(self, _: str) -> CachedObject[WatchedNode] | None:
        """Return the node."""
        return self.heard

    def start_again(self) -> None:
        """Be another process, which has heard of nothing."""
        self.heard, self.terms = None, self.terms + 1


class Cluster:
    """Nodes of one name that come one after the other; the first one is ours."""

    def __init__(self) -> None:
        self._store = Store(drawn=random.Random(1))
        network = Network(random.Random(1), self._store)
        self.controller = Controller(network)
        self.newcomers = Newcomers(network, self.controller, DeviceFence(network))
        self._store.listeners.append(self.newcomers.follow)
        self._create(is_owned=True, is_heard=True)

    def _create(self, *, is_owned: bool, is_heard: bool) -> None:
        self._node = self._store.create(NODES, make_node(NODE, is_owned=is_owned), "kubelet")
        if is_heard:
            value = msgspec.convert(self._node, WatchedNode)
            uid = self._node["metadata"]["uid"]
            self.controller.heard = CachedObject("", NODE, uid, "", b"", value)

    async def replace(self, *, is_owned: bool = False, is_heard: bool = True) -> None:
        """Delete the node, let another one come with its name, and wait until it is ready."""
        self._store.delete(NODES, self._node)
        self._create(is_owned=is_owned, is_heard=is_heard)
        await asyncio.sleep(READY_SECONDS + 1)

    def give(self) -> list[str]:
        """Give a device of the node; return what an allocator must not have given."""
        self.newcomers.note_given("c1", NODE)
        return self.newcomers.beyond_fences


def play(part: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await part(Cluster())

    run_virtually(main)


def test_our_controller_keeps_others_off_a_new_node_of_which_it_hears() -> None:
    async def part(cluster: Cluster) -> None:
        await cluster.replace()
        assert cluster.give() == ["c1 is on n4"]

    play(part)


def test_nobody_keeps_others_off_new_nodes_of_which_our_controller_does_not_hear() -> None:
    async def part(cluster: Cluster) -> None:
        for _ in range(2):
            await cluster.replace(is_heard=False)
            assert cluster.give() == []

    play(part)


def test_nobody_keeps_others_off_the_next_node_if_our_controller_never_knew_ours() -> None:
    async def part(cluster: Cluster) -> None:
        cluster.controller.start_again()
        await cluster.replace()
        await cluster.replace()
        assert cluster.give() == []

    play(part)


def test_our_controller_keeps_others_off_the_next_node_if_it_knew_ours() -> None:
    async def part(cluster: Cluster) -> None:
        await cluster.replace(is_heard=False)
        await cluster.replace()
        assert cluster.give() == ["c1 is on n4"]

    play(part)


def test_another_node_of_ours_counts_alone() -> None:
    async def part(cluster: Cluster) -> None:
        cluster.controller.start_again()
        await cluster.replace()
        await cluster.replace(is_owned=True)
        await cluster.replace()
        assert cluster.give() == ["c1 is on n4"]

    play(part)
