"""What a replica keeps of pods that it does not look up, and of their owners."""

import pytest

from controller.usage_observer import MOST_WAITING
from drawbridge.usage import meter
from tests.controller.test_usage import TEAM, Cluster, Controller
from tests.tables import every_row


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


@every_row("seen", ["pending", "gone", "looked up"])
def test_owners_with_names_without_end_are_cut(seen: str) -> None:
    """The API server does not check the names of owners."""
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    uid = cluster.pod("train-0", "x" * 100_000, pending=seen != "looked up")
    if seen == "gone":
        cluster.pods.remove("train-0", TEAM)
    cluster.claim("a", "gpu-0", pod="train-0", uid=uid)
    cluster.time += 60
    controller.write()
    charged = [each.owner for each in controller.observer.meter.observed().accounts()]
    kept = [*controller.observer._owners.values(), *controller.observer.names().values()]  # noqa: SLF001
    owners = {each for each in (*charged, *kept) if each.startswith("Job/")}
    assert owners == {f"Job/{'x' * 253}"}
