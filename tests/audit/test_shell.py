"""No name of a cluster becomes a command, or a part of one, in what an administrator types."""

import itertools
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from drawbridge.audit import commands, typed
from drawbridge.audit.servers import Plugin
from drawbridge.report.moves import Move, MovePlan, list_commands
from tests.audit.follow import audit
from tests.audit.test_cases import CASES, objects
from tests.tables import every_row

Factory = pytest.TempPathFactory
EVIL = "a'\"$(touch X)`touch Y`;touch Z|"
RUN = re.compile(r"[$`;]\(?touch")
OWNER = f"Job/{EVIL}"
MOVING = typed.Moving((EVIL,), EVIL, (EVIL,), cordoned=(), daemons=((EVIL, EVIL),))
MOVES = tuple(
    Move(EVIL, EVIL, owner, EVIL, f"{EVIL}2", {EVIL: EVIL}, ())
    for owner in ("StatefulSet", "ReplicaSet")
)
CONTENTS: dict[str, Callable[[], Iterable[str | typed.Typed]]] = {
    "begin": lambda: typed.begin(MOVING),
    "cordoned": lambda: typed.begin(MOVING._replace(cordoned=(EVIL,))),
    "cordon": lambda: [typed.cordon([EVIL]), typed.uncordon([EVIL]), typed.drain([EVIL])],
    "swap": lambda: typed.swap(MOVING),
    "swap back": lambda: typed.swap_back(MOVING),
    "end": lambda: typed.end(MOVING),
    "in turn": lambda: [typed.move_in_turn(MOVING)],
    "modes": lambda: typed.set_modes({EVIL: EVIL}),
    "jobs": lambda: [*typed.suspend([(EVIL, OWNER)]), *typed.resume([(EVIL, OWNER)])],
    "delete": lambda: [typed.delete_pod(EVIL, EVIL), typed.delete_waiting(EVIL, OWNER, EVIL)],
    "wait": lambda: [typed.wait_for_nodes(EVIL, EVIL), typed.wait_for_job(EVIL, OWNER, 1)],
    "restart": lambda: typed.restart(EVIL, [OWNER]),
    "admission": lambda: [
        typed.wait_for_admission(EVIL, {EVIL: 1}, translates=each) for each in (True, False)
    ],
    "labels": lambda: [commands.label_nodes([EVIL], EVIL)],
    "patch": lambda: [commands.patch_pods(EVIL, OWNER, {EVIL: EVIL})],
    "releases": lambda: [
        *(commands.roll_back(EVIL, each) for each in ("", EVIL)),
        commands.remove_driver(EVIL),
    ],
    "plugin": lambda: [commands.remove_plugin(Plugin(EVIL, (EVIL,), EVIL, OWNER))],
    "chart": lambda: [commands.install_driver(EVIL, each) for each in ("", EVIL)],
    "moves": lambda: list_commands(MovePlan(f"{EVIL}/{EVIL}", EVIL, (), MOVES, proven=True)),
}


def read_outside(command: str) -> str:
    """Return what a shell would read outside of single quotes, also in a script of the command."""
    quote = outside = ""
    for character in command:
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif quote != "'":
            outside += character
    scripts = itertools.pairwise(shlex.split(command))
    return outside + "".join(read_outside(script) for flag, script in scripts if flag == "-c")


@every_row("name", [*CONTENTS])
def test_names_are_quoted_in_each_command(name: str) -> None:
    printed = [getattr(each, "command", each) for each in CONTENTS[name]()]
    assert printed
    for each in printed:
        assert not RUN.search(read_outside(each)), each
    if name != "chart":  # the administrator puts the chart in its place
        subprocess.run(["sh", "-n", "-c", "\n".join(printed)], check=True)  # noqa: S603, S607  # reads only


@every_row("case", [each for each in CASES if "code" not in each])
def test_names_are_quoted_in_each_plan(case: dict[str, Any], tmp_path_factory: Factory) -> None:
    cluster = [*objects(case)]
    named = [each["metadata"] for each in cluster if each["kind"] != "DeviceClass"]
    named += [owner for each in named for owner in each.get("ownerReferences", ())]
    names = {each.get(key) for each in named for key in ("name", "namespace")}
    plan = audit(spoil(cluster, names), tmp_path_factory.mktemp("plan"))
    typed_commands = [text for e in plan["steps"] for text in (*e["commands"], *e["undo"])]
    for each in typed_commands:
        assert not RUN.search(read_outside(each)), each


def spoil(value: Any, names: set[str]) -> Any:  # noqa: ANN401  # JSON
    """Return an object in which names can be commands."""
    if isinstance(value, dict):
        return {key: spoil(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [spoil(each, names) for each in value]
    return f"{value}{EVIL}" if value in names else value
