"""What is kept for one writer leaves room for all others."""

import random

import msgspec
import pytest

from drawbridge.cluster.cache import LIST_AGAIN_SECONDS
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.store import Accounting, ObjectIndex, ObjectState, read_header
from drawbridge.kept_memory import measure_memory
from drawbridge.memory_shares import FREE, Charge, MemoryShares, MissingMemory, ProcessShares
from tests.cluster.cached import Rig, Text, text
from tests.cluster.fake.kinds import JSON

# Of a ConfigMap whose JSON is kept beside its text.
SIZE = measure_memory("x" * 50_000, b"x" * 50_300, text=b"")


def shares(objects: float) -> MemoryShares:
    """Make shares with room for so many objects of SIZE, of all writers."""
    return MemoryShares(int(objects * SIZE) * 2)


def test_one_writer_gets_half_and_two_get_a_third() -> None:
    memory = MemoryShares(2000)
    for writer, most in (("a", 500), ("b", 250)):
        while memory.has_room(writer, 1):
            memory.add(writer, 1)
        assert memory.of(writer) == most
    assert memory.has_room("c", 125)
    memory.add("a", -500)
    assert memory.has_room("b", 100)


def test_a_writer_that_has_little_always_has_room() -> None:
    rng = random.Random(1)
    memory = MemoryShares(2_000_000)
    for _ in range(20_000):
        writer, size = f"w{rng.randrange(20)}", rng.randrange(1, 1000)
        if memory.has_room(writer, size):
            memory.add(writer, size)
        assert memory.used < memory.limit
    assert memory.has_room("innocent", 10_000)


def test_nodes_and_namespaces_take_nothing_from_each_other() -> None:
    of = ProcessShares.of(3000)
    of.namespaces.add("team", 900)
    assert of.nodes.has_room("node", 500)
    assert not of.namespaces.has_room("team", 1)


def test_whoever_lacks_least_tells_whether_there_is_room() -> None:
    memory, missing = MemoryShares(2000), MissingMemory[str]()
    memory.add("a", 400)
    memory.add("b", 400)
    for key, writer, size in (("1", "a", 300), ("2", "a", 90), ("3", "a", 600), ("4", "b", 300)):
        missing.put(key, Charge(writer, 0, size))
    assert not missing.has_room(memory)  # nobody has given memory back
    memory.add("b", -380)
    assert missing.has_room(memory)
    missing.put("2", FREE)
    assert not missing.has_room(memory)
    memory.add("b", -20)
    assert missing.has_room(memory)
    missing.put("4", FREE)
    missing.put("4", FREE)
    assert len(missing) == 2
    memory.add("a", -400)
    assert missing.has_room(memory)
    missing.put("1", Charge("a", 0, 600))
    missing.put("3", FREE)
    assert not missing.has_room(memory)


def test_what_is_kept_stays_unless_it_takes_more() -> None:
    memory = shares(4.2)
    decode = msgspec.json.Decoder(Text).decode
    index: ObjectIndex[Text] = ObjectIndex(CONFIG_MAPS, decode, accounting=Accounting(memory))

    def change(version: int, length: int) -> bool:
        metadata = f'{{"name":"a","uid":"u","resourceVersion":"{version}"}}'
        raw = f'{{"metadata":{metadata},"data":{{"v":"{"x" * length}"}}}}'.encode()
        header = read_header(raw)
        index.put(header.key, index.read(header, raw))
        return bool(index.objects)

    assert change(1, 50_000)
    memory.add("others", 3 * SIZE)
    assert change(2, 50_000)
    assert change(3, 40_000)
    assert (index.too_large, memory.used < 4 * SIZE) == (0, True)
    assert not change(4, 50_000)
    assert index.too_large == 1
    assert memory.used == 3 * SIZE


@pytest.mark.asyncio
async def test_lists_that_take_long_are_not_read_all_the_time(rig: Rig) -> None:
    rig.api.put(text("a", "x" * 50_000))
    rig.api.put(text("b", "x" * 50_000))
    rig.api.put(text("c", "", namespace="other"))
    cache = rig.made(accounting=Accounting(shares(2.5)))

    def pass_time(*_: object) -> None:
        rig.clock.time += LIST_AGAIN_SECONDS

    async def ask(change: str, again: int) -> None:
        rig.api.put(text("c", change, namespace="other"))
        await rig.api.until(lambda: rig.held().get("c") == change and cache.lists_begun == again)

    assert cache._list_began == 0  # noqa: SLF001
    async with rig.running():
        await rig.watched()
        assert cache.too_large == 1
        cache._list_began -= 2 * LIST_AGAIN_SECONDS  # noqa: SLF001  # as if it had taken so long
        rig.api.remove("configmaps", "a" if "a" in rig.held() else "b")
        pass_time()
        pass_time()
        await ask("soon", 1)
        rig.clock.time += 200 * LIST_AGAIN_SECONDS
        await ask("later", 2)


@pytest.mark.asyncio
async def test_the_namespace_that_takes_most_is_the_one_whose_objects_are_left_out(
    rig: Rig,
) -> None:
    for number in range(10):
        rig.api.put(text(f"a{number:02}", "x" * 50_000, namespace="hostile"))
    rig.api.put(text("z00", "y" * 5000, namespace="innocent"))
    memory = shares(6.5)
    cache = rig.made(accounting=Accounting(memory))
    async with rig.running():
        await rig.watched()
        assert cache.too_large == 7
        assert "z00" in rig.held()
        rig.api.put(text("z01", "y" * 5000, namespace="innocent"))
        await rig.api.until(lambda: "z01" in rig.held())
        # What is deleted makes room for what was left out.
        for name in [each for each in rig.held() if each.startswith("a")]:
            rig.api.remove("configmaps", name, namespace="hostile")
        await rig.api.until(lambda: not any(each.startswith("a") for each in rig.held()))
        rig.clock.time += LIST_AGAIN_SECONDS
        rig.api.put(text("z02", "", namespace="innocent"))
        await rig.api.until(lambda: sum(each.startswith("a") for each in rig.held()) > 1)
    assert memory.used < memory.limit


