"""A cache notices that its server was restored from a backup, and nothing else is taken for it."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.cluster.history import (
    INTERRUPTED_ATTEMPTS,
    RESTORE_SECONDS,
    HistoryChangedError,
    Identity,
    find_contradiction,
)
from drawbridge.cluster.store import CachedObject
from tests.cluster.cached import Rig, Text, rigged, text
from tests.cluster.fake.kinds import JSON
from tests.thorough import drawn

pytestmark = pytest.mark.asyncio
BOTH = pytest.mark.parametrize("watch_list", [True, False])

CASES = {
    "the same objects": ({"a": ("u", "5")}, "9", {"a": ("u", "5")}, None),
    "an object that was changed later": ({"a": ("u", "5")}, "9", {"a": ("u", "10")}, None),
    "an object that was created later": ({}, "9", {"a": ("u", "10")}, None),
    "an object that was deleted later": ({"a": ("u", "5")}, "9", {}, None),
    "an object whose change is undone": ({"a": ("u", "8")}, "9", {"a": ("u", "5")}, "a"),
    "an object whose deletion is undone": ({}, "9", {"a": ("u", "5")}, "a"),
    "another object with the name": ({"a": ("u", "5")}, "9", {"a": ("v", "4")}, "a"),
    "an object at the version itself": ({}, "9", {"a": ("u", "9")}, "a"),
    "versions that are no numbers": ({}, "9", {"a": ("u", "x")}, None),
    "nothing was read before": ({}, "", {"a": ("u", "5")}, None),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_list_contradicts_what_no_later_write_explains(name: str) -> None:
    cached, synced_to, listed, expected = CASES[name]
    before, after = (
        {("default", each): Identity(*identity) for each, identity in objects.items()}
        for objects in (cached, listed)
    )
    contradicting = find_contradiction(before, synced_to, after)
    assert contradicting == (None if expected is None else ("default", expected))


async def test_an_object_that_was_deleted_does_not_come_back() -> None:
    listed = {("default", "a"): Identity("u", "12")}
    assert find_contradiction({}, "9", listed) is None
    assert find_contradiction({}, "9", listed, {"u"}.__contains__) == ("default", "a")


async def _fails(rig: Rig) -> str:
    """Run until the cache reports a restore, and return what it says."""
    with pytest.raises(HistoryChangedError) as raised:
        await asyncio.wait_for(rig.cache.run(), 10)
    return f"{raised.value}"


@BOTH
@pytest.mark.parametrize("passes", [False, True])
async def test_a_restore_is_noticed(rig: Rig, watch_list: bool, passes: bool) -> None:  # noqa: FBT001  # a case
    rig.api.put(text("a", "old"))
    backup = rig.api.saved()
    rig.api.put(text("a", "new"))
    rig.api.put(text("b", "new"))
    rig.made(watch_list=watch_list)

    async def restore() -> None:
        await rig.watched()
        rig.api.restore(backup)
        for number in range(9 if passes else 0):
            rig.api.put(text(f"later-{number}"))

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "/api/v1/configmaps" in said
    assert not rig.held().keys() - {"a", "b"}, "nothing of the new history was taken over"


@pytest.mark.parametrize("fields", [{}, {"data": 7}], ids=["decodable", "undecodable"])
async def test_a_restore_behind_an_expired_watch_is_noticed(rig: Rig, fields: JSON) -> None:
    rig.api.put(text("a", "1") | fields)
    backup = rig.api.saved()
    rig.api.remove("configmaps", "a")

    async def restore() -> None:
        await rig.watched()
        rig.api.store.restore(backup)
        for number in range(9):
            rig.api.put(text(f"later-{number}"))
        rig.api.expire()

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "default/a has version" in said


async def test_a_restore_that_only_lacks_what_was_created_is_noticed(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    backup = rig.api.saved()
    rig.api.put(text("b", "1"))

    async def restore() -> None:
        await rig.watched()
        rig.api.restore(backup)

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "older than the cached version" in said
    assert rig.held() == {"a": "1", "b": "1"}


async def test_a_restore_behind_a_watch_that_continues_is_noticed(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    backup = rig.api.saved()

    async def restore() -> None:
        await rig.watched()
        rig.api.remove("configmaps", "a")
        await rig.holds()
        rig.api.store.restore(backup)
        for number in range(9):
            rig.api.put(text("a", f"later-{number}"))

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "default/a was deleted and has version" in said


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_write_older_than_what_was_seen_before_it_shows_a_restore(
    rig: Rig,
    is_answered: bool,  # noqa: FBT001  # a case
) -> None:
    """A watch can stay open over a restore, as behind a balancer that forgets no connection.

    Where it is behind, only the response to a write has told of the newest version.
    """
    made = rig.api.put(text("a", "1"))["metadata"]

    async def write() -> None:
        await rig.watched()
        await rig.holds(a="1")
        written = seen = rig.cache.version
        if is_answered:
            later = f"{int(seen) + 9}"
            rig.cache.expect(("default", "a"), Identity(made["uid"], later))
            rig.cache.expect(("default", "a"), Identity(made["uid"], f"{int(seen) + 3}"))
            assert rig.cache.newest == later
            written = f"{int(seen) + 4}"
        else:
            rig.api.put(text("b", "1"))
            await rig.holds(a="1", b="1")
        newest = rig.cache.newest
        verified = asyncio.ensure_future(rig.cache.wait_until_verified())
        for _ in range(4):  # more responses arrive while the watch is being ended
            rig.cache.compare_written(written, newest)
            rig.cache.read_again()
            await asyncio.sleep(0)
        assert not verified.done()
        verified.cancel()

    said, _ = await asyncio.gather(_fails(rig), write())
    assert "a write has version" in said


async def test_a_write_newer_than_what_was_seen_before_it_shows_nothing(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    async with rig.running():
        await rig.watched()
        await rig.holds(a="1")
        rig.cache.compare_written(f"{int(rig.cache.newest) + 1}", rig.cache.newest)
        await asyncio.wait_for(rig.cache.wait_until_verified(), 10)


@pytest.mark.parametrize("shown", ["in a list", "by the watch", "in a list, and read before"])
async def test_a_restore_that_only_a_response_contradicts_is_noticed(rig: Rig, shown: str) -> None:
    """The server has gone back before the watch told of the write.

    What is read after the restore is news as well, if the watch is behind both histories.
    """
    made = rig.api.put(text("a", "1"))["metadata"]
    later = f"{int(made['resourceVersion']) + 5}"

    async def restore() -> None:
        await rig.watched()
        await rig.holds(a="1")
        rig.cache.expect(("default", "a"), Identity(made["uid"], later))
        if shown != "by the watch":
            rig.api.cut_watches()
        if "read" in shown:
            restored = rig.api.put(text("a", "2"))["metadata"]
            rig.cache.expect(("default", "a"), Identity(made["uid"], restored["resourceVersion"]))
        rig.api.store.version += 9
        if shown == "by the watch":
            rig.api.put(text("b", "1"))

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert f"default/a had version {later}" in said


async def test_a_response_before_its_event_is_no_restore(rig: Rig) -> None:
    made = rig.api.put(text("a", "1"))["metadata"]
    async with rig.running():
        await rig.watched()
        await rig.holds(a="1")
        later = f"{int(made['resourceVersion']) + 1}"
        rig.cache.expect(("default", "a"), Identity(made["uid"], later))
        changed = rig.api.put(text("a", "2"))["metadata"]
        assert changed["resourceVersion"] == later
        rig.api.put(text("b", "1"))
        await rig.holds(a="2", b="1")
        rig.cache.expect(("default", "b"), Identity("gone", "2"))
        rig.api.remove("configmaps", "b")
        await rig.holds(a="2")


async def test_a_server_that_is_stopped_and_started_is_no_restore(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    async with rig.running():
        await rig.watched()
        for number in range(5):
            rig.api.cut_watches()
            rig.api.put(text(f"b{number}", "1"))
            await rig.api.until(lambda: len(rig.held()) == number + 2)  # noqa: B023  # awaited here


async def test_a_watch_that_ends_in_its_own_time_continues_without_a_list(rig: Rig) -> None:
    rig.made(watch_list=False)
    async with rig.running():
        await rig.watched()
        await rig.cache.wait_until_verified()
        (watch,) = rig.api.asked("GET", "configmaps", watch=True)
        rig.clock.time += int(watch.query["timeoutSeconds"])
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 2)
    assert len(rig.api.asked("GET", "configmaps")) == 1


async def test_a_restore_while_the_process_is_suspended_is_noticed(rig: Rig) -> None:
    rig.api.put(text("a", "old"))
    backup = rig.api.saved()
    rig.api.put(text("a", "new"))

    async def restore() -> None:
        await rig.watched()
        rig.clock.time += 3600
        rig.api.restore(backup)
        for number in range(9):
            rig.api.put(text(f"later-{number}"))

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "default/a has version" in said


async def test_a_restore_between_a_list_and_its_watch_is_noticed(rig: Rig) -> None:
    backup = rig.api.saved()
    rig.api.put(text("a", "1"))
    rig.made(watch_list=False)

    def restore(*_: object) -> None:
        rig.clock.time += 3
        rig.api.restore(backup)
        for number in range(9):
            rig.api.put(text(f"later-{number}"))

    rig.cache.subscribe_to_lists(restore)
    assert "default/later-0 has version" in await _fails(rig)


@pytest.mark.parametrize("seconds", [0.9, 3.0])
async def test_a_slow_server_is_read_again_a_few_times(rig: Rig, seconds: float) -> None:
    """Each answer takes so long; what is read without a change in between is accepted then."""
    rig.api.put(text("a", "1"))
    rig.made(watch_list=False)

    def pass_time() -> None:
        rig.clock.time += seconds

    rig.api.when(pass_time, part="configmaps", times=float("inf"))
    async with rig.running():
        await asyncio.wait_for(rig.cache.wait_until_verified(), 10)
        await rig.holds(a="1")
    lists = rig.api.asked("GET", "configmaps")
    assert len(lists) == (1 if seconds < RESTORE_SECONDS else INTERRUPTED_ATTEMPTS)


async def test_nothing_is_verified_between_an_interruption_and_the_next_list(rig: Rig) -> None:
    async with rig.running():
        await rig.watched()
        await asyncio.wait_for(rig.cache.wait_until_verified(), 1)
        rig.api.fail(500, part="configmaps", times=float("inf"))
        rig.api.cut_watches()
        await rig.fresh(wanted=False)
        waiting = asyncio.create_task(rig.cache.wait_until_verified())
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.api.heal()
        await asyncio.wait_for(waiting, 10)


async def test_nothing_is_verified_while_a_watch_opens_again(rig: Rig) -> None:
    """A backup can be restored meanwhile, and a write that waits as well can be sent first."""
    async with rig.running():
        await rig.watched()
        await asyncio.wait_for(rig.cache.wait_until_verified(), 10)
        (watch,) = rig.api.asked("GET", "configmaps", watch=True)
        opened = rig.api.hold(part="configmaps")
        rig.clock.time += int(watch.query["timeoutSeconds"])
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 2)
        assert not rig.cache.verified
        opened.set()
        await asyncio.wait_for(rig.cache.wait_until_verified(), 10)
    assert not rig.api.asked("GET", "configmaps")


async def test_an_object_that_cannot_be_decoded_is_no_contradiction(rig: Rig) -> None:
    rig.api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}})
    async with rig.running():
        await rig.watched()
        rig.api.cut_watches()
        rig.api.put(text("b", "1"))
        await rig.holds(b="1")


async def test_an_object_that_cannot_be_decoded_hides_no_restore(rig: Rig) -> None:
    rig.api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-odd"}})
    rig.api.put(text("b", "old"))
    backup = rig.api.saved()
    rig.api.put(text("b", "new"))

    async def restore() -> None:
        await rig.watched()
        rig.api.restore(backup)
        for number in range(9):
            rig.api.put(text(f"later-{number}"))

    said, _ = await asyncio.gather(_fails(rig), restore())
    assert "default/b has version" in said


class _Derived:
    """What a listener keeps that trusts the order of versions, as the ledger does."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}  # by UID, also of objects that are gone
        self.values: dict[str, str] = {}

    def note(self, before: CachedObject[Text] | None, after: CachedObject[Text] | None) -> None:
        """Follow a change, unless its version is older than what was seen of the object."""
        if after is not None and int(after.version) > self.versions.get(after.uid, 0):
            self.versions[after.uid] = int(after.version)
            self.values[after.name] = after.value.data["v"]
        elif after is None and before is not None:
            self.versions[before.uid] = 1 << 60
            self.values.pop(before.name, None)


