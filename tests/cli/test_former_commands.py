"""A former command does what the new one does, and says what that is."""

from pathlib import Path

import pytest

from cli.commands import COMMANDS
from cli.former_commands import FORMER
from tests.cli.running import command

INVENTORY = Path(__file__).parents[2] / "examples" / "inventory"
# The words of a former command, and those of the new one.
LINES = [
    ("lint -f x", "check -f x"),
    ("lint -f x -o json --strict", "check -f x -o json --strict"),
    ("lint -f a b", "check -f a b"),
    ("--debug lint -f none.yaml", "--debug check -f none.yaml"),
    ("facts --cluster x", "config facts --cluster x"),
    ("facts --cluster x -o json", "config facts --cluster x -o json"),
    ("who --cluster x", "explain devices --cluster x"),
    ("who gpu-1 --cluster x", "explain device/gpu-1 --cluster x"),
    ("who --cluster=x gpu-1/0 -o json", "explain device/gpu-1/0 --cluster=x -o json"),
    ("who -ojson gpu-1 --cluster x", "explain device/gpu-1 -ojson --cluster x"),
    ("who --cluster a gpu-1", "explain devices --cluster a gpu-1"),
    ("who --context gpu-1 --kubeconfig none", "explain devices --context gpu-1 --kubeconfig none"),
    ("adjust train --count 8 --cluster x", "simulate --adjust train --count 8 --cluster x"),
    ("adjust --count 8 r/train --cluster x", "simulate --adjust r/train --count 8 --cluster x"),
    ("adjust --count 8 --cluster x train", "simulate --adjust train --count 8 --cluster x"),
    ("adjust --context r/a --count 8 -n b", "simulate --adjust r/a --context --count 8 -n b"),
    ("adjust --count 8", "simulate --adjust --count 8"),
    ("defrag --cluster x -f x", "simulate --defrag --cluster x -f x"),
    ("defrag --hold 30m r/train --cluster x", "simulate --defrag r/train --hold 30m --cluster x"),
    ("defrag train -n r --cluster x", "simulate --defrag train -n r --cluster x"),
]


@pytest.mark.parametrize(("former", "new"), LINES)
def test_a_former_command_does_what_the_new_one_does(
    former: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").symlink_to(INVENTORY)
    code, out, err = command(*former.split())
    told, _, rest = err.partition("\n")
    assert (code, out, rest) == command(*new.split())
    name = former.removeprefix("--debug ").split()[0]
    begun = told.removeprefix(f"`drawbridge {name}` is now `drawbridge ").removesuffix("`")
    assert new.removeprefix("--debug ").startswith(begun)


def test_the_line_has_the_name_of_the_program() -> None:
    err = command("who", "a b", "--cluster", "none", called="kubectl drawbridge").err
    said = "`kubectl drawbridge who` is now `kubectl drawbridge explain 'device/a b'`"
    assert err.splitlines()[0] == said


@pytest.mark.parametrize("name", FORMER)
def test_a_former_command_is_explained_and_not_listed(name: str) -> None:
    new = FORMER[name].words.split()[0]
    assert new in COMMANDS
    assert name not in COMMANDS
    code, out, err = command("help", name)
    assert (code, out) == command("help", new)[:2]
    assert err.startswith(f"`drawbridge {name}` is now `drawbridge {new}")
    assert command(name, "--help").out.startswith(f"usage: drawbridge {new}")


def test_the_list_is_short() -> None:
    assert len(COMMANDS) <= 16
