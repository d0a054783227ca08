"""The node of a pod that can run there only is read with the drivers of its slices."""

import asyncio
from pathlib import Path

from tests.webhook.server.test_cluster_view import run_view


def test_a_node_is_read_with_the_drivers_of_its_slices(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver}"},
            "spec": {"driver": driver, "nodeName": name},
        }
        for name, driver in (("n", "a.com"), ("n", "b.com"), ("other", "c.com"))
    ]

    async def play() -> None:
        async with run_view(tmp_path, node, *slices) as harness:
            api, view = harness.api, harness.view
            assert view.node("n") is None
            await asyncio.gather(*(view.read_node("n", 5) for _ in range(20)))
            seen = view.node("n")
            assert seen is not None
            assert (seen.node.name, seen.drivers) == ("n", {"a.com", "b.com"})
            assert len(api.asked("GET", "nodes/n")) == 1
            assert await view.read_node("gone", 5) is None
            api.fail(403, part="resourceslices", times=1000)
            assert await view.read_node("other", 5) is None

    asyncio.run(play())
