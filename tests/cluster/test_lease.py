"""Leader election: acquisition, renewal, release and the fence."""

# ruff: noqa: D102  # the fields have descriptive names

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.lease import LeaderElector
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.session import Session
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON

pytestmark = pytest.mark.asyncio
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15, 10, 2
LONG_AGO, FAR_AWAY = "1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"


class Rig:
    """A fake server, a clock and an elector; records what the elector runs."""

    def __init__(self, api: FakeApi, session: Session) -> None:
        self.api = api
        self.session = session
        self.clock = Clock()
        self.elector = self.make_elector("me")
        self.story: list[str] = []
        self.stopped = 0.0
        self.began = asyncio.Event()
        self.enough = asyncio.Event()

    def make_elector(self, name: str) -> LeaderElector:
        return LeaderElector(
            self.session, "default", "lead", name, now=self.clock.now, pause=self.clock.pause
        )

    def spec(self) -> JSON:
        held = self.api.get("leases", "lead")
        assert held is not None
        spec: JSON = held["spec"]
        return spec

    def held_by(
        self, holder: str, *, renewed: str = LONG_AGO, seconds: int = LEASE_DURATION
    ) -> None:
        """Write the Lease as another process does."""
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
        task = asyncio.create_task(self.elector.run(more.get("lead", self.lead)))
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


async def test_a_missing_lease_is_created(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        await rig.elector.check()
        spec = rig.spec()

    assert spec["holderIdentity"] == rig.elector.identity
    assert spec["leaseDurationSeconds"] == LEASE_DURATION
    assert spec["leaseTransitions"] == 0


async def test_a_missing_lease_permission_is_logged_as_a_warning(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.api.fail(403, part="leases", message="leases is forbidden")
    async with rig.running():
        await rig.leads()

    (record,) = [each for each in caplog.records if "leases is forbidden" in each.getMessage()]
    assert record.levelname == "WARNING"


@pytest.mark.parametrize("renewed", [LONG_AGO, FAR_AWAY])
@pytest.mark.parametrize("seconds", [LEASE_DURATION, 60])
async def test_a_holder_keeps_the_lease_for_its_duration_regardless_of_clocks(
    rig: Rig, renewed: str, seconds: int
) -> None:
    rig.held_by("other", renewed=renewed, seconds=seconds)
    started = rig.clock.now()
    async with rig.running():
        await rig.leads()
        waited = rig.clock.now() - started
        spec = rig.spec()

    assert seconds <= waited <= seconds + 2 * RETRY_PERIOD
    assert spec["leaseTransitions"] == 4


async def test_a_renewed_lease_is_not_taken(rig: Rig) -> None:
    rig.held_by("other")
    times = 0

    def renew() -> None:
        nonlocal times
        times += 1
        rig.held_by("other", renewed=f"2026-01-01T00:00:{times:02}.000000Z")

    rig.api.when(renew, method="GET", part="leases", times=20)
    async with rig.running():
        await rig.leads()

    # Twenty retry periods, and then the lease duration.
    assert rig.clock.now() - 1000 >= 20 * RETRY_PERIOD + LEASE_DURATION - RETRY_PERIOD


async def test_a_released_lease_is_acquired_immediately(rig: Rig) -> None:
    rig.held_by("", renewed=FAR_AWAY)
    async with rig.running():
        await rig.leads()

    assert rig.clock.pauses in ([], [RETRY_PERIOD])


async def test_the_fence_rejects_a_candidate(rig: Rig) -> None:
    rig.held_by("other")
    async with rig.running():
        await rig.api.until(lambda: rig.elector.holder)
        with pytest.raises(NotLeadingError, match="other holds it"):
            await rig.elector.check()


async def test_two_processes_with_one_name_do_not_both_lead(rig: Rig) -> None:
    second = rig.make_elector("me")
    async with rig.running():
        await rig.leads()
        # The identities differ, so it does not take the Lease for its own.
        assert await second._try_acquire() is False  # noqa: SLF001  # one attempt
        assert not second.leading


async def test_a_renewal_is_one_request(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) >= 3)
        assert len(rig.api.asked("GET", "leases")) == 1

    assert rig.story == ["leads", "is stopped"]


async def test_a_leader_that_cannot_renew_stops_before_the_lease_expires(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        last = rig.clock.now()
        rig.api.fail(500, part="leases", times=float("inf"))
        await rig.leads()
        stopped = rig.stopped
        sent = [seen.body for seen in rig.api.asked("PUT", "leases")]
        # A write of it can be on its way.
        assert not [body for body in sent if b'"holderIdentity":""' in body], "it expires"

    assert rig.story == ["leads", "is stopped", "leads", "is stopped"]
    assert stopped - last <= RENEW_DEADLINE + 2 * RETRY_PERIOD < LEASE_DURATION


async def test_the_fence_closes_while_a_renewal_hangs(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        gate = rig.api.hold(method="PUT", part="leases", times=9)
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) > 0)
        await rig.elector.check()
        rig.clock.time += RENEW_DEADLINE
        with pytest.raises(NotLeadingError):
            await rig.elector.check()
        assert rig.story == ["leads"], "the task still runs"
        gate.set()


async def test_the_renew_deadline_counts_from_the_start_of_the_renewal(rig: Rig) -> None:
    def slow() -> None:
        rig.clock.time += RENEW_DEADLINE - 1

    assert await rig.elector._try_acquire()  # noqa: SLF001  # one attempt
    rig.api.when(slow, method="PUT", part="leases")
    assert await rig.elector._try_acquire()  # noqa: SLF001  # a second attempt
    await rig.elector.check()
    rig.clock.time += 1
    with pytest.raises(NotLeadingError):
        await rig.elector.check()


async def test_a_lost_response_does_not_end_the_leadership(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        rig.api.cut(method="PUT", part="leases", after=True)
        before = len(rig.api.asked("PUT", "leases"))
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) >= before + 5)
        await rig.elector.check()

    assert rig.story == ["leads", "is stopped"]


