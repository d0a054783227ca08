"""Terms of the scheduler: recovery before the first allocation, and clean-up while it leads."""

from collections.abc import Collection, Sequence
from typing import Self

import pytest

from allocator.scheduler.lease import Term
from allocator.term import TermKeeper
from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import NotLeadingError

pytestmark = pytest.mark.asyncio
FIRST, SECOND = Term("host-a_1", 1), Term("host-a_2", 3)


class StoppedError(BaseException):
    """Ends the loop."""


class Rig:
    """A keeper whose Lease, recovery and pauses the test controls."""

    def __init__(self) -> None:
        self.term: Term | None = None
        self.shown: Term | None = None  # what a read of the Lease shows, also if it is not ours
        self.synced = True
        self.story: list[str] = []
        self.failures: list[Exception] = []
        self.turns = self.leases = 0
        self.pauses: list[float] = []
        self.time, self.settled_at = 100.0, 0.0
        self.is_behind = False
        self.keeper = TermKeeper(
            self,
            self,  # type: ignore[arg-type]  # has the methods of a recovery
            self,
            on_leading=lambda: self.story.append("lead"),
            pause=self.pause,
        )

    def describe(self) -> str:
        """Describe the Lease."""
        return "host-b holds the Lease"

    async def begin_term(self) -> None:
        """Recover."""
        self.story.append("recover")
        self._fail()

    def has_ended(self, term: Term) -> bool:
        """Whether the Lease shows another one, or none."""
        return self.shown is not None and self.shown != term

    def end_term(self) -> None:
        """Forget what was reserved."""
        self.story.append("forget")

    async def look(self) -> None:
        """List the claims, which takes a second."""
        self.story.append("look")
        self.time += 1
        self._fail()

    def follow_lease(self) -> None:
        """Count the looks at what the Lease requires."""
        self.leases += 1

    def begin_look(self) -> float | None:
        """Begin a look if the time has come."""
        return self.time if 0 < self.settled_at <= self.time else None

    def list_taken_over(self, began: float) -> list[str]:
        """Return the nodes whose pods are to be looked at."""
        return [f"those of {began:g}"]

    async def find_behind(self, nodes: Sequence[str]) -> set[str]:
        """Return all of them while the watch of pods is behind."""
        return set(nodes) if self.is_behind else set()

    def note_look(self, began: float, behind: Collection[str]) -> None:
        """Use the nodes."""
        self.story.append(f"use nodes of {began:g}" + "".join(f" but {each}" for each in behind))
        self.settled_at = 0.0

    ready = True

    @property
    def fences(self) -> Self:
        """What follows the fences."""
        return self

    def find_problems(self) -> list[str]:
        """Return whether the caches are synced."""
        return [] if self.synced else ["unsynced"]

    async def run_turn(self, *, searches_marks: bool) -> None:
        """Count the turns."""
        self.turns += 1
        if searches_marks:
            self.story.append("search marks")

    async def read_told(self) -> None:
        """Read what a scheduler has told."""
        self.story.append("read told")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def pause(self, seconds: float) -> None:
        """Let the loop run for a number of steps."""
        self.pauses.append(seconds)
        self.steps -= 1
        if not self.steps:
            raise StoppedError

    async def run(self, steps: int) -> list[str]:
        """Run some steps and return what happened in them."""
        self.steps = steps
        self.story.clear()
        with pytest.raises(StoppedError):
            await self.keeper.run()
        return list(self.story)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_nothing_happens_without_a_lease_or_before_the_caches_are_synced(rig: Rig) -> None:
    assert await rig.run(20) == []
    rig.term, rig.synced = FIRST, False
    assert await rig.run(20) == []
    assert not rig.keeper.leading


async def test_a_term_recovers_once_and_then_leads(rig: Rig) -> None:
    rig.term = FIRST
    assert await rig.run(5) == ["recover", "lead"]
    assert rig.keeper.leading


async def test_what_is_left_is_undone_at_each_step_while_leading(rig: Rig) -> None:
    await rig.run(5)
    assert rig.turns == 0
    rig.term = FIRST
    await rig.run(5)
    assert rig.turns == 5
    assert max(rig.pauses) < 1


