"""API server behaviour that the cluster package relies on: the same tests for both servers.

`tests/cluster/place.py` selects the server.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from drawbridge.cluster import resources
from drawbridge.cluster.client import ResourceClient
from drawbridge.cluster.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    PODS,
    TEMPLATES,
    ApiObject,
)
from tests.cluster.place import Place, placed, refused

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as made:
        yield made


# --- reading and errors ------------------------------------------------------------------------


async def test_the_version_is_a_minor_version(place: Place) -> None:
    major, minor = (await place.session.version()).split(".")

    assert major == "1"
    assert int(minor) >= 34


async def test_a_missing_object_returns_a_status_with_details(place: Place) -> None:
    error = await refused(place.session.call("GET", place.path("none")))

    assert (error.code, error.reason, error.not_found) == (404, "NotFound", True)
    assert error.details["name"] == "none"
    assert 'configmaps "none" not found' in error.message
    assert await place.maps.read("none") is None


async def test_a_kind_that_is_not_served_returns_not_found(place: Place) -> None:
    assert (await refused(place.session.call("GET", "/apis/no.such/v1/things"))).not_found
    assert (await refused(place.session.call("GET", "/api/v1/things"))).not_found


@pytest.mark.parametrize("resource", [CONFIG_MAPS, TEMPLATES, LEASES, EVENTS, resources.SLICES])
async def test_the_resource_table_matches_discovery(
    place: Place, resource: resources.Resource
) -> None:
    listed = msgspec.json.decode(await place.session.call("GET", resource.root))["resources"]
    entry = next(each for each in listed if each["name"] == resource.plural)

    assert (entry["kind"], entry["namespaced"]) == (resource.kind, resource.namespaced)


async def test_a_list_has_pages_and_its_items_have_no_kind(place: Place) -> None:
    for number in range(5):
        await place.make(f"page-{number}")
    names: list[str] = []
    query = {"limit": "2"}
    while True:
        page = msgspec.json.decode(await place.session.call("GET", place.path(), query=query))
        assert len(page["items"]) <= 2
        assert not any("kind" in item for item in page["items"])
        names += [item["metadata"]["name"] for item in page["items"]]
        if not page["metadata"].get("continue"):
            break
        assert page["metadata"]["remainingItemCount"] > 0
        query["continue"] = page["metadata"]["continue"]

    assert [name for name in names if name != "kube-root-ca.crt"] == [
        f"page-{number}" for number in range(5)
    ]


async def test_label_and_field_selectors_filter_a_list(place: Place) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        value = {"metadata": {"name": name, "labels": {"colour": colour}}}
        await place.maps.create(value)

    async def names(**chosen: str) -> list[str]:
        listed = place.maps.iterate(**chosen)
        return [each["metadata"]["name"] async for each in listed]

    assert await names(labels="colour=red") == ["a", "c"]
    assert await names(labels="colour in (blue,green)") == ["b"]
    assert await names(labels="colour,colour!=red") == ["b"]
    assert await names(labels="colour=red", fields="metadata.name=c") == ["c"]


# --- creating ----------------------------------------------------------------------------------


async def test_a_second_create_fails_with_already_exists(place: Place) -> None:
    await place.make("twice")
    error = await refused(place.make("twice"))

    assert (error.code, error.reason, error.conflict) == (409, "AlreadyExists", False)


async def test_a_create_in_a_missing_namespace_fails(place: Place) -> None:
    value = {"metadata": {"name": "a"}}
    error = await refused(place.maps.create(value, namespace="no-such-namespace"))

    assert error.not_found
    assert error.details["kind"] == "namespaces"


async def test_a_generated_name_has_the_requested_prefix(place: Place) -> None:
    value = {"metadata": {"generateName": "made-"}}
    made = await place.maps.create(value)
    name = made["metadata"]["name"]

    assert name.startswith("made-")
    assert len(name) == len("made-") + 5


async def test_a_missing_or_invalid_name_is_rejected(place: Place) -> None:
    for name in ("", "Not_A_Name"):
        value = {"metadata": {"name": name}}
        error = await refused(place.maps.create(value))

        assert (error.code, error.reason) == (422, "Invalid")


async def test_a_dry_run_returns_the_object_and_stores_nothing(place: Place) -> None:
    value = {"metadata": {"name": "dry"}, "data": {"a": "1"}}
    shown = await place.maps.create(value, dry_run=True)
    applied = await place.maps.apply(value, dry_run=True)

    assert shown["data"] == applied["data"] == {"a": "1"}
    assert shown["metadata"]["uid"]
    assert "resourceVersion" not in shown["metadata"]
    assert await place.maps.read("dry") is None


# --- changing ----------------------------------------------------------------------------------


async def test_a_replace_with_an_old_version_is_a_conflict(place: Place) -> None:
    first = await place.make("old", a="1")
    await place.maps.replace({**first, "data": {"a": "2"}})
    error = await refused(place.maps.replace({**first, "data": {"a": "3"}}))

    assert (error.code, error.reason, error.conflict) == (409, "Conflict", True)
    assert (await place.find("old"))["data"] == {"a": "2"}


async def test_a_replace_without_changes_keeps_the_version(place: Place) -> None:
    first = await place.make("same", a="1")
    again = await place.maps.replace(first)
    patched = await place.maps.merge("same", {"data": {"a": "1"}})

    versions = {each["metadata"]["resourceVersion"] for each in (first, again, patched)}
    assert len(versions) == 1


async def test_a_merge_patch_adds_and_removes_fields(place: Place) -> None:
    await place.make("merge", a="1", b="2")
    patched = await place.maps.merge("merge", {"data": {"a": None, "c": "3"}})

    assert patched["data"] == {"b": "2", "c": "3"}


def pod(name: str) -> ApiObject:
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "none"}
    return {"metadata": {"name": name}, "spec": spec}


def binding(bound: ApiObject) -> ApiObject:
    metadata = {name: bound["metadata"][name] for name in ("name", "uid", "resourceVersion")}
    target = {"kind": "Node", "name": "none"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def test_a_condition_changes_a_pod_once_and_keeps_its_other_conditions(place: Place) -> None:
    pods = place.client(PODS)
    uid = (await pods.create(pod("a")))["metadata"]["uid"]
    ours = {"type": "drawbridge.dev/released", "status": "True", "message": "first"}
    others = {"type": "other.dev/ready", "status": "False"}
    first = await pods.write_conditions("a", uid, [others])
    second = await pods.write_conditions("a", uid, [ours])
    same = await pods.write_conditions("a", uid, [ours])
    third = await pods.write_conditions("a", uid, [{**ours, "message": "second"}])

    versions = [each["metadata"]["resourceVersion"] for each in (first, second, same, third)]
    assert [versions.index(each) for each in versions] == [0, 1, 1, 3]
    kept = {each["type"]: each.get("message") for each in third["status"]["conditions"]}
    assert kept == {"drawbridge.dev/released": "second", "other.dev/ready": None}


async def test_a_condition_of_another_pod_with_the_name_is_refused(place: Place) -> None:
    pods = place.client(PODS)
    await pods.create(pod("a"))
    condition = {"type": "drawbridge.dev/released", "status": "True"}

    assert (await refused(pods.write_conditions("a", "another", [condition]))).code == 422
    assert (await refused(pods.write_conditions("none", "another", [condition]))).not_found


async def test_a_binding_of_an_earlier_version_of_a_pod_is_a_conflict(place: Place) -> None:
    pods = place.client(PODS)
    created = await pods.create(pod("a"))
    condition = {"type": "drawbridge.dev/released", "status": "True"}
    changed = await pods.write_conditions("a", created["metadata"]["uid"], [condition])

    assert (await refused(pods.bind("a", binding(created)))).conflict
    stored = await pods.read("a")
    assert stored is not None
    assert "nodeName" not in stored["spec"]
    await pods.bind("a", binding(changed))
    stored = await pods.read("a")
    assert stored is not None
    assert stored["spec"]["nodeName"] == "none"


async def test_an_unknown_patch_type_is_rejected(place: Place) -> None:
    await place.make("patched")
    call = place.session.call("PATCH", place.path("patched"), body={})

    assert (await refused(call)).code == 415


async def test_the_name_in_the_body_must_match_the_path(place: Place) -> None:
    made = await place.make("here")
    made["metadata"]["name"] = "there"
    error = await refused(place.session.call("PUT", place.path("here"), body=made))

    assert (error.code, error.reason) == (400, "BadRequest")


def template(name: str, count: int) -> ApiObject:
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}


async def test_the_spec_of_a_template_is_immutable_but_its_annotations_are_not(
    place: Place,
) -> None:
    made = await place.client(TEMPLATES).create(template("t", 1))
    body = {"metadata": {"annotations": {"a": "b"}}}
    noted = await place.client(TEMPLATES).merge("t", body)
    changed = {**noted, "spec": template("t", 2)["spec"]}
    error = await refused(place.client(TEMPLATES).replace(changed))

    assert noted["metadata"]["annotations"] == {"a": "b"}
    assert noted["spec"] == made["spec"]
    assert (error.code, error.reason) == (422, "Invalid")
    assert "immutable" in error.message


async def test_the_allocation_of_a_claim_is_removed_and_not_changed(place: Place) -> None:
    made = await place.client(resources.CLAIMS).create(
        {"metadata": {"name": "c"}, "spec": template("t", 1)["spec"]["spec"]}
    )
    path = f"/apis/resource.k8s.io/v1/namespaces/{made['metadata']['namespace']}/resourceclaims/c"

    async def write(device: str) -> None:
        result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": device}
        status = {"allocation": {"devices": {"results": [result]}}} if device else {}
        metadata = {**made["metadata"], "resourceVersion": ""}
        await place.session.call(
            "PUT", f"{path}/status", body={**made, "metadata": metadata, "status": status}
        )

    await write("one")
    await write("one")
    error = await refused(write("other"))
    await write("")
    await write("other")

    assert (error.code, error.reason) == (422, "Invalid")
    assert "immutable" in error.message


# --- deleting ----------------------------------------------------------------------------------


async def test_a_delete_checks_uid_and_version(place: Place) -> None:
    made = await place.make("gone", a="1")
    metadata = made["metadata"]
    changed = await place.maps.merge("gone", {"data": {"a": "2"}})

    def deleted(**required: str) -> Awaitable[bool]:
        return place.maps.delete("gone", **required)

    error = await refused(deleted(uid=metadata["uid"], version=metadata["resourceVersion"]))
    assert error.conflict
    assert await deleted(uid="00000000-0000-0000-0000-000000000000") is False
    assert (await place.find("gone"))["data"] == {"a": "2"}
    assert await deleted(uid=metadata["uid"], version=changed["metadata"]["resourceVersion"])
    assert await deleted() is False


async def test_an_object_stays_until_its_finalizers_are_removed(place: Place) -> None:
    value = {"metadata": {"name": "held", "finalizers": ["test.drawbridge.dev/held"]}}
    await place.maps.create(value)
    assert await place.maps.delete("held")
    held = await place.find("held")
    assert held["metadata"]["deletionTimestamp"]
    await place.maps.merge("held", {"metadata": {"finalizers": None}})

    assert await place.maps.read("held") is None


# --- server-side apply -------------------------------------------------------------------------


async def applied(
    client: ResourceClient[ApiObject], *, force: bool = True, **data: str
) -> ApiObject:
    return await client.apply({"metadata": {"name": "applied"}, "data": data}, force=force)


async def test_fields_that_are_no_longer_applied_are_removed_and_others_stay(place: Place) -> None:
    await applied(place.maps, a="1", b="2")
    body = {"data": {"c": "3"}}
    await place.client(CONFIG_MAPS, "else").merge("applied", body)
    now = await applied(place.maps, a="1")

    assert now["data"] == {"a": "1", "c": "3"}


async def test_a_field_of_another_manager_needs_force(place: Place) -> None:
    await applied(place.maps, a="1")
    error = await refused(applied(place.client(CONFIG_MAPS, "else"), force=False, a="2"))

    assert (error.code, error.reason, error.conflict) == (409, "Conflict", True)
    assert '"ours"' in error.message
    assert error.details["causes"][0]["field"] == ".data.a"
    assert (await applied(place.client(CONFIG_MAPS, "else"), force=False, a="1"))["data"] == {
        "a": "1"
    }
    assert (await applied(place.client(CONFIG_MAPS, "else"), a="2"))["data"] == {"a": "2"}
    # The previous owner no longer owns the field, so an empty apply does not remove it.
    assert (await applied(place.maps))["data"] == {"a": "2"}


async def test_a_patch_takes_all_fields_from_a_manager_that_it_leaves_out(place: Place) -> None:
    first = await applied(place.maps, a="1")
    await place.client(CONFIG_MAPS, "else").merge("applied", {"data": {"b": "2"}})
    both = (await place.maps.read("applied"))["metadata"]
    others = [each for each in both["managedFields"] if each["manager"] == "else"]
    assert len(others) < len(both["managedFields"])
    released = {"metadata": {"managedFields": others}}
    metadata = (await place.maps.merge("applied", released))["metadata"]
    assert [each["manager"] for each in metadata["managedFields"]] == ["else"]
    versions = [each["resourceVersion"] for each in (first["metadata"], both, metadata)]
    assert len(set(versions)) == 3
    again = (await place.maps.merge("applied", released))["metadata"]
    assert again["resourceVersion"] == metadata["resourceVersion"]


async def test_an_apply_without_changes_keeps_the_version(place: Place) -> None:
    first = await applied(place.maps, a="1")
    again = await applied(place.maps, a="1")

    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


def hook(name: str) -> ApiObject:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Ignore",
    }


async def test_items_of_a_keyed_list_have_separate_owners(place: Place) -> None:
    name = f"test-{secrets.token_hex(4)}.drawbridge.dev"
    hooks = [hook("one.drawbridge.dev"), hook("two.drawbridge.dev")]
    value = {"metadata": {"name": name}, "webhooks": hooks}
    conditions = [{"name": "asks", "expression": "object.metadata.name != ''"}]
    ours = {
        "metadata": {"name": name},
        "webhooks": [{"name": "two.drawbridge.dev", "matchConditions": conditions}],
    }
    await place.client(MUTATING_WEBHOOKS, "installer").create(value)
    try:
        now = await place.client(MUTATING_WEBHOOKS).apply(ours)
        first, two = now["webhooks"]
        assert "matchConditions" not in first
        assert two["matchConditions"] == conditions
        assert two["clientConfig"] == {"url": "https://127.0.0.1:1/"}
        ours["webhooks"] = [{"name": "two.drawbridge.dev"}]
        now = await place.client(MUTATING_WEBHOOKS).apply(ours)
        assert not any(each.get("matchConditions") for each in now["webhooks"])
        assert [each["name"] for each in now["webhooks"]] == [each["name"] for each in hooks]
    finally:
        await place.client(MUTATING_WEBHOOKS).delete(name)
