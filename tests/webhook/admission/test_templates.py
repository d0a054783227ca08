"""Templates are made when they are first needed, and then known."""

import asyncio

import pytest

from dra.finding import Finding, Severity
from dra.names import USED_ANNOTATION
from tests.tables import Plain
from tests.webhook.admission.harness import Clock, Store
from translate.changes.template import Template, template
from webhook.admission.protocols import Ensured
from webhook.admission.templates import Made, lost

pytestmark = pytest.mark.asyncio


def of(count: int = 1, **exactly: Plain) -> Template:
    wanted = {"deviceClassName": "gpu.nvidia.com", "count": count, **exactly}
    return template({"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}})


class Room:
    """Templates over a store that remembers its calls."""

    def __init__(self) -> None:
        self.store = Store()
        self.clock = Clock()
        self.made = Made(self.store, self.clock)

    async def ensure(self, one: Template) -> Ensured | Finding:
        """Ensure it in the namespace of all these tests."""
        return await self.made.ensure("team", one, 5)

    async def settled(self) -> None:
        """Let what nobody waits for come to its end."""
        for _ in range(5):
            await asyncio.sleep(0)


async def test_it_is_made_once_and_then_believed() -> None:
    room = Room()
    assert await room.ensure(of()) is Ensured.MADE
    assert await room.ensure(of()) is Ensured.THERE
    assert room.store.calls == ["create"]
    (made,) = room.store.held.values()
    metadata: Plain = made["metadata"]
    assert metadata["namespace"] == "team"
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "drawbridge"}
    assert metadata["annotations"][USED_ANNOTATION] == "2026-11-20T12:00:00Z"


async def test_what_was_believed_for_long_is_asked_for_again() -> None:
    room = Room()
    await room.ensure(of())
    room.clock.goes(seconds=31)
    assert await room.ensure(of()) is Ensured.THERE
    assert room.store.calls == ["create", "create", "read"]


async def test_a_template_deleted_meanwhile_is_made_again() -> None:
    room = Room()
    await room.ensure(of())
    room.store.held.clear()
    room.clock.goes(seconds=31)
    assert await room.ensure(of()) is Ensured.MADE


async def test_what_a_watch_says_needs_no_call() -> None:
    room = Room()
    key = ("team", of().name)
    room.store.watched[key] = room.store.held[key] = of().object
    assert await room.ensure(of()) is Ensured.THERE
    room.clock.goes(minutes=59)
    await room.settled()
    assert set(room.store.calls) <= {"touch"}


async def test_a_deletion_that_a_watch_tells_counts_at_once() -> None:
    room = Room()
    key = ("team", of().name)
    room.store.watched[key] = of().object
    await room.ensure(of())
    del room.store.watched[key]
    assert await room.ensure(of()) is Ensured.MADE


async def test_another_content_under_the_name_is_taken_until_it_is_gone() -> None:
    room = Room()
    other = {**of(8).object, "metadata": {"name": of().name, "namespace": "team"}}
    room.store.held["team", of().name] = other
    assert await room.ensure(of()) is Ensured.TAKEN
    calls = len(room.store.calls)
    assert await room.ensure(of()) is Ensured.TAKEN
    assert len(room.store.calls) == calls
    room.store.held.clear()
    room.clock.goes(seconds=3)
    assert await room.ensure(of()) is Ensured.MADE


async def test_a_change_that_a_watch_tells_is_taken_at_once() -> None:
    room = Room()
    await room.ensure(of())
    room.store.watched["team", of().name] = {**of(8).object}
    assert await room.ensure(of()) is Ensured.TAKEN


async def test_those_who_want_the_same_at_once_share_one_call() -> None:
    room = Room()
    room.store.open.clear()
    asked = [asyncio.create_task(room.ensure(of())) for _ in range(20)]
    await room.settled()
    room.store.open.set()
    assert await asyncio.gather(*asked) == [Ensured.MADE] * 20
    assert room.store.calls == ["create"]


async def test_one_that_gives_up_ends_it_for_nobody_else() -> None:
    room = Room()
    room.store.open.clear()
    patient = asyncio.create_task(room.ensure(of()))
    assert await room.made.ensure("team", of(), 0.01) is Ensured.LATER
    given_up = asyncio.create_task(room.ensure(of()))
    await room.settled()
    given_up.cancel()
    room.store.open.set()
    assert await patient is Ensured.MADE


async def test_errors_of_the_world_are_for_later() -> None:
    room = Room()
    room.store.fails = True
    assert await room.ensure(of()) is Ensured.LATER
    assert await room.made.look("team", of(), 5) is Ensured.LATER
    room.store.fails = False
    assert await room.ensure(of()) is Ensured.MADE


async def test_what_is_refused_is_told_with_the_reason_and_tried_again_soon() -> None:
    room = Room()
    room.store.refuses = "403 Forbidden: exceeded quota: objects"
    for state in (await room.ensure(of()), await room.made.look("team", of(), 5)):
        assert isinstance(state, Finding)
        assert (state.code, state.severity) == ("TemplateRefused", Severity.WARNING)
        assert of().name in state.message
        assert "exceeded quota: objects" in state.message
    assert room.store.calls == ["create"]
    room.store.refuses = ""
    room.clock.goes(seconds=3)
    assert await room.ensure(of()) is Ensured.MADE


@pytest.mark.parametrize(
    ("exactly", "dropped"),
    [
        ({"capacity": {"requests": {"memory": "1Gi"}}}, "capacity"),
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, "tolerations"),
        ({"adminAccess": True}, "adminAccess"),
    ],
)
async def test_a_dropped_field_is_named_and_nothing_stays_behind(
    exactly: Plain, dropped: str
) -> None:
    room = Room()
    room.store.drops = (dropped,)
    for ask in (room.ensure(of(**exactly)), room.made.look("team", of(**exactly), 5)):
        found = await ask
        assert isinstance(found, Finding)
        assert found.code == "ClaimFieldDropped"
        assert found.path == f"spec.spec.devices.requests[0].exactly.{dropped}"
        assert dropped in found.message
    assert room.store.held == {}


