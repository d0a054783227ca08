"""Drawn clusters: the same seed gives the same one, with every surprise in reach."""

import pytest

from e2e.clusters import SURPRISES, draw


def test_there_are_a_hundred_surprises() -> None:
    assert len(SURPRISES) >= 100


@pytest.mark.parametrize("rig", [False, True])
def test_a_seed_gives_the_same_cluster(rig: bool) -> None:  # noqa: FBT001  # of the table
    first, second = (draw(7, 12, rig=rig) for _ in range(2))
    assert first.objects == second.objects
    assert first.surprises == second.surprises


def test_clusters_have_any_mix_of_surprises_and_any_size() -> None:
    drawn = [draw(seed, 5 + 3 * seed) for seed in range(60)]
    assert {number for each in drawn for number in each.surprises} == {*SURPRISES}
    assert all(len(each.nodes) >= 5 for each in drawn)


def test_names_are_unique() -> None:
    cluster = draw(3, 40, SURPRISES)
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in cluster.objects
    ]
    assert len(names) == len({*names})
