"""The outcome of each attempt to bind a pod: in the reply to the plugin, and counted."""

import pytest

from allocator.scheduler.protocol import BindReply, PodOnNode
from allocator.writes.binding import Attempt, BindOutcome
from drawbridge.process import metrics
from tests.allocator.clusters import Cluster
from tests.allocator.fake_process import FakeProcess


class Ends(FakeProcess):
    """A process each of whose attempts has this outcome."""

    outcome: BindOutcome

    async def bind(self, pod_uid: str, node: str) -> Attempt:
        """Say the outcome."""
        return Attempt(self.outcome, f"{pod_uid} on {node}: {self.outcome}")


def count() -> dict[str, float]:
    name = "drawbridge_allocator_binds_total"
    return {
        each: metrics.ALLOCATOR.get_sample_value(name, {"outcome": each}) or 0
        for each in BindOutcome
    }


@pytest.mark.asyncio
@pytest.mark.parametrize("outcome", BindOutcome)
async def test_a_pod_that_waits_for_its_devices_has_not_failed(outcome: BindOutcome) -> None:
    process, before = Ends(Cluster(n1=1)), count()
    process.outcome = outcome
    reply = await process.calls.bind(PodOnNode(pod_uid="p", node="n1"))
    assert reply == BindReply(bound=outcome == "bound", message=f"p on n1: {outcome}")
    assert {each: number - before[each] for each, number in count().items()} == {
        **dict.fromkeys(BindOutcome, 0),
        outcome: 1,
    }
