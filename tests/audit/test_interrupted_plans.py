"""Plans that stop after any command and go on with a new audit, and steps that are undone."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.audit.follow import Followed, answers_of, audit
from tests.audit.player.cluster import names_of
from tests.audit.player.written import write_objects
from tests.thorough import drawn

SEEDS = range(drawn(4, 60))
NODES = 8


def begin(seed: int, folder: Path) -> tuple[Followed, random.Random]:
    """Return a cluster of whole GPUs, and what chooses where its plan stops."""
    return Followed(seed, NODES, folder, rig=True), random.Random(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_that_was_interrupted_goes_on(seed: int, tmp_path: Path) -> None:
    followed, chooses = begin(seed, tmp_path)
    named = set[str]()
    for _ in range(3):
        steps = followed.told["steps"]
        typed = [(step, command) for step in steps for command in step["commands"]]
        for step, command in typed[: chooses.randrange(len(typed) + 1)]:
            followed.typist.type(command)
            named |= {text.partition(":")[0] for text in step["loses"]}
        go_on(followed, tmp_path)
    for step in followed.told["steps"]:
        for each in step["commands"]:
            followed.typist.type(each)
        named |= {text.partition(":")[0] for text in step["loses"]}
    cluster = followed.cluster
    now = names_of((*cluster.pods.values(), *cluster.owed))
    left = {key: number for key, number in followed.before.items() if key not in named}
    assert {key: number for key, number in now.items() if key not in named} == left
    assert cluster.lost <= named
    assert not cluster.suspended
    assert not [e.name for e in cluster.machines.values() if "drawbridge.dev/moving" in e.notes]
    assert [e["title"] for e in audit(write_objects(cluster), tmp_path)["steps"] if _moves(e)] == []


def go_on(followed: Followed, folder: Path) -> None:
    """Audit the cluster where it stands."""
    followed.told = audit(write_objects(followed.cluster), folder)
    followed.cluster.answers |= answers_of(followed.told)


def _moves(step: dict[str, Any]) -> bool:
    return step["title"].startswith(("Move", "Continue"))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_undo_of_a_step_leaves_what_was_there(seed: int, tmp_path: Path) -> None:
    followed, chooses = begin(seed, tmp_path)
    steps = [each for each in followed.told["steps"] if each["undo"] and not each["loses"]]
    undone = chooses.choice(steps)
    for step in followed.told["steps"]:
        before, held = state(followed), count_held(followed)
        for each in step["commands"]:
            followed.typist.type(each)
        if step is undone:
            break
    for command in undone["undo"]:
        if not command.startswith("helm"):
            followed.typist.type(command)
    assert state(followed) == before
    # Which of several pods waits is up to the scheduler, and one can take more than another.
    assert count_held(followed) >= held


def count_held(followed: Followed) -> int:
    """Return how many devices pods have."""
    pods = followed.cluster.pods.values()
    return sum(sum(each.limits.values()) for each in pods if each.served)


def state(followed: Followed) -> object:
    """Return what a step can set, and how many pods each owner has."""
    cluster = followed.cluster
    counts = {owner: sum(pods.values()) for owner, pods in cluster.count().items()}
    nodes = {
        each.name: (
            {key: text for key, text in each.labels.items() if key.startswith("drawbridge")},
            dict(each.notes),
            each.cordoned,
            dict(each.units),
            dict(each.published),
        )
        for each in cluster.machines.values()
    }
    suspended = Counter({name: len(pods) for name, pods in cluster.suspended.items()})
    return counts, nodes, dict(cluster.modes), suspended
