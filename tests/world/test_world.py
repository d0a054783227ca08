"""A moment of the simulated world; `python -m tests.world --minutes 60` searches on."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import count, islice
from pathlib import Path

import pytest

from allocator.state.vanished_pods import VanishedPods
from e2e.mutations import read_lists
from tests.thorough import drawn
from tests.world.__main__ import list_moves, read_rare_moves
from tests.world.conditions import draw_conditions
from tests.world.events import EVENTS
from tests.world.scenes import SCENES
from tests.world.script import LENGTH, Event, write_script
from tests.world.shrinking import shrink
from tests.world.world import play

SCENARIOS = Path(__file__).parents[2] / "e2e" / "scenarios"
# A pod is deleted with force while another one waits for its device, and its driver is slow. These
# numbers choose another machine each time.
FORCED = (
    *(Event(0.1, "slow driver", number) for number in range(1024, 1029)),
    *(Event(0.2, "create", 26) for _ in range(8)),
    Event(5.0, "delete with force", 0),
    Event(10.0, "create", 26),
)
# So is a whole gang whose members share a claim, which goes with its PodGroup.
FORCED_GANG = (
    *FORCED[:5],
    Event(0.2, "create gang", 110),
    Event(4.0, "create", 26),
    *(Event(0.2, "create", 26) for _ in range(8)),
    Event(5.0, "delete gang", 1),
    Event(10.0, "create", 26),
)
# Devices become free, and others get them while a restore brings their former users back.
RESTORED = (
    *(Event(0.1, "create native", 0) for _ in range(5)),
    Event(8.0, "back up", 0),
    *(Event(0.1, "finish", number) for number in range(4)),
    *(Event(0.1, "create native", 0) for _ in range(4)),
    Event(2.0, "restore", 0),
    Event(10.0, "create native", 0),
)
DECIDED_BEFORE = "allocation of others that was decided before a restore"
# An allocator stands still before it binds. A restore takes back what it has allocated, and that
# node is closed. The next allocator stands still, too, when it has allocated devices of another.
BOUND_LATE = (
    Event(0.1, "create", 26),
    Event(0.0, "stop at write", 1760),
    Event(0.0, "restore", 212),
    Event(6.0, "cordon", 0),
    Event(3.5, "stop at write", 7),
    Event(45.0, "create", 26),
)
# Half of the computations are cut.
COPIED = tuple(
    islice((each for each in count() if draw_conditions(each, EVENTS).cut_computations == 0.5), 4)
)
# A queue holds many pods back, and users have several namespaces.
OF_USERS = next(each for each in count() if draw_conditions(each, EVENTS)[-3:] == (0.4, 7, 0.8))
ON_ANOTHER_NODE = "pod that was bound soon after a restore to another node"


def test_the_scenarios_that_the_models_are_compared_with_exist() -> None:
    table = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+){4,})`", table))
    code = "".join(path.read_text(encoding="utf-8") for path in SCENARIOS.glob("*.py"))
    assert len(named) > 20
    assert {each for each in named if f"def {each.replace('-', '_')}(" not in code} == set()


def test_the_table_has_every_planted_mistake() -> None:
    table = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]
    [planted] = (each for each in read_lists() if each.package == "world")
    assert {each.name for each in planted.mutations} <= set(rows)


def test_the_moves_that_are_rare_in_the_world_exist() -> None:
    assert read_rare_moves().keys() <= list_moves()


@pytest.mark.parametrize("seed", range(drawn(2, thorough=200)))
def test_every_invariant_holds_whatever_happens(seed: int) -> None:
    outcome = play(seed, write_script(seed, LENGTH))
    assert not outcome.violation, "\n".join(outcome.story)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("seed", range(drawn(1, thorough=20)))
def test_every_invariant_holds_in_each_scene(scene: str, seed: int) -> None:
    outcome = play(seed, SCENES[scene])
    assert not outcome.violation, "\n".join(outcome.story)


# The last seeds have computations that are cut, and copies that go on with them.
@pytest.mark.parametrize(
    ("seed", "hash_seed"), [(5, "1"), (OF_USERS, "1"), *((each, "2") for each in COPIED)]
)
def test_a_run_depends_on_nothing_but_its_seed(seed: int, hash_seed: str) -> None:
    code = (
        "from tests.world.script import *; from tests.world.world import *;"
        f"print('\\n'.join(play({seed}, write_script({seed}, 30)).story))"
    )
    told = subprocess.run(  # noqa: S603  # no outside input
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    ).stdout.splitlines()
    assert len(told) > 30
    assert told == play(seed, write_script(seed, 30)).story


def test_no_timer_of_the_system_rings_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    set_timers: list[object] = []
    monkeypatch.setattr(signal, "setitimer", lambda *arguments: set_timers.append(arguments))
    assert not play(5, write_script(5, 30)).violation
    assert not set_timers


def test_copies_go_on_with_computations_that_are_cut() -> None:
    counted = Counter[str]()
    for seed in COPIED:
        outcome = play(seed, write_script(seed, LENGTH))
        assert not outcome.violation
        counted.update(outcome.counted)
    assert counted["cut computation"] > 10
    assert counted["copy of a process"] > 0


@pytest.mark.parametrize(
    ("script", "deletion"), [(FORCED, "delete with force"), (FORCED_GANG, "delete gang")]
)
def test_devices_of_a_pod_deleted_with_force_are_not_given_away(
    script: tuple[Event, ...], deletion: str
) -> None:
    outcome = play(1, script)
    assert not outcome.violation
    assert outcome.counted[deletion] == 1


def test_a_mistake_is_found_and_shrinks_to_the_events_that_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VanishedPods, "follow_claim", lambda *_: None)
    script = (*FORCED[:5], Event(0.1, "back up", 0), *FORCED[5:], Event(0.1, "end watches", 0))
    # The time that the containers need differs from seed to seed.
    outcome = next(filter(lambda played: played.violation, (play(e, script) for e in range(20))))
    assert outcome.violation.startswith("no_device_is_used_by_two_pods")
    shrunk = shrink(outcome)
    assert len(shrunk.script) < len(script)
    assert {"create", "delete with force"} <= {each.name for each in shrunk.script}
    for at in range(len(shrunk.script)):
        fewer = play(shrunk.seed, shrunk.script[:at] + shrunk.script[at + 1 :])
        assert not fewer.violation.startswith("no_device_is_used_by_two_pods")


@pytest.mark.parametrize(
    ("script", "happened"), [(RESTORED, DECIDED_BEFORE), (BOUND_LATE, ON_ANOTHER_NODE)]
)
def test_what_was_decided_before_a_restore_is_counted_and_not_judged(
    script: tuple[Event, ...], happened: str
) -> None:
    played = (play(seed, script) for seed in range(60))
    outcome = next(each for each in played if each.violation or happened in each.counted)
    assert not outcome.violation
