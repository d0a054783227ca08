"""A write of our controller changes no taint but its own, whatever others write."""

import random

import pytest

from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Change, Store
from tests.world.foreign_taints import ForeignTaints
from tests.world.network import Network
from tests.world.objects import FENCE, OUT_OF_SERVICE

OURS, LOST = {"key": FENCE, "effect": "NoSchedule"}, {"key": OUT_OF_SERVICE, "effect": "NoExecute"}


def make(*taints: JSON) -> JSON:
    return {"metadata": {"name": "n4"}, "spec": {"taints": [*taints]}}


@pytest.mark.parametrize(
    ("writer", "before", "after", "is_judged"),
    [
        ("controller control-a", make(LOST), make(OURS), True),
        ("controller control-a", make(), make(OURS, LOST), True),
        ("controller control-a", make(LOST), make(LOST, OURS), False),
        ("", make(LOST), make(), False),
        ("kubelet n4", make(LOST), make(), False),
    ],
)
def test_the_taints_of_others_stay(
    writer: str, before: JSON, after: JSON, *, is_judged: bool
) -> None:
    network = Network(random.Random(1), Store(drawn=random.Random(1)))
    taints, network.writer = ForeignTaints(network), writer
    taints.follow(named("nodes"), Change(1, before, after))
    assert bool(taints.changed) == is_judged
