"""What a replica that does not lead keeps of the pods that it does not look up."""

import pytest

from controller.usage_observer import MOST_WAITING
from drawbridge.usage import meter
from tests.controller.test_usage import TEAM, Cluster, Controller


def test_pods_that_are_gone_are_forgotten_and_the_others_are_looked_up_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meter, "MAX_CHANGES", 100)
    monkeypatch.setattr(meter, "_LEFT", 50)
    cluster = Cluster()
    uid = cluster.pod("train-0", "train", pending=False)
    standby = Controller(cluster)
    standby.check()
    cluster.claim("a", "gpu-0", pod="train-0", uid=uid)
    for number in range(3 * MOST_WAITING):
        name = f"short-{number}"
        cluster.claim(name, "gpu-1", pod=name, uid=name, namespace="pipeline")
        cluster.claims.remove(name, "pipeline")
        if number % 100 == 0:
            standby.check()
    assert len(standby.observer.waiting) <= MOST_WAITING + 100
    cluster.time += 60
    standby.write()  # it leads now
    cluster.time += 60
    standby.write()
    assert (TEAM, "Job/train") in cluster.used()
    assert not standby.observer.waiting
