"""Clients of resources; `test_api_behaviour.py` has the tests that run on both servers."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio

from drawbridge.api_error import ApiError
from drawbridge.cluster.client import PAGE_SIZE, ObjectVersion, ResourceClient, decode_object
from drawbridge.cluster.protobuf_metadata import CONTENT_TYPE, MetadataEdit, edit_metadata
from drawbridge.cluster.resources import CLAIMS, CONFIG_MAPS, NODES, ApiObject, Resource
from drawbridge.cluster.session import Session
from tests.cluster.cached import NO_LISTS
from tests.cluster.fake.api import FakeApi
from tests.cluster.stored_claim import STORED

pytestmark = pytest.mark.asyncio


class Rig(NamedTuple):
    """A fake server and a client of its ConfigMaps."""

    api: FakeApi
    session: Session
    maps: ResourceClient[ApiObject]

    def client(self, resource: Resource) -> ResourceClient[ApiObject]:
        """Return a client of another resource."""
        return ResourceClient(self.session, resource, decode_object, namespace="default")

    def put(self, name: str, **data: str) -> ApiObject:
        """Store a ConfigMap."""
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        return self.api.put({**value, "data": data})

    def data(self, name: str) -> dict[str, str]:
        """Return the data of a ConfigMap."""
        held = self.api.get("configmaps", name)
        assert held is not None
        data: dict[str, str] = held["data"]
        return data


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        await stack.enter_async_context(session)
        yield Rig(api, session, ResourceClient(session, CONFIG_MAPS, decode_object))


async def test_bodies_are_compact_and_have_a_kind_and_a_field_manager(rig: Rig) -> None:
    value = {"metadata": {"name": "a"}, "data": {"text": "ä b"}}
    await rig.maps.create(value, namespace="default")
    await rig.maps.apply(value, namespace="default", force=False)
    made, applied = rig.api.asked("POST", "configmaps") + rig.api.asked("PATCH", "configmaps")

    whole = '{"apiVersion":"v1","kind":"ConfigMap",'
    wanted = whole + '"metadata":{"name":"a"},"data":{"text":"ä b"}}'
    assert made.body == applied.body == wanted.encode()
    assert made.query == applied.query == {"fieldManager": "drawbridge"}
    assert applied.headers["Content-Type"] == "application/apply-patch+yaml"


async def test_cluster_scoped_objects_have_no_namespace_in_their_path(rig: Rig) -> None:
    rig.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    body = {"metadata": {"labels": {"a": "b"}}}
    await rig.client(NODES).merge("n", body, "ignored")

    assert rig.api.asked("PATCH", "nodes")[0].path == "/api/v1/nodes/n"


async def test_no_more_than_a_page_is_read_before_its_objects_are_used(rig: Rig) -> None:
    for number in range(3 * PAGE_SIZE):
        rig.put(f"a{number:03}")
    read = [len(rig.api.asked("GET", "configmaps")) async for _ in rig.maps.iterate()]
    assert read == [1] * PAGE_SIZE + [2] * PAGE_SIZE + [3] * PAGE_SIZE


async def test_objects_are_not_told_as_those_of_two_moments(rig: Rig) -> None:
    for number in range(PAGE_SIZE + 1):
        rig.put(f"a{number:03}")
    rig.api.when(rig.api.pages.clear, part="configmaps", times=2)
    with pytest.raises(ApiError) as caught:
        [each async for each in rig.maps.iterate()]
    assert caught.value.gone


@pytest.mark.parametrize("body", NO_LISTS)
async def test_what_is_no_list_does_not_count_as_an_empty_one(rig: Rig, body: bytes) -> None:
    rig.api.fail(200, part="configmaps", body=body)
    with pytest.raises(ApiError, match="the response cannot be read"):
        [each async for each in rig.maps.iterate()]


async def test_the_status_is_a_subresource(rig: Rig) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {}},
    }
    rig.api.put(claim)
    changed = {"metadata": {"labels": {"a": "b"}}, "status": {"allocation": {}}}
    made = await rig.client(CLAIMS).merge("c", changed, subresource="status")

    assert made["status"] == {"allocation": {}}
    assert "labels" not in made["metadata"]
    assert rig.api.asked("PATCH", "claims")[0].path.endswith("/resourceclaims/c/status")


async def test_a_delete_with_a_lost_response_succeeds(rig: Rig) -> None:
    rig.put("a")
    rig.api.cut(method="DELETE", after=True)

    assert await rig.maps.delete("a", namespace="default") is False
    assert rig.api.get("configmaps", "a") is None


async def test_unknown_fields_are_kept(rig: Rig) -> None:
    strange = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    rig.api.put({**strange, "future": {"field": [1, 2.5, None, True]}})
    read = await rig.maps.read("a", namespace="default")
    assert read is not None
    await rig.maps.replace({**read, "data": {"a": "1"}})

    held = rig.api.get("configmaps", "a")
    assert held is not None
    assert msgspec.json.encode(held["future"]) == b'{"field":[1,2.5,null,true]}'


async def test_metadata_is_edited_in_protobuf_if_the_rest_is_immutable_in_json(rig: Rig) -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    rig.api.put({**claim, "metadata": {"name": "c", "namespace": "default"}})
    rig.api.fail(method="PATCH", part="resourceclaims", code=422, message="spec is immutable")
    rig.api.fail(method="GET", part="resourceclaims", code=200, body=STORED)
    written = b'{"kind":"ResourceClaim","metadata":{"name":"c"}}'
    rig.api.fail(method="PUT", part="resourceclaims", code=200, body=written)
    version = ObjectVersion("default", "c", "u", "218")
    edit = MetadataEdit(added_finalizers=("example.com/f",))

    assert (await rig.client(CLAIMS).edit_metadata(version, edit))["metadata"] == {"name": "c"}
    (read,), (written,) = (rig.api.asked(each, "resourceclaims") for each in ("GET", "PUT"))
    assert read.headers["Accept"] == written.headers["Content-Type"] == CONTENT_TYPE
    assert written.body == edit_metadata(STORED, edit)


async def test_metadata_in_protobuf_of_another_version_is_a_conflict(rig: Rig) -> None:
    rig.api.fail(method="PATCH", part="resourceclaims", code=422, message="spec is immutable")
    rig.api.fail(method="GET", part="resourceclaims", code=200, body=STORED)
    version = ObjectVersion("default", "c", "u", "217")
    with pytest.raises(ApiError, match="has version 218, not 217") as caught:
        await rig.client(CLAIMS).edit_metadata(version, MetadataEdit())
    assert caught.value.conflict
    assert not rig.api.asked("PUT", "resourceclaims")


async def test_an_object_that_is_nested_too_deep_is_read_without_its_deep_parts(rig: Rig) -> None:
    nested = b"[" * 5000 + b"]" * 5000
    body = b'{"kind":"ConfigMap","metadata":{"name":"a","uid":"u"},"data":%b}' % nested
    rig.api.fail(200, method="GET", part="configmaps", body=body)
    stored = await rig.maps.read("a", "default")
    assert stored is not None
    assert stored["metadata"] == {"name": "a", "uid": "u"}


# What a proxy answers with status 200.
NO_ANSWERS = [
    b"",
    b"<html>",
    b"{}",
    b'{"kind":"Status","metadata":{}}',
    b'{"kind":"Status","metadata":{},"status":"Failure","code":503}',
    b'{"kind":"Status","metadata":{},"status":"Failure","reason":"NotFound","code":404}',
]
REQUESTS: dict[str, Callable[[ResourceClient[ApiObject]], Awaitable[object]]] = {
    "GET": lambda maps: maps.read("a", "default"),
    "POST": lambda maps: maps.create({"metadata": {"name": "a"}}, "default"),
    "PATCH": lambda maps: maps.merge("a", {}, "default"),
    "PUT": lambda maps: maps.replace({"metadata": {"name": "a"}}, "default"),
    "DELETE": lambda maps: maps.delete("a", "default"),
}


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("body", NO_ANSWERS)
async def test_after_a_response_that_cannot_be_read_the_write_can_have_happened(
    rig: Rig, method: str, body: bytes
) -> None:
    rig.api.fail(200, method=method, part="configmaps", body=body)
    with pytest.raises(ApiError, match="the response cannot be read") as caught:
        await REQUESTS[method](rig.maps)
    assert caught.value.unknown
    assert not caught.value.not_found


async def test_an_item_that_cannot_be_decoded_is_left_out_of_a_list(rig: Rig) -> None:
    rig.put("a", n="1")
    rig.put("b")
    rig.put("c", n="3")

    def read_number(raw: bytes) -> int:
        return int(decode_object(raw)["data"].get("n", "none"))

    client = ResourceClient(rig.session, CONFIG_MAPS, read_number)
    assert [each async for each in client.iterate()] == [1, 3]
