"""What API servers and threads of the world do as real ones do."""

import asyncio
import random

import msgspec

from tests.cluster.fake.store import Store
from tests.cluster.fake.trouble import Seen
from tests.world import clock
from tests.world.copies import Copies
from tests.world.network import Network


def test_each_server_continues_a_list_that_another_one_has_begun() -> None:
    network = Network(random.Random(1), Store())
    network.open()
    first, second = (front.server for front in network.fronts)
    for name in ("a", "b", "c"):
        metadata = {"name": name, "namespace": "default"}
        first.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})
    begun = msgspec.json.decode(first.answer(Seen("GET", "/api/v1/pods", {"limit": "2"})).body)
    query = {"limit": "2", "continue": begun["metadata"]["continue"]}
    rest = msgspec.json.decode(second.answer(Seen("GET", "/api/v1/pods", query)).body)
    names = [each["metadata"]["name"] for part in (begun, rest) for each in part["items"]]
    assert names == ["a", "b", "c"]


def test_who_waits_for_a_thread_can_be_cancelled() -> None:
    async def wait() -> None:
        asyncio.get_running_loop().run_in_executor(None, int).cancel()
        await asyncio.sleep(1)

    clock.run(wait, 1, Copies(1))