class _Server:
    """The server of a played history."""

    def __init__(self, rig: Rig, rng: random.Random) -> None:
        self.is_restored = False
        self._api, self._rng = rig.api, rng
        self._backups = [rig.api.saved()]
        self._written = set[tuple[str, int]]()

    def _put(self, name: str) -> None:
        # No object has the same version in two histories: versions are those of all writes.
        while (name, self._api.store.version + 1) in self._written:
            labels = {"written": f"{self._rng.random()}"}
            node = {"name": "n", "labels": labels}
            self._api.put({"apiVersion": "v1", "kind": "Node", "metadata": node})
        self._api.put(text(name, f"{self._rng.random()}"))
        self._written.add((name, self._api.store.version))

    def _remove(self, name: str) -> None:
        if self._api.get("configmaps", name) is not None:
            self._api.remove("configmaps", name)

    def step(self) -> None:
        """Change the objects or the connection, rarely to an earlier state."""
        api, rng, name = self._api, self._rng, f"o{self._rng.randrange(4)}"
        steps: list[Callable[[], object]] = [
            *[lambda: self._put(name)] * 4,
            *[lambda: self._remove(name)] * 2,
            api.bookmark,
            api.cut_watches,
            api.expire,
            lambda: self._backups.append(api.saved()),
        ]
        if rng.random() < 0.95:
            rng.choice(steps)()
            return
        api.restore(rng.choice(self._backups))
        self.is_restored = True
        for number in range(rng.choice([0, 0, 1, 5, 30])):
            self._put(f"n{number % 3}")


