"""One leads at a time, by nobody's clock but its own, and knows when it no longer does."""

# ruff: noqa: D102  # what a rig has is said by its names

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cluster.errors import NotLeadingError
from cluster.lease import LeaderElector, boot_time
from cluster.resources import CONFIG_MAPS
from cluster.session import Session
from cluster.write import Writer
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON

pytestmark = pytest.mark.asyncio
LEASE, RENEW, RETRY = 15, 10, 2
LONG_AGO, FAR_AWAY = "1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"


class Rig:
    """A server, a clock, and one who stands for election; what it did while leading."""

    def __init__(self, api: FakeApi, session: Session) -> None:
        self.api = api
        self.session = session
        self.clock = Clock()
        self.election = self.stands("me")
        self.story: list[str] = []
        self.stopped = 0.0
        self.began = asyncio.Event()
        self.enough = asyncio.Event()

    def stands(self, name: str) -> LeaderElector:
        return LeaderElector(
            self.session, "default", "lead", name, now=self.clock.now, pause=self.clock.pause
        )

    def spec(self) -> JSON:
        held = self.api.get("leases", "lead")
        assert held is not None
        spec: JSON = held["spec"]
        return spec

    def held_by(self, holder: str, *, renewed: str = LONG_AGO, seconds: int = LEASE) -> None:
        """Write the Lease as another program does."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
        self.api.put(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "lead"},
                "spec": {**spec, "leaseTransitions": 3},
            }
        )

    async def lead(self) -> None:
        self.story.append("leads")
        self.began.set()
        try:
            await self.enough.wait()
            self.story.append("is done")
        except asyncio.CancelledError:
            self.story.append("is stopped")
            self.stopped = self.clock.now()
            self.api.heal()
            raise

    @contextlib.asynccontextmanager
    async def running(self, **more: Any) -> AsyncIterator["asyncio.Task[None]"]:  # noqa: ANN401  # what leads
        task = asyncio.create_task(self.election.run(more.get("lead", self.lead)))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def leads(self) -> None:
        async with asyncio.timeout(10):
            await self.began.wait()
        self.began.clear()

    def writes(self) -> int:
        return len([seen for seen in self.api.requests if seen.method != "GET"])


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        yield Rig(api, await stack.enter_async_context(session))


async def test_whoever_finds_no_lease_makes_it(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        await rig.election.check()
        spec = rig.spec()

    assert spec["holderIdentity"] == rig.election.identity
    assert spec["leaseDurationSeconds"] == LEASE
    assert spec["leaseTransitions"] == 0


async def test_whoever_may_not_touch_the_lease_says_so_loudly(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.api.fail(403, part="leases", message="leases is forbidden")
    async with rig.running():
        await rig.leads()

    (told,) = [each for each in caplog.records if "leases is forbidden" in each.getMessage()]
    assert told.levelname == "WARNING"


@pytest.mark.parametrize("renewed", [LONG_AGO, FAR_AWAY])
@pytest.mark.parametrize("seconds", [LEASE, 60])
async def test_a_holder_has_its_whole_time_however_its_clock_goes(
    rig: Rig, renewed: str, seconds: int
) -> None:
    rig.held_by("other", renewed=renewed, seconds=seconds)
    started = rig.clock.now()
    async with rig.running():
        await rig.leads()
        waited = rig.clock.now() - started
        spec = rig.spec()

    assert seconds <= waited <= seconds + 2 * RETRY
    assert spec["leaseTransitions"] == 4


async def test_a_holder_that_renews_keeps_it(rig: Rig) -> None:
    rig.held_by("other")
    times = 0

    def renew() -> None:
        nonlocal times
        times += 1
        rig.held_by("other", renewed=f"2026-01-01T00:00:{times:02}.000000Z")

    rig.api.when(renew, method="GET", part="leases", times=20)
    async with rig.running():
        await rig.leads()

    # Twenty times two seconds, and then the whole time once more.
    assert rig.clock.now() - 1000 >= 20 * RETRY + LEASE - RETRY


async def test_what_was_given_back_is_taken_at_once(rig: Rig) -> None:
    rig.held_by("", renewed=FAR_AWAY)
    async with rig.running():
        await rig.leads()

    assert rig.clock.pauses in ([], [RETRY])


async def test_nobody_passes_the_fence_before_it_leads(rig: Rig) -> None:
    rig.held_by("other")
    async with rig.running():
        await rig.api.until(lambda: rig.election.holder)
        with pytest.raises(NotLeadingError, match="other does"):
            await rig.election.check()


async def test_two_of_one_name_do_not_both_lead(rig: Rig) -> None:
    second = rig.stands("me")
    async with rig.running():
        await rig.leads()
        # It sees the Lease of its namesake, and does not take it for its own.
        assert await second._try() is False  # noqa: SLF001  # one round of its election
        assert not second.leading


async def test_renewing_takes_one_call(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) >= 3)

    assert len(rig.api.asked("GET", "leases")) == 1
    assert rig.story == ["leads", "is stopped"]


async def test_whoever_cannot_renew_stops_before_another_may_begin(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        last = rig.clock.now()
        rig.api.fail(500, part="leases", times=float("inf"))
        await rig.leads()
        stopped = rig.stopped

    assert rig.story == ["leads", "is stopped", "leads", "is stopped"]
    assert stopped - last <= RENEW + 2 * RETRY < LEASE


async def test_the_fence_closes_by_itself_when_renewing_hangs(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        gate = rig.api.hold(method="PUT", part="leases", times=9)
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) > 0)
        await rig.election.check()
        rig.clock.time += RENEW
        with pytest.raises(NotLeadingError):
            await rig.election.check()
        assert rig.story == ["leads"], "nobody has told it yet"
        gate.set()


async def test_the_time_of_a_renewal_runs_from_its_beginning(rig: Rig) -> None:
    def slow() -> None:
        rig.clock.time += RENEW - 1

    assert await rig.election._try()  # noqa: SLF001  # one round of its election
    rig.api.when(slow, method="PUT", part="leases")
    assert await rig.election._try()  # noqa: SLF001  # and the next
    await rig.election.check()
    rig.clock.time += 1
    with pytest.raises(NotLeadingError):
        await rig.election.check()


async def test_an_answer_that_was_lost_costs_nothing(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        rig.api.cut(method="PUT", part="leases", after=True)
        before = len(rig.api.asked("PUT", "leases"))
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) >= before + 5)
        await rig.election.check()

    assert rig.story == ["leads", "is stopped"]


async def test_whoever_sees_another_in_its_place_stops_at_once(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        rig.held_by("other")
        before = rig.clock.now()
        await rig.api.until(lambda: "is stopped" in rig.story)
        stopped = rig.clock.now()

    assert stopped - before <= 3 * RETRY


async def test_a_task_that_stops_at_the_fence_is_no_failure(rig: Rig) -> None:
    times = 0

    async def lead() -> None:
        nonlocal times
        times += 1
        rig.began.set()
        if times == 1:
            raise NotLeadingError("a write was held back")
        await rig.enough.wait()

    async with rig.running(lead=lead) as task:
        await rig.leads()
        await rig.leads()
        assert not task.done()


async def test_when_the_work_is_done_the_lease_is_given_back(rig: Rig) -> None:
    rig.enough.set()
    async with rig.running() as task:
        await asyncio.wait_for(task, 10)

    assert rig.story == ["leads", "is done"]
    assert rig.spec()["holderIdentity"] == ""
    assert not rig.election.leading


async def test_when_the_work_fails_the_lease_is_given_back_and_the_reason_told(rig: Rig) -> None:
    async def lead() -> None:
        raise ZeroDivisionError

    async with rig.running(lead=lead) as task:
        await asyncio.wait((task,))
        assert isinstance(task.exception(), ZeroDivisionError)

    assert rig.spec()["holderIdentity"] == ""


async def test_whoever_does_not_lead_gives_nothing_back(rig: Rig) -> None:
    rig.held_by("other")
    async with rig.running():
        await rig.api.until(lambda: rig.election.holder)

    assert rig.spec()["holderIdentity"] == "other"
    assert rig.writes() == 0


# --- the fence around writes -------------------------------------------------------------------


async def test_nothing_is_written_behind_a_closed_fence(rig: Rig) -> None:
    writer = Writer(rig.session, fence=rig.election)
    value = {"metadata": {"name": "a"}}
    with pytest.raises(NotLeadingError):
        await writer.create(CONFIG_MAPS, value, namespace="default")
    shown = await writer.create(CONFIG_MAPS, value, namespace="default", dry_run=True)

    assert shown["metadata"]["name"] == "a"
    assert await writer.read(CONFIG_MAPS, "a", namespace="default") is None
    assert [seen.query.get("dryRun") for seen in rig.api.asked("POST", "configmaps")] == ["All"]


async def test_the_fence_is_asked_again_before_a_write_is_repeated(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        writer = Writer(rig.session, fence=rig.election)

        def late() -> None:
            rig.clock.time += RENEW

        rig.api.when(late, method="POST", part="configmaps")
        rig.api.fail(429, method="POST", part="configmaps", retry_after=0)
        gate = rig.api.hold(method="PUT", part="leases", times=99)
        with pytest.raises(NotLeadingError):
            await writer.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="default")
        gate.set()

    assert len(rig.api.asked("POST", "configmaps")) == 1


async def test_the_clock_goes_on() -> None:
    assert boot_time() <= boot_time()
