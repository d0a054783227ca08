"""Objects, listeners and undecodable objects of a cache."""

import asyncio
import gc
import logging

import msgspec
import pytest

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.store import Accounting, CachedObject, ObjectIndex, read_header
from drawbridge.memory_shares import MemoryShares
from tests.cluster.cached import Rig, Text, text
from tests.cluster.fake.kinds import JSON

pytestmark = pytest.mark.asyncio
BOTH = pytest.mark.parametrize("watch_list", [True, False])


# --- following ---------------------------------------------------------------------------------


@BOTH
async def test_listeners_receive_every_change_in_order(rig: Rig, watch_list: bool) -> None:  # noqa: FBT001  # a case
    rig.api.put(text("a", "1"))
    cache = rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        rig.api.put(text("b", "1"))
        rig.api.put(text("a", "2"))
        rig.api.remove("configmaps", "a")
        await rig.holds(b="1")

    assert rig.told == ["+a", "+b", "~a", "-a"]
    assert cache.revision == 4
    assert cache.problem == ""


async def test_only_selected_objects_are_cached(rig: Rig) -> None:
    rig.api.put(text("a", labels={"in": "yes"}))
    rig.api.put(text("b"))
    rig.api.put(text("c", labels={"in": "yes"}, namespace="other"))
    cache = rig.made(namespace="default", labels="in=yes", fields="metadata.name!=z")
    async with rig.running():
        await rig.watched()
        assert [kept.name for kept in cache.all()] == ["a"]
        rig.api.put(text("a"))
        await rig.holds()


@BOTH
async def test_the_first_version_of_an_object_is_known_only_if_its_creation_was_watched(
    rig: Rig,
    watch_list: bool,  # noqa: FBT001  # a case
) -> None:
    rig.api.put(text("listed", "1"))
    cache = rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        rig.api.put(text("told", "1"))
        rig.api.put(text("changed", "1"))
        rig.api.put(text("changed", "2"))
        await rig.holds(listed="1", told="1", changed="2")
    assert {each.name: each.created for each in cache.all()} == {
        "listed": False,
        "told": True,
        "changed": False,
    }