async def test_looking_makes_nothing() -> None:
    room = Room()
    assert await room.made.look("team", of(), 5) is Ensured.LATER
    assert room.store.held == {}
    await room.ensure(of())
    assert await room.made.look("team", of(), 5) is Ensured.THERE


async def test_use_is_noted_once_an_hour_and_waited_for_by_nobody() -> None:
    room = Room()
    await room.ensure(of())
    for _ in range(3):
        room.clock.goes(minutes=25)
        await room.ensure(of())
    await room.settled()
    assert room.store.calls.count("touch") == 1
    (made,) = room.store.held.values()
    metadata: Plain = made["metadata"]
    assert metadata["annotations"][USED_ANNOTATION] == "2026-11-20T13:15:00Z"


async def test_a_note_that_cannot_be_written_is_nobodys_trouble() -> None:
    room = Room()
    key = ("team", of().name)
    room.store.watched[key] = of().object
    room.store.fails = True
    assert await room.ensure(of()) is Ensured.THERE
    await room.settled()
    assert room.store.calls == ["touch"]


async def test_what_others_wrote_on_it_as_a_note_is_no_matter() -> None:
    room = Room()
    key = ("team", of().name)
    metadata = {"name": of().name, "annotations": {USED_ANNOTATION: "yesterday", "a": "b"}}
    room.store.watched[key] = {**of().object, "metadata": metadata}
    assert await room.ensure(of()) is Ensured.THERE
    await room.settled()


async def test_what_is_stored_as_it_was_sent_has_lost_nothing() -> None:
    assert lost(of().object, of()) is None
    less = {**of().object, "spec": {"spec": {}}}
    found = lost(less, of())
    assert found is not None
    assert found.path == "spec.spec.devices"


async def test_ending_ends_what_is_under_way() -> None:
    room = Room()
    room.store.open.clear()
    waiting = asyncio.create_task(room.made.ensure("team", of(), 60))
    await room.settled()
    await room.made.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
