"""Writers; `test_api_behaviour.py` has the tests that run on both servers."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio

from drawbridge.cluster.protobuf_metadata import CONTENT_TYPE, MetadataEdit, edit_metadata
from drawbridge.cluster.resources import CLAIMS, CONFIG_MAPS, NODES
from drawbridge.cluster.session import ApiError, Session
from drawbridge.cluster.write import MAX_CHANGE_ATTEMPTS, ApiObject, ObjectVersion, Writer
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.stored_claim import STORED

pytestmark = pytest.mark.asyncio


class Rig(NamedTuple):
    """A fake server and a writer."""

    api: FakeApi
    writer: Writer
    clock: Clock

    def put(self, name: str, **data: str) -> ApiObject:
        """Store a ConfigMap."""
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        return self.api.put({**value, "data": data})

    def data(self, name: str) -> dict[str, str]:
        """Return the data of a ConfigMap."""
        held = self.api.get("configmaps", name)
        assert held is not None
        found: dict[str, str] = held["data"]
        return found


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        clock = Clock()
        await stack.enter_async_context(session)
        yield Rig(api, Writer(session, pause=clock.pause), clock)


async def test_bodies_are_compact_and_have_a_kind_and_a_field_manager(rig: Rig) -> None:
    value = {"metadata": {"name": "a"}, "data": {"text": "ä b"}}
    await rig.writer.create(CONFIG_MAPS, value, namespace="default")
    await rig.writer.apply(CONFIG_MAPS, value, namespace="default", force=False)
    made, applied = rig.api.asked("POST", "configmaps") + rig.api.asked("PATCH", "configmaps")

    whole = '{"apiVersion":"v1","kind":"ConfigMap",'
    wanted = whole + '"metadata":{"name":"a"},"data":{"text":"ä b"}}'
    assert made.body == applied.body == wanted.encode()
    assert made.query == applied.query == {"fieldManager": "drawbridge"}
    assert applied.headers["Content-Type"] == "application/apply-patch+yaml"


async def test_cluster_scoped_objects_have_no_namespace_in_their_path(rig: Rig) -> None:
    rig.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    body = {"metadata": {"labels": {"a": "b"}}}
    await rig.writer.patch(NODES, "n", body, namespace="ignored")

    assert rig.api.asked("PATCH", "nodes")[0].path == "/api/v1/nodes/n"


async def test_a_list_is_read_in_pages_and_without_pages_after_expiry(rig: Rig) -> None:
    for number in range(600):
        rig.put(f"a{number:03}")
    found = await rig.writer.list(CONFIG_MAPS)
    assert (len(found), {each["kind"] for each in found}) == (600, {"ConfigMap"})
    assert len(rig.api.asked("GET", "configmaps")) == 2

    rig.api.when(rig.api.pages.clear, part="configmaps", times=2)
    assert len(await rig.writer.list(CONFIG_MAPS)) == 600
    assert "limit" not in rig.api.asked("GET", "configmaps")[-1].query


async def test_a_change_is_retried_after_a_conflict(rig: Rig) -> None:
    rig.put("a", theirs="0", ours="0")
    rig.api.when(lambda: rig.put("a", theirs="1", ours="0"), method="PUT", times=1)

    def change(value: ApiObject) -> ApiObject:
        value["data"]["ours"] = "1"
        return value

    made = await rig.writer.change(CONFIG_MAPS, "a", change, namespace="default")

    assert made is not None
    assert made["data"] == rig.data("a") == {"theirs": "1", "ours": "1"}
    assert len(rig.clock.pauses) == 1


async def test_a_change_with_repeated_conflicts_fails(rig: Rig) -> None:
    rig.put("a", n="0")
    numbers = iter(range(1, 101))
    rig.api.when(lambda: rig.put("a", n=f"{next(numbers)}"), method="PUT", times=100)
    with pytest.raises(ApiError) as caught:
        await rig.writer.change(
            CONFIG_MAPS, "a", lambda value: {**value, "data": {}}, namespace="default"
        )

    assert caught.value.conflict
    assert len(rig.api.asked("PUT", "configmaps")) == MAX_CHANGE_ATTEMPTS


@pytest.mark.parametrize("wanted", [None, {}])
async def test_a_change_that_changes_nothing_writes_nothing(
    rig: Rig, wanted: ApiObject | None
) -> None:
    before = rig.put("a", n="0")
    answer = await rig.writer.change(
        CONFIG_MAPS,
        "a",
        lambda value: None if wanted is None else {**value, **wanted},
        namespace="default",
    )

    assert answer == before
    assert rig.api.asked("PUT", "configmaps") == []


async def test_a_change_of_a_missing_object_returns_none(rig: Rig) -> None:
    assert await rig.writer.change(CONFIG_MAPS, "no", lambda value: value, namespace="x") is None


async def test_a_change_with_a_lost_response_is_applied_once(rig: Rig) -> None:
    rig.put("a", n="0")
    rig.api.cut(method="PUT", after=True)

    def more(value: ApiObject) -> ApiObject | None:
        return {**value, "data": {"n": "1"}} if value["data"]["n"] == "0" else None

    made = await rig.writer.change(CONFIG_MAPS, "a", more, namespace="default")

    assert made is not None
    assert made["data"] == {"n": "1"}


async def test_the_status_is_a_subresource(rig: Rig) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {}},
    }
    held = rig.api.put(claim)
    held["status"] = {"allocation": {}}
    held["metadata"]["labels"] = {"a": "b"}
    made = await rig.writer.replace(CLAIMS, held, subresource="status")

    assert made["status"] == {"allocation": {}}
    assert "labels" not in made["metadata"]
    assert rig.api.asked("PUT", "claims")[0].path.endswith("/resourceclaims/c/status")


async def test_a_delete_with_a_lost_response_succeeds(rig: Rig) -> None:
    rig.put("a")
    rig.api.cut(method="DELETE", after=True)

    assert await rig.writer.delete(CONFIG_MAPS, "a", namespace="default") is False
    assert rig.api.get("configmaps", "a") is None


async def test_unknown_fields_are_kept(rig: Rig) -> None:
    strange = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    rig.api.put({**strange, "future": {"field": [1, 2.5, None, True]}})
    read = await rig.writer.read(CONFIG_MAPS, "a", namespace="default")
    assert read is not None
    await rig.writer.replace(CONFIG_MAPS, {**read, "data": {"a": "1"}})

    held = rig.api.get("configmaps", "a")
    assert held is not None
    assert msgspec.json.encode(held["future"]) == b'{"field":[1,2.5,null,true]}'


async def test_metadata_is_edited_in_protobuf_if_the_rest_is_immutable_in_json(rig: Rig) -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    rig.api.put({**claim, "metadata": {"name": "c", "namespace": "default"}})
    rig.api.fail(method="PATCH", part="resourceclaims", code=422, message="spec is immutable")
    rig.api.fail(method="GET", part="resourceclaims", code=200, body=STORED)
    rig.api.fail(method="PUT", part="resourceclaims", code=200, body=b'{"metadata":{"name":"c"}}')
    version = ObjectVersion("default", "c", "u", "218")
    edit = MetadataEdit(added_finalizers=("example.com/f",))

    assert (await rig.writer.edit_metadata(CLAIMS, version, edit))["metadata"] == {"name": "c"}
    (read,), (written,) = (rig.api.asked(each, "resourceclaims") for each in ("GET", "PUT"))
    assert read.headers["Accept"] == written.headers["Content-Type"] == CONTENT_TYPE
    assert written.body == edit_metadata(STORED, edit)


async def test_metadata_in_protobuf_of_another_version_is_a_conflict(rig: Rig) -> None:
    rig.api.fail(method="PATCH", part="resourceclaims", code=422, message="spec is immutable")
    rig.api.fail(method="GET", part="resourceclaims", code=200, body=STORED)
    version = ObjectVersion("default", "c", "u", "217")
    with pytest.raises(ApiError, match="has version 218, not 217") as caught:
        await rig.writer.edit_metadata(CLAIMS, version, MetadataEdit())
    assert caught.value.conflict
    assert not rig.api.asked("PUT", "resourceclaims")


async def test_an_object_that_is_nested_too_deep_is_read_but_never_written_back(rig: Rig) -> None:
    nested = b"[" * 5000 + b"]" * 5000
    body = b'{"metadata":{"name":"a","uid":"u"},"data":%b}' % nested
    rig.api.fail(200, method="GET", part="configmaps", body=body, times=2)
    found = await rig.writer.read(CONFIG_MAPS, "a", namespace="default")
    assert found is not None
    assert found["metadata"] == {"name": "a", "uid": "u"}
    with pytest.raises(ApiError, match="cannot be changed"):
        await rig.writer.change(CONFIG_MAPS, "a", lambda each: each, namespace="default")
    assert not rig.api.asked("PUT", "configmaps")