async def test_with_a_selector_an_object_can_appear_that_is_not_new(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    cache = rig.made(labels="in=yes")
    async with rig.running():
        await rig.watched()
        rig.api.put(text("a", "2", labels={"in": "yes"}))
        await rig.holds(a="2")
    assert [each.created for each in cache.all()] == [False]


async def test_raw_is_complete_and_namespaces_are_separate(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    rig.api.put(text("a", "2", namespace="other"))
    cache = rig.made(watch_list=False)
    async with rig.running():
        await cache.wait_until_synced()
        kept = cache.get("a", "other")

    assert kept is not None
    assert msgspec.json.decode(kept.raw) == rig.api.get("configmaps", "a", "other")
    assert [each.value.data["v"] for each in cache.all("default")] == ["1"]
    assert cache.get("a", "nowhere") is None


async def test_a_cache_can_drop_the_json_of_listed_and_watched_objects(rig: Rig) -> None:
    rig.api.put(text("listed", "1"))
    cache = rig.made(keep_raw=False)
    async with rig.running():
        await cache.wait_until_synced()
        rig.api.put(text("told", "2"))
        await rig.holds(listed="1", told="2")
    assert [each.raw for each in cache.all()] == [b"", b""]


async def test_an_object_of_one_and_a_half_mebibytes_is_cached(rig: Rig) -> None:
    large = "x" * 1_500_000
    rig.api.put(text("listed", large))
    async with rig.running():
        await rig.watched()
        rig.api.put(text("told", large))
        await rig.holds(listed=large, told=large)


async def test_an_empty_shape_and_a_custom_decoder_are_supported(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    cache = Cache(rig.session, CONFIG_MAPS, bytes, decode=bytes.upper)
    task = asyncio.create_task(cache.run())
    await cache.wait_until_synced()
    task.cancel()
    await asyncio.wait((task,))
    kept = cache.get("a", "default")

    assert kept is not None
    assert kept.value == kept.raw.upper()


async def test_the_age_counts_from_the_last_response(rig: Rig) -> None:
    assert rig.cache.age() == float("inf")
    async with rig.running():
        await rig.watched()
        assert rig.cache.age() == 0
        rig.clock.time += 50
        assert rig.cache.age() == 50
        rig.api.bookmark()
        await rig.young()
        assert rig.cache.synced


# --- undecodable objects and failing listeners -------------------------------------------------


async def test_a_list_tells_first_that_the_former_object_of_a_name_has_gone() -> None:
    index = ObjectIndex[Text](CONFIG_MAPS, lambda raw: msgspec.json.decode(raw, type=Text))
    told: list[tuple[str, str]] = []

    def show(version: str, *listed: tuple[str, str], odd: str = "") -> None:
        values = [text(name, "1") for name, _ in listed]
        for value, (name, uid) in zip(values, listed, strict=True):
            value["metadata"] |= {"uid": uid, "resourceVersion": version}
            value["data"] = 7 if name == odd else value["data"]
        raws = [msgspec.json.encode(value) for value in values]
        headers = [read_header(raw) for raw in raws]
        states = [index.read(*each) for each in zip(headers, raws, strict=True)]
        keys = [each.key for each in headers]
        index.replace(dict(zip(keys, states, strict=True)), version)

    def tell(before: CachedObject[Text] | None, after: CachedObject[Text] | None) -> None:
        told.append((before.uid if before else "", after.uid if after else ""))

    show("5", ("z", "1"), ("y", "4"))
    index.subscribe(tell)
    show("9", ("a", "3"), ("z", "2"), ("y", "4"), odd="y")
    assert told == [("1", ""), ("4", ""), ("", "3"), ("", "2")]
    assert [uid for uid, _ in index.deleted.items()] == ["1"]


def unreadable(name: str, **metadata: object) -> JSON:
    return {key: part for key, part in text(name, "", **metadata).items() if key != "data"}


@BOTH
async def test_undecodable_objects_are_left_out_and_logged_once(
    rig: Rig,
    caplog: pytest.LogCaptureFixture,
    watch_list: bool,  # noqa: FBT001  # a case
) -> None:
    for name in ("bad", "bad-2", "bad-3"):  # a tenant can have thousands
        rig.api.put(unreadable(name))
    rig.api.put(text("good", "1"))
    rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        assert (rig.held(), rig.cache.undecodable) == ({"good": "1"}, 3)
        rig.api.put(unreadable("bad", labels={"a": "b"}))
        rig.api.expire()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) >= 2)
        await rig.watched()
        rig.api.put(text("bad", "now good"))
        await rig.holds(good="1", bad="now good")

    assert rig.cache.undecodable == 2
    (line,) = [
        record.getMessage()
        for record in caplog.records
        if record.name == "drawbridge.cluster.cache"
    ]
    assert line.startswith("cannot keep ConfigMap default/bad: ")
    assert "`data`" in line


async def test_each_error_of_objects_without_a_namespace_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A driver whose slices cannot be read hides no other one."""
    index = ObjectIndex[Text](CONFIG_MAPS, lambda raw: msgspec.json.decode(raw, type=Text))
    for name, data in (("a-1", "1"), ("a-2", "1"), ("b", '{"v": 2}')):
        metadata = f'{{"name": "{name}", "resourceVersion": "1"}}'
        raw = f'{{"metadata": {metadata}, "data": {data}}}'.encode()
        header = read_header(raw)
        index.put(header.key, index.read(header, raw))
    assert [each.split(": ")[0] for each in caplog.messages] == [
        "cannot keep ConfigMap a-1",
        "cannot keep ConfigMap b",
    ]


@pytest.mark.parametrize("data", [7, {"v": "x"}], ids=["undecodable", "reduced"])
async def test_what_stays_wrong_with_an_object_is_noted_once(
    data: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "drawbridge.cluster.cache")
    accounting: Accounting[Text] = Accounting(MemoryShares(2), reduce=lambda each: each)
    decode = msgspec.json.Decoder(Text).decode
    index = ObjectIndex(CONFIG_MAPS, decode, accounting=accounting)
    for version in "123":
        value = text("a", resourceVersion=version) | {"data": data}
        raw = msgspec.json.encode(value)
        header = read_header(raw)
        index.put(header.key, index.read(header, raw))
    (line,) = caplog.messages
    assert "ConfigMap a: " in line


async def test_a_text_that_only_the_api_server_reads_stops_neither_list_nor_watch(rig: Rig) -> None:
    odd = rb'{"metadata":{"name":"%b","resourceVersion":"%d"},"x":"\ud800","data":{"v":"\udc00"}}'
    page = b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"100"},"items":[%b]}'
    rig.made(watch_list=False)
    rig.api.fail(200, part="configmaps", body=page % (odd % (b"listed", 100)))
    read = "\N{REPLACEMENT CHARACTER}"
    async with rig.running():
        await rig.watched()
        assert rig.held() == {"listed": read}
        rig.api.say(b'{"type":"ADDED","object":%b}\n' % (odd % (b"watched", 1000)))
        await rig.holds(listed=read, watched=read)
    assert (rig.cache.restarts, rig.cache.problem) == (0, "")


async def test_an_object_that_becomes_undecodable_is_removed(rig: Rig) -> None:
    rig.api.put(text("good", "1"))
    async with rig.running():
        await rig.watched()
        rig.api.put(unreadable("good"))
        await rig.holds()
        assert rig.cache.undecodable == 1
        rig.api.remove("configmaps", "good")
        rig.api.put(text("last", "1"))
        await rig.holds(last="1")

    assert rig.cache.undecodable == 0
    assert rig.told == ["+good", "-good", "+last"]


async def test_an_undecodable_object_that_a_list_lacks_is_forgotten(rig: Rig) -> None:
    rig.api.put(unreadable("bad"))
    async with rig.running():
        await rig.watched()
        assert rig.cache.undecodable == 1
        rig.api.remove("configmaps", "bad")
        rig.api.put(text("last", "1"))
        rig.api.expire()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 2)
        await rig.watched()
        await rig.holds(last="1")

    assert rig.cache.undecodable == 0


async def test_a_listener_that_raises_is_counted_and_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_before: CachedObject[Text] | None, after: CachedObject[Text] | None) -> None:
        if after is not None and after.name == "b":
            raise KeyError(after.name)

    cache = Cache(rig.session, CONFIG_MAPS, Text)
    later: list[str] = []
    cache.subscribe(fails)
    cache.subscribe(lambda _before, after: later.append(after.name if after else ""))
    for name in "abc":
        rig.api.put(text(name))
    task = asyncio.create_task(cache.run())
    await cache.wait_until_synced()
    task.cancel()
    await asyncio.wait((task,))

    assert (cache.listener_failures, sorted(later)) == (1, ["a", "b", "c"])
    assert "a listener of configmaps failed" in caplog.text


async def test_the_garbage_collector_is_restored_after_a_list(rig: Rig) -> None:
    rig.api.put(text("a"))
    seen: list[bool] = []
    rig.cache.subscribe(lambda _before, _after: seen.append(gc.isenabled()))
    async with rig.running():
        await rig.watched()

    assert gc.isenabled()
    assert seen == [False]
