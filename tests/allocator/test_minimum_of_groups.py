"""A PodGroup of Coscheduling that changes while its members wait."""

import pytest

from allocator.decisions.waiting import WaitingPods
from drawbridge.pod_groups import COSCHEDULING_LABEL
from tests.allocator.clusters import Cluster

KEY = f"default/{COSCHEDULING_LABEL}=g"


@pytest.mark.parametrize(("minimum", "woken"), [(3, ()), (2, ("m0", "m1")), (0, ("m0", "m1"))])
def test_members_are_woken_when_fewer_of_them_must_run(
    minimum: int, woken: tuple[str, ...]
) -> None:
    minimums = {("default", "g"): 4}
    cluster = Cluster(n1=2, min_members=minimums)
    waiting = WaitingPods(cluster.decisions)
    assert not cluster.ask_group(KEY, "m0", "m1").fit
    for uid in ("m0", "m1"):
        waiting.note_answer(uid, [], 0.0)
    assert waiting.wake(2.0).woken == ()
    minimums["default", "g"] = minimum
    assert waiting.wake(4.0).woken == ()
    waiting.note_minimum(KEY)
    assert waiting.wake(6.0).woken == woken


def test_a_group_that_was_not_refused_is_not_tried_again() -> None:
    cluster = Cluster(n1=2)
    assert not cluster.decisions.groups.forget_refusal(KEY)