async def test_a_response_that_is_no_json_does_not_end_the_process(rig: Rig) -> None:
    async with rig.running() as running:
        await rig.leads()
        rig.api.fail(200, part="leases", body=b"<html>Sign in</html>", times=2)
        before = len(rig.api.asked("PUT", "leases"))
        await rig.api.until(lambda: len(rig.api.asked("PUT", "leases")) >= before + 5)
        assert not running.done()
        await rig.elector.check()


async def test_a_leader_that_sees_another_holder_stops_immediately(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        rig.held_by("other")
        before = rig.clock.now()
        await rig.api.until(lambda: "is stopped" in rig.story)
        stopped = rig.clock.now()

    assert stopped - before <= 3 * RETRY_PERIOD


async def test_a_task_that_the_fence_stops_is_not_a_failure(rig: Rig) -> None:
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


async def test_the_lease_is_released_when_the_task_ends(rig: Rig) -> None:
    rig.enough.set()
    async with rig.running() as task:
        await asyncio.wait_for(task, 10)

    assert rig.story == ["leads", "is done"]
    assert rig.spec()["holderIdentity"] == ""
    assert not rig.elector.leading


async def test_the_lease_is_released_and_the_error_raised_when_the_task_fails(rig: Rig) -> None:
    async def lead() -> None:
        raise ZeroDivisionError

    async with rig.running(lead=lead) as task:
        await asyncio.wait((task,))
        assert isinstance(task.exception(), ZeroDivisionError)

    assert rig.spec()["holderIdentity"] == ""


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_the_lease_is_released_if_its_acquisition_or_renewal_is_cancelled(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The server has carried the request out, and its response is on its way."""
    written = asyncio.Event()
    call = rig.session.call

    async def respond_late(asked: str, path: str, **more: Any) -> bytes:  # noqa: ANN401  # those of `call`
        response = await call(asked, path, **more)
        if asked == method and not written.is_set():
            written.set()
            await asyncio.Event().wait()
        return response

    monkeypatch.setattr(rig.session, "call", respond_late)
    async with rig.running():
        await asyncio.wait_for(written.wait(), 10)
        assert rig.spec()["holderIdentity"] == rig.elector.identity

    assert rig.spec()["holderIdentity"] == ""


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_lease_that_changes_at_its_release_is_released_by_its_holder_only(
    rig: Rig,
    is_own: bool,  # noqa: FBT001  # a case
) -> None:
    """A renewal that was cancelled can arrive late."""
    holder = rig.elector.identity if is_own else "other"
    rig.api.when(lambda: rig.held_by(holder), method="PUT", part="leases")
    rig.enough.set()
    async with rig.running() as task:
        await asyncio.wait_for(task, 10)

    assert rig.spec()["holderIdentity"] == ("" if is_own else "other")


async def test_the_release_of_a_lease_does_not_delay_the_end(rig: Rig) -> None:
    rig.elector = LeaderElector(rig.session, "default", "lead", "me", retry_period=0.1)

    async def lead() -> None:
        rig.began.set()
        await rig.enough.wait()

    async with rig.running(lead=lead):
        await rig.leads()
        rig.api.hold(part="leases", times=99)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5
    assert rig.spec()["holderIdentity"] == rig.elector.identity


async def test_a_candidate_does_not_release_the_lease(rig: Rig) -> None:
    rig.held_by("other")
    async with rig.running():
        await rig.api.until(lambda: rig.elector.holder)

    assert rig.spec()["holderIdentity"] == "other"
    assert rig.writes() == 0


# --- the fence around writes -------------------------------------------------------------------


async def test_a_closed_fence_rejects_writes(rig: Rig) -> None:
    maps = ResourceClient(rig.session, CONFIG_MAPS, decode_object, fence=rig.elector)
    value = {"metadata": {"name": "a"}}
    with pytest.raises(NotLeadingError):
        await maps.create(value, namespace="default")
    shown = await maps.create(value, namespace="default", dry_run=True)

    assert shown["metadata"]["name"] == "a"
    assert await maps.read("a", namespace="default") is None
    assert [seen.query.get("dryRun") for seen in rig.api.asked("POST", "configmaps")] == ["All"]


async def test_the_fence_is_checked_before_every_retry(rig: Rig) -> None:
    async with rig.running():
        await rig.leads()
        maps = ResourceClient(rig.session, CONFIG_MAPS, decode_object, fence=rig.elector)

        def late() -> None:
            rig.clock.time += RENEW_DEADLINE

        rig.api.when(late, method="POST", part="configmaps")
        rig.api.fail(429, method="POST", part="configmaps", retry_after=0)
        gate = rig.api.hold(method="PUT", part="leases", times=99)
        with pytest.raises(NotLeadingError):
            await maps.create({"metadata": {"name": "a"}}, namespace="default")
        gate.set()

    assert len(rig.api.asked("POST", "configmaps")) == 1
