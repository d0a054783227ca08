"""A cache stays in sync with its server in spite of failures."""

import asyncio

import msgspec
import pytest

from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.server_clock import boot_time
from tests.cluster.cached import NO_LISTS, Rig, Text, text
from tests.cluster.fake.kinds import JSON

pytestmark = pytest.mark.asyncio
BOTH = pytest.mark.parametrize("watch_list", [True, False])


# --- failures ----------------------------------------------------------------------------------


async def test_a_server_without_watch_lists_is_listed_in_pages(rig: Rig) -> None:
    rig.api.watch_list = False
    for number in range(5):
        rig.api.put(text(f"a{number}"))
    rig.made(page=2)
    async with rig.running():
        await rig.watched()
        rig.api.expire()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 3)

    pages = [seen.query["limit"] for seen in rig.api.asked("GET", "configmaps")]
    assert pages == ["2"] * 6
    assert len(rig.held()) == 5
    # A rejected watch list is not requested again.
    asked = rig.api.asked("GET", "configmaps", watch=True)
    assert ["sendInitialEvents" in seen.query for seen in asked] == [True, False, False]


async def test_a_broken_watch_list_falls_back_to_pages(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    rig.api.fail(500, part="configmaps", watch=True)
    async with rig.running():
        await rig.watched()
        assert rig.held() == {"a": "1"}

    assert [seen.watches for seen in rig.api.asked("GET", "configmaps")] == [False]


@BOTH
async def test_an_interrupted_watch_continues_from_its_version(rig: Rig, watch_list: bool) -> None:  # noqa: FBT001  # a case
    rig.api.put(text("a", "1"))
    rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        rig.api.cut_watches()
        rig.api.put(text("b", "1"))
        await rig.holds(a="1", b="1")

    assert rig.told == ["+a", "+b"]
    assert rig.cache.restarts == 1


@BOTH
async def test_a_list_replaces_a_watch_that_is_behind(rig: Rig, watch_list: bool) -> None:  # noqa: FBT001  # a case
    rig.api.put(text("a", "1"))
    cache = rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        assert (cache.lists_begun, cache.listed) == (1, 1)
        cache.read_again()
        while cache.listed == 1:  # noqa: ASYNC110  # nothing says when a list was read
            await asyncio.sleep(0)
        assert (cache.lists_begun, cache.listed) == (2, 2)
        rig.api.put(text("b", "1"))
        await rig.holds(a="1", b="1")

    assert rig.told == ["+a", "+b"]


async def test_the_next_watch_starts_at_the_last_bookmark(rig: Rig) -> None:
    async with rig.running():
        await rig.watched()
        rig.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        rig.api.bookmark()
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 2)

    last = rig.api.asked("GET", "configmaps", watch=True)[-1]
    assert last.query["resourceVersion"] == f"{rig.api.store.version}"


@BOTH
async def test_a_list_finds_deletions_that_no_watch_saw(
    rig: Rig,
    watch_list: bool,  # noqa: FBT001  # a case
) -> None:
    rig.api.put(text("a", "1"))
    rig.api.put(text("b", "1"))
    rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        kept = rig.cache.get("b", "default")
        rig.told.clear()
        rig.api.cut_watches()
        rig.api.remove("configmaps", "a")
        rig.api.put(text("c", "1"))
        rig.api.store.compact()
        await rig.holds(b="1", c="1")
        assert rig.cache.get("b", "default") is kept, "what did not change is not read again"

    assert rig.told == ["-a", "+c"]


@BOTH
async def test_the_newest_change_can_be_a_deletion_and_is_no_bookmark(
    rig: Rig,
    watch_list: bool,  # noqa: FBT001  # a case
) -> None:
    def put_beside() -> None:
        rig.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})

    rig.api.put(text("a", "1"))
    rig.api.put(text("b", "1"))
    b = f"{rig.api.store.version}"
    put_beside()
    cache = rig.made(watch_list=watch_list)
    async with rig.running():
        await rig.watched()
        assert cache.changed == b, "a list counts as its objects"
        put_beside()
        rig.api.bookmark()
        await rig.api.until(lambda: cache.version == f"{rig.api.store.version}")
        assert cache.changed == b
        rig.api.remove("configmaps", "a")
        await rig.holds(b="1")
        told = cache.changed
        assert told == f"{rig.api.store.version}"
        rig.api.cut_watches()
        rig.api.remove("configmaps", "b")
        put_beside()
        rig.api.store.compact()
        await rig.holds()
        assert cache.changed == f"{rig.api.store.version}", "nothing tells when it was deleted"