async def _play(rig: Rig, seed: int) -> None:
    """Play a history; the cache follows it, or reports a restore, and only then."""
    rng, derived = random.Random(seed), _Derived()
    rig.made(watch_list=rng.random() < 0.5, page=rng.choice([1, 3, 500]))
    rig.cache.subscribe(derived.note)
    played = _Server(rig, rng)
    task = asyncio.create_task(rig.cache.run())
    for _ in range(rng.randint(5, 25)):
        await asyncio.sleep(0.001 * rng.choice([0, 0, 0, 1, 8]))
        played.step()

    def server() -> dict[str, str]:
        return {each["metadata"]["name"]: each["data"]["v"] for each in rig.api.all("configmaps")}

    try:
        async with asyncio.timeout(20):
            while not task.done() and not (rig.cache.synced and derived.values == server()):
                # A watch that was requested before a restore ends when the server does.
                rig.api.cut_watches()
                await asyncio.sleep(0.01)
    finally:
        if not task.done():
            task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        assert played.is_restored, seed
        assert isinstance(task.exception(), HistoryChangedError), seed


async def test_after_any_history_a_cache_follows_or_reports_a_restore(tmp_path: Path) -> None:
    for seed in range(drawn(40, thorough=2000)):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        async with rigged(folder) as rig:
            await _play(rig, seed)
