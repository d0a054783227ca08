"""The page of a live cluster: it follows changes, and shows what the caller may read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.served_page.feed import PageRules, follow
from cli.served_page.objects import KINDS, make_decoders
from cli.served_page.snapshots import Snapshots
from cli.served_page.watches import PageWatches, WatchedKind
from drawbridge.cluster.session import Session
from drawbridge.config.model import Scope
from drawbridge.dra.gates import DEFAULTS
from tests.cluster.fake.api import FakeApi

asynchronous = pytest.mark.asyncio
DRA = "resource.k8s.io/v1"
ALL_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"


def claim(namespace: str, device: str = "") -> dict[str, Any]:
    """Return the claim of the pod `train`, with a device or without."""
    result = {"driver": "gpu.example.com", "pool": "n1", "device": device, "request": "gpu"}
    held = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}],
    }
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": f"claim-of-{namespace}", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu"}]}},
        "status": held if device else {},
    }


def pod(namespace: str, phase: str = "Pending", node: str = "") -> dict[str, Any]:
    entry = {"name": "gpu", "resourceClaimName": f"claim-of-{namespace}"}
    message = f"no GPU for {namespace}"
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "resourceClaims": [entry],
            "containers": [{"name": "main"}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase, "conditions": [] if node else [condition]},
    }


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
SLICE = {
    "apiVersion": DRA,
    "kind": "ResourceSlice",
    "metadata": {"name": "s1"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    },
}


class Live(NamedTuple):
    """A fake API server, and the page of what it has."""

    api: FakeApi
    snapshots: Snapshots

    async def until(self, *shown: str, gone: str = "\0") -> str:
        """Wait until the page shows texts and no more shows another one."""
        async with asyncio.timeout(30):
            while True:
                version, page = self.snapshots.version, self.snapshots.body.decode()
                if all(each in page for each in shown) and gone not in page:
                    return page
                await self.snapshots.wait(version)


@contextlib.asynccontextmanager
async def live(folder: Path, namespace: str = "", *, forbidden: str = "") -> AsyncIterator[Live]:
    """Follow a cluster with a node, and pods of two namespaces that hold its devices."""
    async with FakeApi() as api:
        for each in (NODE, SLICE, claim("team-a", "gpu-0"), claim("team-b", "gpu-1")):
            api.put(each)
        for name in ("team-a", "team-b"):
            api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            api.put(pod(name, "Running", "n1"))
        if forbidden:
            api.fail(403, part=forbidden, times=1e9, message="not yours")
        kubeconfig = str(api.kubeconfig(folder / "config"))
        async with await Session.open(kubeconfig, namespace="team-a") as session:
            watches = PageWatches(session, make_decoders(Scope()), namespace)
            snapshots = Snapshots()
            tasks = [
                asyncio.create_task(watches.follow_rights(0.1)),
                asyncio.create_task(follow(watches, PageRules(DEFAULTS), "the cluster", snapshots)),
            ]
            try:
                yield Live(api, snapshots)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


@asynchronous
async def test_the_page_follows_a_pod_from_waiting_to_running(tmp_path: Path) -> None:
    async with live(tmp_path) as page:
        await page.until("2 held", "team-a/claim-of-team-a", "No pod that asks for devices waits")
        page.api.put(claim("team-b"))
        page.api.put(pod("team-b"))
        await page.until("no GPU for team-b", "1 held, 1 free", "1 pod waiting")
        page.api.put(claim("team-b", "gpu-1"))
        page.api.put(pod("team-b", "Running", "n1"))
        await page.until("2 held", "0 pods waiting", gone="no GPU for team-b")


@asynchronous
async def test_a_caller_with_rights_on_one_namespace_sees_no_other_holders(tmp_path: Path) -> None:
    async with live(tmp_path, forbidden=ALL_CLAIMS) as page:
        page.api.fail(403, part="/api/v1/pods", times=1e9)
        shown = await page.until(
            "team-a/claim-of-team-a",
            "1 held, 1 unknown",
            "You may read ResourceClaims of namespace team-a only",
            "You may read Pods of namespace team-a only",
        )
        assert "team-b/" not in shown


@asynchronous
async def test_with_a_namespace_only_that_is_read(tmp_path: Path) -> None:
    async with live(tmp_path, "team-b") as page:
        shown = await page.until("team-b/claim-of-team-b", "1 unknown", "of namespace team-b only")
        assert "claim-of-team-a" not in shown
        assert not [each for each in page.api.requests if each.path == "/api/v1/pods"]


@asynchronous
async def test_what_nobody_may_read_is_not_known(tmp_path: Path) -> None:
    async with live(tmp_path, forbidden="resourceclaims") as page:
        shown = await page.until("2 unknown", "You may not read ResourceClaims")
        assert "claim-of" not in shown


@asynchronous
async def test_rights_that_are_removed_take_the_holders_from_the_page(tmp_path: Path) -> None:
    async with live(tmp_path) as page:
        await page.until("team-b/claim-of-team-b")
        page.api.fail(403, part="resourceclaims", times=1e9)
        await page.until("2 unknown", "You may not read ResourceClaims", gone="claim-of-team-b for")
        page.api.heal()
        await page.until("team-b/claim-of-team-b", gone="You may not read")


@asynchronous
async def test_a_failed_watch_is_said_until_it_works_again(tmp_path: Path) -> None:
    async with live(tmp_path) as page:
        await page.until("2 held")
        page.api.fail(500, part="resourceclaims", times=1e9, message="out of order")
        page.api.cut_watches()
        await page.until("Not current: the watch of ResourceClaims has failed for", "out of order")
        page.api.heal()
        await page.until("2 held", gone="Not current")


@asynchronous
async def test_an_object_that_cannot_be_read_is_said_and_stops_nothing(tmp_path: Path) -> None:
    async with live(tmp_path) as page:
        spec = {**SLICE["spec"], "nodeName": "n2", "devices": [{"name": 7}]}  # type: ignore[dict-item]
        page.api.put({**SLICE, "metadata": {"name": "s2"}, "spec": spec})
        await page.until("1 object cannot be read", "2 held")


@asynchronous
async def test_it_ends_also_while_a_watch_is_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = WatchedKind.close

    async def cancel_and_close(kind: WatchedKind) -> None:
        if not following.cancelling():
            following.cancel()
        await close(kind)

    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        watches = PageWatches(session, make_decoders(Scope()))
        following = asyncio.create_task(watches.follow_rights(0.1))
        await api.until(lambda: len(api.store.watchers) == len(KINDS))
        monkeypatch.setattr(WatchedKind, "close", cancel_and_close)
        api.fail(403, times=1e9)
        done, _ = await asyncio.wait((following,), timeout=5)
        following.cancel()
        await asyncio.wait((following,))
        assert done