async def test_an_expired_page_restarts_the_list(rig: Rig) -> None:
    for number in range(10):
        rig.api.put(text(f"a{number}"))
    rig.api.when(rig.api.pages.clear, method="GET", part="configmaps", times=3)
    rig.made(watch_list=False, page=2)
    async with rig.running():
        await rig.cache.wait_until_synced()

    limits = [seen.query.get("limit") for seen in rig.api.asked("GET", "configmaps")]
    assert limits == ["2", "2", "8", "8"]
    assert len(rig.held()) == 10


async def test_a_list_without_pages_follows_repeated_expiry(rig: Rig) -> None:
    for number in range(1000):
        rig.api.put(text(f"a{number}"))
    rig.api.when(rig.api.pages.clear, method="GET", part="configmaps", times=float("inf"))
    rig.made(watch_list=False, page=1)
    async with rig.running():
        await rig.cache.wait_until_synced()

    assert "limit" not in rig.api.asked("GET", "configmaps")[-1].query
    assert len(rig.held()) == 1000


@pytest.mark.parametrize(("asked_for", "least"), [(40, 40), (7200, 60)])
async def test_retry_after_sets_the_pause_up_to_a_limit(
    rig: Rig, asked_for: float, least: float
) -> None:
    rig.api.fail(429, part="configmaps", watch=True, retry_after=asked_for)
    async with rig.running():
        await rig.watched()

    # The pauses differ although all replicas receive the same Retry-After.
    assert any(least < pause <= least * 1.25 for pause in rig.clock.pauses)


async def test_the_cache_is_fresh_only_while_the_server_responds(rig: Rig) -> None:
    assert not rig.cache.fresh
    async with rig.running():
        await rig.watched()
        await rig.fresh()
        rig.api.fail(500, part="configmaps", times=float("inf"))
        rig.api.cut_watches()
        await rig.fresh(wanted=False)
        rig.api.heal()
        await rig.fresh()
        rig.clock.time += 200
        assert not rig.cache.fresh
        rig.api.bookmark()
        await rig.fresh()


