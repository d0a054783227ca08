"""The Lease of the kube-scheduler: when this process may write."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from allocator.scheduler.known_versions import KnownVersions
from allocator.scheduler.lease import (
    CONFIRM_SECONDS,
    MARGIN_SECONDS,
    LeaseName,
    SchedulerLease,
    Term,
)
from drawbridge.agreement.required_versions import RequiredVersions
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError
from drawbridge.cluster.session import Session
from tests.allocator.test_known_versions import FakeCache
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio
DURATION = 15
OURS, THEIRS = "host-a_11111111-2222", "host-b_33333333-4444"


class Rig:
    """A fake API server with a Lease, and the view of a process on host-a."""

    def __init__(self, api: FakeApi, session: Session) -> None:
        self.api = api
        self.clock = Clock()
        self.nodes = FakeCache("90")
        name = LeaseName("kube-system", "drawbridge-scheduler")
        self.lease = SchedulerLease(
            session,
            name,
            "host-a",
            versions=KnownVersions({"nodes": self.nodes}),
            now=self.clock.now,
            pause=self.clock.pause,
        )
        self.renewals = 0
        self.annotations: dict[str, str] = {}

    def renew(self, holder: str = OURS, transitions: int = 3) -> None:
        """Renew the Lease as kube-scheduler does; its clock is wrong."""
        self.renewals += 1
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION,
            "leaseTransitions": transitions,
            "renewTime": f"1999-01-01T00:00:{self.renewals:02}.000000Z",
        }
        metadata = {"name": "drawbridge-scheduler", "namespace": "kube-system"}
        metadata |= {"annotations": self.annotations} if self.annotations else {}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        self.api.put({**lease, "metadata": metadata, "spec": spec})

    def require(self, required: RequiredVersions) -> None:
        """Require versions as the controller does, and renew the Lease."""
        self.annotations = required.annotation()
        self.renew()

    async def read_after(self, seconds: float) -> bool:
        """Read the Lease when some time has passed; returns whether this process leads."""
        self.clock.time += seconds
        await self.lease.read()
        return self.lease.leading

    async def lead(self) -> None:
        """Become the leader: a renewal was seen between two reads."""
        self.renew()
        await self.read_after(0)
        self.renew()
        assert await self.read_after(1)


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi())
        session = await Session.open(str(api.kubeconfig(tmp_path / "config")))
        await stack.enter_async_context(session)
        yield Rig(api, session)


async def test_a_lease_that_was_not_read_neither_leads_nor_ends_a_term(rig: Rig) -> None:
    with pytest.raises(NotLeadingError, match="was not read yet"):
        await rig.lease.check()
    assert not rig.lease.has_ended(Term(OURS, 3))


async def test_the_first_read_does_not_lead_because_the_renewal_can_be_old(rig: Rig) -> None:
    rig.renew()
    assert not await rig.read_after(0)
    assert not await rig.read_after(5)
    rig.renew()
    assert await rig.read_after(1)
    assert rig.lease.term == Term(OURS, 3)
    await rig.lease.check()


async def test_a_renewal_counts_from_the_read_before_it_was_seen(rig: Rig) -> None:
    await rig.lead()
    seen = rig.clock.now()
    rig.renew()
    assert await rig.read_after(4)
    # Renewed right after the read at `seen`, at the earliest.
    rig.clock.time = seen + DURATION - MARGIN_SECONDS - 0.01
    assert rig.lease.leading
    rig.clock.time += 0.02
    assert not rig.lease.leading
    with pytest.raises(NotLeadingError, match="did not renew the Lease"):
        await rig.lease.check()


@pytest.mark.parametrize(
    ("holder", "transitions", "has_ended"),
    [(OURS, 3, False), (OURS, 5, True), (THEIRS, 4, True), ("", 3, True)],
    ids=["late", "again", "another", "none"],
)
async def test_a_term_ends_when_the_lease_shows_another_one(
    rig: Rig, holder: str, transitions: int, *, has_ended: bool
) -> None:
    await rig.lead()
    term = rig.lease.term
    assert term is not None
    rig.clock.time += DURATION
    assert rig.lease.term is None
    assert not rig.lease.has_ended(term)
    rig.renew(holder, transitions)
    await rig.read_after(0)
    assert rig.lease.has_ended(term) is has_ended


async def test_a_process_that_was_stopped_does_not_lead_by_what_it_reads_late(rig: Rig) -> None:
    await rig.lead()
    rig.renew()
    assert not await rig.read_after(30)  # the renewal can be 30 seconds old
    rig.renew()
    assert await rig.read_after(1)


async def test_another_holder_ends_the_term_at_once(rig: Rig) -> None:
    await rig.lead()
    rig.renew(THEIRS, transitions=4)
    assert not await rig.read_after(1)
    assert rig.lease.term is None
    with pytest.raises(NotLeadingError, match=f"{THEIRS} holds the Lease"):
        await rig.lease.check()
    rig.renew(OURS, transitions=5)
    assert await rig.read_after(1)
    assert rig.lease.term == Term(OURS, 5)


@pytest.mark.parametrize("holder", ["", "host-a", "host-ab_1", "xhost-a_1", "host-a_x_1"])
async def test_only_a_holder_on_this_host_counts(rig: Rig, holder: str) -> None:
    await rig.lead()
    rig.renew(holder)
    assert not await rig.read_after(1)


async def test_a_lease_that_cannot_be_read_expires(rig: Rig) -> None:
    await rig.lead()
    rig.api.fail(part="leases", code=503, times=100)
    with pytest.raises(ApiError):
        await rig.read_after(1)
    assert rig.lease.leading
    rig.clock.time += DURATION
    assert not rig.lease.leading


async def test_a_response_that_is_no_json_confirms_nobody_and_ends_nothing(rig: Rig) -> None:
    await rig.lead()
    rig.api.fail(200, part="leases", body=b"<html>Sign in</html>")
    with pytest.raises(ApiError, match="cannot be read"):
        await rig.read_after(1)
    assert rig.lease.leading
    assert await rig.read_after(1)


async def test_the_loop_reads_on_after_an_error_and_tells_the_reason(rig: Rig) -> None:
    rig.renew()
    rig.api.fail(part="leases", code=403, times=2, message="no right to get leases")
    reasons = []

    async def pause(seconds: float) -> None:
        reasons.append(rig.lease.problem)
        await rig.clock.pause(seconds)
        rig.renew()
        if len(reasons) == 5:
            raise asyncio.CancelledError

    rig.lease._pause = pause  # noqa: SLF001  # ends the loop
    with pytest.raises(asyncio.CancelledError):
        await rig.lease.run()
    assert ["no right" in each for each in reasons] == [True, True, False, False, False]
    assert rig.lease.leading


async def test_a_lease_that_requires_more_than_is_known_does_not_lead(rig: Rig) -> None:
    nodes = rig.nodes
    await rig.lead()
    rig.require(RequiredVersions("100"))
    assert not await rig.read_after(1)
    with pytest.raises(NotLeadingError, match="requires newer nodes than this process has read"):
        await rig.lease.check()
    nodes.version = "100"
    assert rig.lease.term == Term(OURS, 3)


async def test_a_released_lease_is_confirmed_by_nobody(rig: Rig) -> None:
    await rig.lead()
    await rig.lease.confirm()
    rig.renew("")
    assert rig.lease.leading  # it cannot know yet
    with pytest.raises(NotLeadingError, match="has no holder"):
        await rig.lease.confirm()
    assert not rig.lease.leading


async def test_all_that_ask_before_a_read_is_sent_share_it(rig: Rig) -> None:
    await rig.lead()
    gate, before = rig.api.hold(part="leases"), len(rig.api.asked("GET", "leases"))
    first = asyncio.ensure_future(rig.lease.confirm())
    await asyncio.sleep(0.05)
    assert len(rig.api.asked("GET", "leases")) == before + 1
    # The read in flight tells nothing of the Lease after this moment.
    later = [asyncio.ensure_future(rig.lease.confirm()) for _ in range(20)]
    await asyncio.sleep(0)
    rig.api.when(lambda: rig.renew(THEIRS), part="leases")
    gate.set()
    await first
    answers = await asyncio.gather(*later, return_exceptions=True)
    assert [type(each) for each in answers] == [NotLeadingError] * 20
    assert len(rig.api.asked("GET", "leases")) == before + 2


async def test_a_read_that_fails_confirms_nobody_and_is_not_repeated_for_each(rig: Rig) -> None:
    await rig.lead()
    before = len(rig.api.asked("GET", "leases"))
    rig.api.fail(403, part="leases")
    asked = [rig.lease.confirm() for _ in range(5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in answers] == [ApiError] * 5
    assert len(rig.api.asked("GET", "leases")) == before + 1
    await rig.lease.confirm()


async def test_a_caller_that_ends_leaves_the_read_to_the_others(rig: Rig) -> None:
    await rig.lead()
    rig.api.hold(part="leases")
    asked = [asyncio.ensure_future(rig.lease.confirm()) for _ in range(2)]
    await asyncio.sleep(0.05)
    asked[0].cancel()
    await asked[1]
    with pytest.raises(asyncio.CancelledError):
        await asked[0]


async def test_pods_that_follow_each_other_soon_share_a_read(rig: Rig) -> None:
    await rig.lead()
    rig.clock.time += 1
    before, began = len(rig.api.asked("GET", "leases")), rig.clock.now()
    await rig.lease.confirm()
    assert rig.clock.now() == began
    await asyncio.gather(*(rig.lease.confirm() for _ in range(5)))
    assert rig.clock.now() == pytest.approx(began + CONFIRM_SECONDS)
    assert len(rig.api.asked("GET", "leases")) == before + 2
