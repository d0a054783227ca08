"""Shells complete what the parser knows: commands, options and their values, and files."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import COMMANDS, parser_for
from cli.completion import complete, complete_for_kubectl
from tests.cli.running import command
from tests.tables import every_row

ROOT = Path(__file__).parents[2]
SHELLS = ("bash", "fish", "zsh")


def script(shell: str) -> str:
    code, out, _ = command("completion", shell)
    assert code == 0
    return out


# The words of a command line, and what its last word becomes; `...` stands for more words.
CASES = [
    ("tra", ["translate"]),
    ("config ", ["print", "schema", "facts"]),
    ("config p", ["print"]),
    ("translate -o ", ["yaml", "json", "diff", "report"]),
    ("translate -o j", ["json"]),
    ("translate --output d", ["diff"]),
    ("config print -o y", ["yaml"]),
    ("check -o y", ["yaml"]),
    ("check --allocator up", ["upstream"]),
    ("translate --exit", ["--exit-code"]),
    ("translate -f x.yaml --output-", ["--output-dir"]),
    ("explain --context --ver", []),
    ("translate --kubernetes-version 1", []),
    ("completion z", ["zsh"]),
    ("serve webhook --li", ["--listen"]),
    ("translate --nothing", []),
]


@every_row(("line", "expected"), CASES)
def test_the_program_completes_words(line: str, expected: list[str]) -> None:
    completion = complete(line.split(" "))
    assert [word for word, _ in completion.words] == expected


def test_every_command_and_option_is_completed() -> None:
    assert {word for word, _ in complete([""]).words} == set(COMMANDS)
    for name, parser in parser_for(COMMANDS, "drawbridge").subparsers().items():
        for more, inner in {"": parser, **parser.subparsers()}.items():
            words = {word for word, _ in complete([name, *more.split(), "-"]).words}
            assert words == {each for option in inner.options() for each in option.option_strings}


@pytest.mark.parametrize("line", ["translate -f ", "check --cluster ex", "config facts --config="])
def test_options_of_files_offer_files(line: str) -> None:
    assert complete(line.split(" ")).files


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH that begins with a folder with the program that the scripts ask."""
    folder = tmp_path_factory.mktemp("bin")
    code = "import sys; from cli.completion import main; sys.exit(main())"
    for name in ("kubectl-drawbridge", "kubectl_complete-drawbridge"):
        program = folder / name
        # "$@" goes to the program; the folder of the shell stays.
        text = f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c '{code}' \"$@\"\n"
        program.write_text(text, "utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def in_bash(line: str, folder: Path, path: str) -> list[str]:
    """Return what real bash offers for a line, as readline calls the function."""
    words = line.replace("=", " = ").split(" ")
    quoted = " ".join(f"'{word}'" for word in ["drawbridge", *(each for each in words)])
    program = (
        f"{script('bash')}\nCOMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_drawbridge\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(  # noqa: S603  # our own script
        [shutil.which("bash") or "bash", "--norc", "-c", program],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [each for each in done.stdout.splitlines() if each]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_real_bash_completes_words(
    line: str, expected: list[str], tmp_path: Path, path: str
) -> None:
    assert in_bash(line, tmp_path, path) == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("check -f ma", ["manifests", "many pods.yaml"]), ("check --output=j", ["json"])],
)
def test_real_bash_completes_files_and_values_after_an_equals_sign(
    line: str, expected: list[str], tmp_path: Path, path: str
) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "many pods.yaml").touch()
    assert sorted(in_bash(line, tmp_path, path)) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_valid_where_the_shell_is_installed(shell: str) -> None:
    text = script(shell)
    assert "kubectl_complete-drawbridge" in text
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-n"], input=text, text=True, capture_output=True, check=False)  # noqa: S603  # our own script
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
@pytest.mark.parametrize(("line", "expected"), CASES[:6])
def test_real_fish_completes_words(line: str, expected: list[str], path: str) -> None:
    program = f"{script('fish')}\ncomplete -C 'drawbridge {line}'\n"
    done = subprocess.run(  # noqa: S603  # our own script
        [shutil.which("fish") or "fish", "--no-config", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    words = [each.partition("\t")[0] for each in done.stdout.splitlines()]
    assert [each for each in words if not each.startswith("-")] == sorted(expected)


IN_ZSH = """\
compdef() { print compdef $@ }; _files() { print files }
_describe() { print -l -- "${(@P)2}" }
"""


def in_zsh(program: str, path: str) -> list[str]:
    done = subprocess.run(  # noqa: S603  # our own script
        [shutil.which("zsh") or "zsh", "-f", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
@pytest.mark.parametrize(("line", "expected"), [*CASES, ("check -f ", ["files"])])
def test_real_zsh_completes_words(line: str, expected: list[str], path: str) -> None:
    words = " ".join(f"'{word}'" for word in ["drawbridge", *line.split(" ")])
    call = f"words=({words}); CURRENT=$#words; _drawbridge\n"
    registered, *told = in_zsh(f"{IN_ZSH}{script('zsh')}{call}", path)
    assert registered == "compdef _drawbridge drawbridge"
    assert [each.partition(":")[0] for each in told] == expected


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_also_completes_the_first_time(path: str) -> None:
    # zsh loads a file of fpath during the first completion, and expects the candidates then.
    first = f"_drawbridge() {{\n{script('zsh')}}}\nwords=(drawbridge und); CURRENT=2; _drawbridge\n"
    assert in_zsh(f"{IN_ZSH}{first}", path)[1:] == [f"undo:{COMMANDS['undo']}"]


def test_kubectl_gets_candidates_and_a_directive() -> None:
    assert complete_for_kubectl(["und"]) == f"undo\t{COMMANDS['undo']}\n:4\n"
    assert complete_for_kubectl(["translate", "-o", "j"]) == "json\n:4\n"
    assert complete_for_kubectl(["translate", "-f", ""]) == ":0\n"
    assert complete_for_kubectl(["translate", "--output=j"]) == "--output=json\n:4\n"


KUBECTLS = sorted((ROOT / ".cache").glob("controlplane/*/kubectl"))


@pytest.mark.skipif(not KUBECTLS, reason="needs the kubectl of a control plane in .cache")
def test_real_kubectl_completes_the_plugin(path: str) -> None:
    done = subprocess.run(  # noqa: S603  # the kubectl of the rig
        [str(KUBECTLS[0]), "__complete", "drawbridge", "translate", "--exit"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[0].split("\t")[0] == "--exit-code"