async def test_a_lease_that_is_uncertain_for_a_moment_needs_no_second_recovery(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.term = None
    assert await rig.run(1) == []
    assert not rig.keeper.leading
    rig.term = FIRST
    assert await rig.run(1) == []
    assert rig.keeper.leading


async def test_another_term_recovers_again(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.term = SECOND
    assert not rig.keeper.leading
    assert await rig.run(1) == ["recover", "lead"]
    assert rig.keeper.leading


@pytest.mark.parametrize(
    "error", [ApiError(500, "InternalError", "etcd"), NotLeadingError("host-b leads")]
)
async def test_a_failed_recovery_is_repeated_and_reported(rig: Rig, error: Exception) -> None:
    rig.term = FIRST
    rig.failures = [error, error]
    assert await rig.run(2) == ["recover", "recover"]
    assert (rig.keeper.leading, rig.keeper.problem) == (False, str(error))
    assert await rig.run(1) == ["recover", "lead"]
    assert (rig.keeper.leading, rig.keeper.problem) == (True, "")


async def test_a_recovery_that_fails_again_and_again_is_repeated_less_often(rig: Rig) -> None:
    rig.term = FIRST
    rig.failures = [ApiError(429, "TooManyRequests", "too many requests") for _ in range(9)]
    await rig.run(10)
    assert rig.pauses[0] < 0.5
    assert min(rig.pauses[7:9]) >= 2.5
    assert rig.pauses[9] == 0.2


async def test_a_term_that_starts_again_recovers_again(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.keeper.start_again()
    assert not rig.keeper.leading
    assert "has not finished" in rig.keeper.describe()
    assert await rig.run(1) == ["recover", "lead"]
    rig.term = None
    assert rig.keeper.describe() == "host-b holds the Lease"


async def test_what_was_reserved_is_forgotten_when_another_one_leads(rig: Rig) -> None:
    rig.term = rig.shown = FIRST
    await rig.run(1)
    rig.term = None  # it was not renewed in time
    assert await rig.run(5) == []
    rig.shown = SECOND
    assert await rig.run(5) == ["forget"]
    rig.term = rig.shown = FIRST
    assert await rig.run(1) == ["recover", "lead"]


async def test_what_a_recovery_left_that_failed_is_forgotten_as_well(rig: Rig) -> None:
    rig.failures = [ApiError(500, "InternalError", "etcd")]
    rig.term = rig.shown = FIRST
    assert await rig.run(1) == ["recover"]
    rig.term, rig.shown = None, SECOND
    assert await rig.run(5) == ["forget"]


@pytest.mark.parametrize("what", ["lease", "decisions"])
async def test_what_changes_during_the_recovery_makes_it_worthless(rig: Rig, what: str) -> None:
    rig.term = FIRST
    begin = rig.begin_term

    async def begin_term() -> None:
        await begin()
        if what == "lease":
            rig.term = SECOND
        else:
            rig.keeper.start_again()

    rig.begin_term = begin_term  # type: ignore[method-assign]  # the Lease changes hands meanwhile
    await rig.run(1)
    assert not rig.keeper.leading


async def test_the_leader_searches_marks_every_five_seconds(rig: Rig) -> None:
    rig.term = FIRST
    assert await rig.run(53) == ["recover", "lead", "search marks", "search marks"]


async def test_who_does_not_lead_reads_every_five_seconds_what_a_scheduler_has_told(
    rig: Rig,
) -> None:
    assert await rig.run(53) == ["read told", "read told"]
    rig.term = FIRST
    assert "read told" not in await rig.run(53)


async def test_what_the_lease_requires_is_followed_in_each_step_whoever_leads(rig: Rig) -> None:
    await rig.run(3)
    rig.term = FIRST
    rig.failures = [ApiError(500, "InternalError", "etcd")]
    await rig.run(2)
    assert rig.leases == 5


async def test_a_node_that_has_settled_is_used_after_a_look(rig: Rig) -> None:
    rig.term, rig.settled_at = FIRST, 101
    assert await rig.run(1) == ["recover", "lead"]
    rig.time = 101
    assert await rig.run(1) == ["look", "use nodes of 101"]
    assert await rig.run(1) == []


async def test_a_node_is_not_used_while_the_watch_of_its_pods_is_behind(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.settled_at, rig.is_behind = 100, True
    assert await rig.run(1) == ["look", "use nodes of 100 but those of 100"]


async def test_a_node_is_not_used_after_a_look_that_failed(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.settled_at, rig.failures = 100, [ApiError(500, "InternalError", "etcd")]
    assert await rig.run(1) == ["look"]
    assert await rig.run(1) == ["look", "use nodes of 101"]


async def test_a_process_that_does_not_lead_looks_at_the_claims_when_it_does(rig: Rig) -> None:
    rig.settled_at = 100
    assert await rig.run(1) == ["use nodes of 100"]
    rig.term = FIRST
    assert await rig.run(1) == ["recover", "lead"]


async def test_a_term_that_was_uncertain_for_a_moment_looks(rig: Rig) -> None:
    rig.term = FIRST
    await rig.run(1)
    rig.term, rig.settled_at = None, 100
    assert await rig.run(1) == ["look", "use nodes of 100"]
