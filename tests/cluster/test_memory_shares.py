"""What is kept for one writer leaves room for all others."""

import random

import msgspec
import pytest

from drawbridge.cluster.cache import LIST_AGAIN_SECONDS
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.store import Accounting, CachedObject, ObjectIndex, read_header
from drawbridge.kept_memory import measure_memory
from drawbridge.memory_shares import MemoryShares, ProcessShares
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

    def read(uid: str, data: str) -> CachedObject[Text] | None:
        metadata = f'{{"name":"a","uid":"{uid}","resourceVersion":"2"}}'
        raw = f'{{"metadata":{metadata},"data":{data}}}'.encode()
        return index.read(read_header(raw), raw)

    earlier = read("1", '{"v":"held"}')
    assert earlier is not None
    index.put(earlier)
    index.objects["", "a"] = msgspec.structs.replace(earlier, version="1")
    again = read("1", "7")
    assert again is not None
    assert again.value == earlier.value
    assert read("2", "7") is None


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
