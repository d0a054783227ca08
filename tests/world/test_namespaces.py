"""Which namespaces a quota counts, and what becomes of one that is deleted or restored."""

import asyncio
import random
from itertools import count
from typing import Any, cast

import pytest

from tests.cluster.fake.kinds import JSON, named
from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world.admission import RefusedPodError
from tests.world.admitted_pods import AdmittedPods
from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS
from tests.world.namespaces import Namespaces
from tests.world.network import Network
from tests.world.objects import make_migrated
from tests.world.quotas import Quotas
from tests.world.script import Event
from tests.world.world import play


@pytest.mark.parametrize(
    ("selects", "space", "together"),
    [
        ("", "team", {"team"}),
        ("", "second", set()),
        ("namespace", "second", {"second"}),
        ("selection", "second", {"second", "team"}),
        ("selection", "default", set()),
    ],
)
def test_a_quota_counts_the_namespaces_that_it_selects(
    selects: str, space: str, together: set[str]
) -> None:
    chosen = {"team", "second"} if selects else {"team"}
    spaces = Namespaces(Network.__new__(Network), selects)
    assert spaces.counted_with(space, chosen) == together


# Pods are created in the namespace, it is deleted, and another one comes with its name.
SCRIPT = (
    *(Event(0.2, "create", 21) for _ in range(3)),
    Event(4.0, "change namespaces", 0),
    Event(15.0, "change namespaces", 1),
    Event(1.0, "create", 21),
)


def test_a_namespace_goes_with_what_is_in_it() -> None:
    seed = next(each for each in count() if draw_conditions(each, EVENTS).selects)
    outcome = play(seed, SCRIPT)
    assert not outcome.violation
    assert outcome.counted["namespace that is gone"] == 1
    assert any("second is created" in line for line in outcome.story)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_pod_whose_namespace_goes_is_not_created(*, is_allowed: bool) -> None:
    async def main() -> None:
        network = Network(random.Random(0), Store())
        network.open()
        store = network.store

        class Others:
            async def admit(self, pod: JSON) -> JSON:
                if (space := store.find(named("namespaces"), "", "migrated-1")) is not None:
                    store.delete(named("namespaces"), space)
                if not is_allowed:
                    raise RefusedPodError
                return pod

        network.fronts[0].server.put(make_migrated("migrated-1"))
        pods = AdmittedPods(network, cast("Any", Others()), Quotas(network), lambda _: None)
        metadata = {"name": "p", "namespace": "migrated-1"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        pods.create({**pod, "spec": {"schedulerName": "default-scheduler"}}, "stock")
        await asyncio.wait([*pods.creating], timeout=60)
        assert not pods.creating
        assert not pods.refused
        assert not [*store.listed(named("pods"))]
        assert store.find(named("namespaces"), "", "migrated-1") is None

    run_virtually(main)
