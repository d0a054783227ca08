"""A node that others had is used when the watch shows all pods that hold devices of its plugin."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.state.caches import AllocatorCaches
from allocator.writes.api_server import ApiServerWrites
from allocator.writes.recovery import Recovery
from allocator.writes.undoing import CONCURRENT_WRITES
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.ledger.pods import Pod
from tests.allocator.test_api_server import OpenFence, Watch
from tests.cluster.fake.api import FakeApi
from tests.ledger.test_plugin_holders import pod

pytestmark = pytest.mark.asyncio
HOLDS, FINISHED, PLAIN = pod("holds"), pod("ended", phase="Succeeded"), pod("plain", limits={})


async def find_behind(pods: dict[str, list[Pod]], shown: tuple[Pod, ...]) -> set[str]:
    """Return the nodes with pods that the watch does not show."""

    async def list_pods_on(node: str) -> list[Pod]:
        return pods[node]

    writes: Any = SimpleNamespace(list_pods_on=list_pods_on)
    state: Any = SimpleNamespace(shows=lambda each: each in shown)
    binder: Any = SimpleNamespace(undoing=None)
    return await Recovery(state, writes, binder).find_behind(tuple(pods))


async def test_only_pods_that_hold_devices_of_a_plugin_have_to_be_shown() -> None:
    assert await find_behind({"n": [HOLDS, PLAIN]}, (HOLDS,)) == set()
    assert await find_behind({"n": [PLAIN, FINISHED]}, ()) == set()
    assert await find_behind({"n": [HOLDS], "m": [PLAIN]}, ()) == {"n"}


async def test_many_nodes_are_looked_at() -> None:
    nodes = {f"n{number}": [HOLDS] for number in range(2 * CONCURRENT_WRITES + 1)}
    assert await find_behind(nodes, ()) == nodes.keys()
    assert await find_behind({}, ()) == set()


@pytest.mark.parametrize(
    ("node", "uid", "expected"),
    [("n", "", True), ("", "", False), ("n", "another", False), ("n", None, False)],
    ids=["on its node", "without its node", "another one", "nothing"],
)
async def test_a_pod_is_shown_on_its_node(node: str, uid: str | None, *, expected: bool) -> None:
    caches = cast("Any", AllocatorCaches.__new__(AllocatorCaches))
    shown = pod("holds", node=node)
    stored = None if uid is None else CachedObject("", "holds", uid, "1", b"", shown)
    caches.pods = SimpleNamespace(get=lambda *_: stored)
    assert caches.shows(HOLDS) is expected


async def test_the_pods_of_one_node_are_read_as_the_watch_reads_them(tmp_path: Path) -> None:
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        writes = ApiServerWrites(session, OpenFence(), Watch())
        for name, node in (("a", "n"), ("b", "m"), ("c", "n")):
            metadata = {"name": name, "namespace": "default"}
            limits = {"limits": {"nvidia.com/gpu": 1}}
            spec = {"nodeName": node, "containers": [{"name": "main", "resources": limits}]}
            api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        read = await writes.list_pods_on("n")
        assert [each.metadata.name for each in read] == ["a", "c"]
        assert all(each.spec.containers for each in read)