async def test_a_cache_is_not_fresh_after_its_machine_was_suspended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Monotonic time stands still meanwhile, and a backup can have been restored."""
    rig.cache = Cache(rig.session, CONFIG_MAPS, Text, pause=rig.clock.pause)
    async with rig.running():
        await rig.watched()
        await rig.fresh()
        resumed = boot_time() + 3600
        monkeypatch.setattr("time.clock_gettime", lambda _: resumed)
        assert not rig.cache.fresh


async def test_a_missing_permission_is_logged_as_a_warning(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.api.fail(403, part="configmaps", message="configmaps is forbidden")
    rig.api.fail(500, part="configmaps")
    with caplog.at_level("INFO", "drawbridge.cluster.cache"):
        async with rig.running():
            await rig.watched()

    told = {each.levelname for each in caplog.records if "is forbidden" in each.getMessage()}
    assert told == {"WARNING"}
    assert "INFO" in {each.levelname for each in caplog.records}


async def test_failures_back_off_and_set_the_problem(rig: Rig) -> None:
    troubles = set[str]()
    rig.api.fail(403, part="configmaps", times=7, message="configmaps is forbidden")
    rig.api.when(lambda: troubles.add(rig.cache.problem), part="configmaps", times=7)
    async with rig.running():
        await rig.watched()
        rig.api.fail(500, part="configmaps", watch=True)
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.clock.pauses) == 8)

    *pauses, afterwards = rig.clock.pauses
    assert afterwards <= 0.75, "whatever worked in between begins again at the shortest"
    assert all(0.25 * 2**i <= pause <= 0.75 * 2**i for i, pause in enumerate(pauses[:6]))
    assert pauses[6] <= 45
    assert "403 Forbidden: configmaps is forbidden" in troubles
    assert rig.cache.problem == ""


async def test_a_list_follows_soon_when_the_server_answers_that_history_is_gone(rig: Rig) -> None:
    async with rig.running():
        await rig.watched()
        rig.api.fail(500, part="configmaps", watch=True, times=5)
        rig.api.fail(410, part="configmaps", watch=True)
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.clock.pauses) == 6)

    *before, afterwards = rig.clock.pauses
    assert max(before) > 2
    assert afterwards <= 0.75


async def test_watches_that_end_immediately_back_off(rig: Rig) -> None:
    rig.made(watch_list=False)
    rig.api.when(
        lambda: asyncio.get_running_loop().call_soon(rig.api.end_watches),
        part="configmaps",
        times=float("inf"),
    )
    async with rig.running():
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) > 5)

    # The clock only advances in pauses, so each watch ended immediately.
    assert len(rig.clock.pauses) >= 4


async def test_a_busy_server_is_watched_again_without_a_list(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    rig.made(watch_list=False)
    async with rig.running():
        await rig.watched()
        rig.api.fail(500, part="configmaps", watch=True)
        rig.api.end_watches()
        rig.api.put(text("b", "1"))
        await rig.holds(a="1", b="1")

    lists = [seen.headers["Accept"] for seen in rig.api.asked("GET", "configmaps")]
    assert lists[0] == "application/json"
    assert len(lists) > 1
    # Only what tells the versions is read again.
    assert all("PartialObjectMetadataList" in each for each in lists[1:])


GARBAGE = [
    b"not json\n",
    b"{}\n",
    b'{"type":"ADDED","object":{}}\n',
    b'{"type":"ERROR","object":{"reason":"Expired"}}\n',
    b'{"type":"ADDED","object":{"metadata":{"name":"x","namespace":"default"},"data":{"v":""}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"0"}}}\n',
]


@pytest.mark.parametrize("line", GARBAGE)
async def test_invalid_data_in_a_watch_causes_a_list(rig: Rig, line: bytes) -> None:
    rig.api.put(text("a", "1"))
    async with rig.running():
        await rig.watched()
        rig.api.say(line)
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps", watch=True)) == 2)
        rig.api.put(text("b", "1"))
        await rig.holds(a="1", b="1")

    assert "sendInitialEvents" in rig.api.asked("GET", "configmaps", watch=True)[-1].query
    assert rig.told == ["+a", "+b"]


@pytest.mark.parametrize("body", NO_LISTS)
async def test_an_invalid_list_is_retried(rig: Rig, body: bytes) -> None:
    rig.api.put(text("a", "1"))
    rig.api.fail(200, part="configmaps", body=body)
    rig.made(watch_list=False)
    async with rig.running():
        await rig.watched()
        assert rig.held() == {"a": "1"}
        # What the server has is compared with what the cache has.
        rig.api.fail(200, part="configmaps", watch=False, body=body)
        rig.api.cut_watches()
        rig.api.put(text("b", "1"))
        await rig.holds(a="1", b="1")

    assert rig.told == ["+a", "+b"]


def deep(name: str, version: int) -> bytes:
    """A ConfigMap whose managedFields a tenant has nested deeper than decoders allow."""
    levels = 5000
    fields = b'{"f:a":' * levels + b"{}" + b"}" * levels
    return (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%b","namespace":"default",'
        b'"uid":"u","resourceVersion":"%d","managedFields":[{"fieldsV1":%b}]},"data":{"v":"deep"}}'
        % (name.encode(), version, fields)
    )


async def test_an_object_that_is_nested_too_deep_does_not_stop_a_watch(rig: Rig) -> None:
    rig.api.put(text("a", "1"))
    async with rig.running():
        await rig.watched()
        rig.api.say(b'{"type":"ADDED","object":%b}\n' % deep("deep", 1000))
        await rig.holds(a="1", deep="deep")
    assert rig.cache.restarts == 0


async def test_an_object_that_is_nested_too_deep_does_not_stop_a_list(rig: Rig) -> None:
    body = b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[%b]}'
    rig.api.fail(200, part="configmaps", body=body % deep("deep", 5))
    rig.made(watch_list=False)
    async with rig.running():
        await rig.api.until(lambda: rig.told)
    assert rig.told[0] == "+deep"


# --- versions never go back --------------------------------------------------------------------


def event(kind: str, value: JSON) -> bytes:
    return msgspec.json.encode({"type": kind, "object": value}) + b"\n"


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
async def test_an_old_event_is_ignored(rig: Rig, kind: str) -> None:
    old = rig.api.put(text("a", "1"))
    gone = rig.api.put(text("gone", "1"))
    async with rig.running():
        await rig.watched()
        rig.api.put(text("a", "2"))
        rig.api.remove("configmaps", "gone")
        rig.api.say(event(kind, old))
        rig.api.say(event(kind, gone))
        rig.api.put(text("last", "1"))
        await rig.holds(a="2", last="1")


async def test_one_older_list_is_rejected(rig: Rig) -> None:
    early = rig.api.saved()
    rig.api.put(text("a", "1"))
    late = rig.api.saved()
    rig.made(watch_list=False)
    async with rig.running():
        await rig.watched()
        rig.api.restore(early)
        # The server reports its version, returns a list, and only then passes the cached version.
        lists = len(rig.api.asked("GET", "configmaps"))

        def caught_up() -> None:
            if len(rig.api.asked("GET", "configmaps")) == lists + 3:
                rig.api.store.restore(late)

        rig.api.when(caught_up, part="configmaps", times=10)
        rig.api.end_watches()
        await rig.api.until(lambda: len(rig.api.asked("GET", "configmaps")) >= lists + 3)
        await rig.watched()
        await rig.holds(a="1")

    assert rig.told == ["+a"]