@pytest.mark.asyncio
async def test_what_must_be_known_of_an_object_is_kept(rig: Rig) -> None:
    reduced: Accounting[Text] = Accounting(shares(4.5), reduce=lambda _: Text({"v": "reduced"}))
    for number in range(6):
        rig.api.put(text(f"a{number:02}", "x" * 50_000))
    cache = rig.made(accounting=reduced)
    async with rig.running():
        await rig.watched()
        assert len(rig.held()) == 6
        assert list(rig.held().values()).count("reduced") == cache.too_large == 4


def unreadable(name: str, **metadata: str) -> JSON:
    return {**text(name, **metadata), "data": 7}


@pytest.mark.asyncio
async def test_what_must_be_known_of_an_object_is_kept_when_it_cannot_be_decoded(rig: Rig) -> None:
    """It never looks deleted, so that nobody gets the devices of a claim a second time."""
    memory = shares(100)
    rig.api.put(text("known", "held"))
    rig.api.put(unreadable("new"))
    cache = rig.made(accounting=Accounting(memory, reduce=lambda each: Text(each.data)))
    async with rig.running():
        await rig.watched()
        rig.api.put(unreadable("known"))
        rig.api.put(text("last"))
        await rig.holds(known="held", last="")
        assert cache.undecodable == 2
        rig.api.expire()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) >= 2)
        await rig.watched()
        assert (rig.held(), cache.undecodable) == ({"known": "held", "last": ""}, 2)
        rig.api.put(text("known", "again"))
        await rig.holds(known="again", last="")
        assert cache.undecodable == 1
        rig.api.put(unreadable("known"))
        await rig.api.until(lambda: cache.undecodable == 2)
        rig.api.remove("configmaps", "known")
        rig.api.remove("configmaps", "new")
        rig.api.remove("configmaps", "last")
        await rig.holds()
    assert "-known" not in rig.told[: rig.told.index("+last")]
    assert (memory.used, len(memory)) == (0, 0)


def test_another_object_of_the_name_has_nothing_of_the_earlier_one() -> None:
    accounting: Accounting[Text] = Accounting(shares(100), reduce=lambda each: each)
    decode = msgspec.json.Decoder(Text).decode
    index: ObjectIndex[Text] = ObjectIndex(CONFIG_MAPS, decode, accounting=accounting)

    def read(uid: str, version: int, data: str) -> ObjectState[Text]:
        metadata = f'{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}'
        raw = f'{{"metadata":{metadata},"data":{data}}}'.encode()
        return index.read(read_header(raw), raw)

    earlier = read("1", 1, '{"v":"held"}')
    assert earlier.kept is not None
    index.put(("", "a"), earlier)
    again = read("1", 2, "7")
    assert again.kept is not None
    assert again.kept.value == earlier.kept.value
    assert read("2", 2, "7").kept is None


@pytest.mark.asyncio
async def test_what_can_be_read_of_an_object_that_cannot_be_decoded_is_kept(rig: Rig) -> None:
    accounting: Accounting[Text] = Accounting(
        shares(100), reduce=lambda each: each, rescue=lambda raw: rescued.get(b'"new"' in raw)
    )
    rescued = {True: Text({"v": "rescued"})}
    rig.api.put(text("known", "before"))
    rig.api.put(unreadable("new"))
    rig.made(accounting=accounting)
    async with rig.running():
        await rig.watched()
        assert rig.held() == {"known": "before", "new": "rescued"}
        rig.api.put(unreadable("known"))
        await rig.holds(new="rescued")


@pytest.mark.asyncio
@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_list_that_is_given_up_gives_its_memory_back(rig: Rig, watch_list: bool) -> None:  # noqa: FBT001  # a case
    """What an interrupted list has read leaves room for the same objects in the next one."""
    memory = shares(3)
    written = rig.api.put(text("a", "x" * 50_000))
    event = msgspec.json.encode({"type": "ADDED", "object": written}) + b"\n"
    page = msgspec.json.encode(
        {
            "kind": "ConfigMapList",
            "metadata": {"resourceVersion": "1000", "continue": "more"},
            "items": [written],
        }
    )
    for _ in range(3):
        rig.api.fail(200, part="configmaps", watch=watch_list, body=event if watch_list else page)
        rig.api.fail(500, part="configmaps", watch=False)
    rig.made(watch_list=watch_list, accounting=Accounting(memory))
    async with rig.running():
        await rig.watched()
        assert len(rig.api.asked("GET", "configmaps", watch=watch_list)) > 3
        assert (rig.cache.too_large, list(rig.held())) == (0, ["a"])
        rig.api.remove("configmaps", "a")
        await rig.holds()
    assert (memory.used, len(memory)) == (0, 0)


@pytest.mark.asyncio
async def test_all_memory_is_given_back(rig: Rig) -> None:
    memory = shares(100)
    rig.made(accounting=Accounting(memory))
    async with rig.running():
        await rig.watched()
        for number in range(5):
            rig.api.put(text(f"a{number:02}", "x" * 50_000))
        rig.api.put(text("a00", "y"))
        await rig.api.until(lambda: len(rig.held()) == 5 and rig.held()["a00"] == "y")
        assert memory.used > 4 * SIZE
        for name in list(rig.held()):
            rig.api.remove("configmaps", name)
        await rig.holds()
    assert (memory.used, len(memory)) == (0, 0)
