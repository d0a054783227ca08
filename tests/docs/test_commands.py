"""Every command in README.md, docs/ and on the pages of measurements prints what the page shows.

A fenced block marked `console` has commands (`$ ` lines, continued by a final backslash) and their
output. The blocks of a page run in order in one folder with `examples/`, each command in a shell. A
line `...` stands for any lines. A command without output in the page must succeed; a command with
output must print exactly that. Those of a block `console renderers` have the pinned kustomize and
helm; without Go, the page is skipped from there on. Blocks that cannot run here have a second word:
`console cluster` needs a real cluster, `console install` changes the machine, `console rig` starts
control planes, those of `console play` run in `test_play`, those of `console page` in
`test_page_commands`, and those of `console release` in the suite `e2e.signatures`. Of `make`, only
the demo runs; other
targets must exist in the Makefile.

The commands of README.md start as those of a user do. Those of the other pages are forks of one
process, because most of the time of a new one is for imports (`warm_program`).
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.warm_program import serve_commands
from tests.manifests.rendering import find_program
from tests.tables import every_row

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(
        page
        for folder in ("bench", "e2e", "tools/release")
        for page in (ROOT / folder).rglob("*.md")
    ),
]
PLAY = "play"
RELEASE = "release"
PAGE = "page"
NOT_RUN = {
    "cluster",  # needs a real cluster
    "install",  # changes the machine
    "rig",  # starts control planes, as `make e2e` does
    PLAY,
    RELEASE,
    PAGE,
}
RENDERERS = "renderers"
MADE = {"demo": "python -m cli.demo"}
# Exit codes of an unhandled exception, and of a command that is not executable or not found.
NEVER = (3, 126, 127)


class Step(NamedTuple):
    """A command, and the lines the page shows below it."""

    command: str
    shown: tuple[str, ...]


class Block(NamedTuple):
    """A fenced block: its file and line, the words after the fence, and its lines."""

    place: str
    words: tuple[str, ...]
    lines: tuple[str, ...]


def blocks(text: str, name: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    begun: tuple[int, str, tuple[str, ...]] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*(```+|~~~+)\s*(.*)", line)
        if begun is None and fence:
            begun, inside = (number, fence[1], tuple(fence[2].split())), []
        elif begun is not None and line.strip() == begun[1]:
            yield Block(f"{name}:{begun[0]}", begun[2], tuple(inside))
            begun = None
        else:
            inside.append(line)
    if begun is not None:
        pytest.fail(f"{name}:{begun[0]}: the block is not closed")


def steps(block: Block) -> list[Step]:
    """Return the commands of a block with their output."""
    commands: list[tuple[str, list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands and not commands[-1][1] and commands[-1][0].endswith("\\"):
            commands[-1] = (commands[-1][0] + "\n" + line.removeprefix("> "), [])
        else:
            assert commands, f"{block.place}: output before the first command"
            commands[-1][1].append(line)
    return [Step(command, tuple(shown)) for command, shown in commands]


def fits(shown: tuple[str, ...], printed: str) -> bool:
    """Tell whether the output is as shown; a line `...` stands for any lines."""
    parts = [r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + "\n" for line in shown]
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), lines) is not None


def console(page: Path) -> list[Block]:
    fenced = blocks(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    return [block for block in fenced if block.words[:1] == ("console",)]


def run(step: Step, folder: Path, *programs: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command with variables, and with `programs` and `drawbridge` on the PATH."""
    folders = [*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
        "PATH": os.pathsep.join(folders),
        "HOME": str(folder),
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        **more,
    }
    return subprocess.run(  # noqa: S602  # commands from this repository
        step.command,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of programs that start fast."""
    with serve_commands(tmp_path_factory.mktemp("warm")) as programs:
        yield programs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path, warm: Path) -> None:
    programs = [] if page == ROOT / "README.md" else [warm]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for block in console(page):
        assert steps(block), f"{block.place}: no command"
        for word in block.words[1:]:
            is_listed = word in (*NOT_RUN, RENDERERS)
            assert is_listed, f"{block.place}: unknown word {word!r} behind console"
        if NOT_RUN & {*block.words[1:]}:
            continue
        needed = [find_program("kustomize").parent] if RENDERERS in block.words[1:] else []
        for step in steps(block):
            does(step, block, tmp_path, *programs, *needed)


def does(step: Step, block: Block, folder: Path, *programs: Path, **more: str) -> None:
    """Run one command of a block, and compare what it prints with what the page shows."""
    made = re.match(r"(?:[A-Z]+=\w+ )*make (\w+)", step.command)
    if made:
        text = (ROOT / "Makefile").read_text("utf-8")
        assert re.search(rf"^{made[1]}:", text, re.MULTILINE), f"{block.place}: make {made[1]}"
        if made[1] not in MADE:
            return
        assert MADE[made[1]].replace("python", "$(BIN)/python") in text
        step = Step(f"cd {shlex.quote(str(ROOT))} && {MADE[made[1]]}", step.shown)
    done = run(step, folder, *programs, **more)
    details = f"{block.place}: $ {step.command}\nexit code {done.returncode}\n{done.stdout}"
    assert done.returncode not in NEVER, details
    assert done.returncode == 0 or step.shown, details
    assert not step.shown or fits(step.shown, done.stdout), details


@every_row("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_in_console_blocks(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), page.name):
        if block.words[:1] != ("console",):
            assert not [line for line in block.lines if line.startswith("$ ")], block.place


@every_row("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_resolve(page: Path) -> None:
    text = re.sub(r"(```+)[\s\S]*?\1", "", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


EXAMPLE = """\
```console
$ one \\
> two
out
...
$ three
```

~~~yaml
a: 1
~~~
"""


def test_blocks_and_their_commands_are_parsed() -> None:
    first, second = blocks(EXAMPLE, "x.md")
    assert (first.place, first.words) == ("x.md:1", ("console",))
    assert steps(first) == [Step("one \\\ntwo", ("out", "...")), Step("three", ())]
    assert (second.place, second.words, second.lines) == ("x.md:9", ("yaml",), ("a: 1",))


@every_row(
    ("shown", "printed", "expected"),
    [
        (("a", "b"), "a\nb\n", True),
        (("a", "b"), "a\nb \n", True),
        (("a",), "a\nb\n", False),
        (("b",), "a\nb\n", False),
        (("a", "..."), "a\nb\nc\n", True),
        (("a", "..."), "a\n", True),
        (("...", "c"), "a\nb\nc\n", True),
        (("a", "...", "d"), "a\nb\nc\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_output_is_compared_line_by_line(
    shown: tuple[str, ...], printed: str, *, expected: bool
) -> None:
    assert fits(shown, printed) is expected


def test_a_missing_command_fails_the_test(tmp_path: Path) -> None:
    assert run(Step("drawbridge-no-such-command", ()), tmp_path).returncode in NEVER


@pytest.mark.parametrize(
    "command",
    [
        "kubectl-drawbridge transalte; echo $?",
        "cd /tmp && printf 'quotas: 1' | drawbridge config print --config - 2>/dev/null",
    ],
)
def test_a_warm_program_does_what_a_cold_one_does(command: str, tmp_path: Path, warm: Path) -> None:
    cold, fast = (run(Step(command, ()), tmp_path, *programs) for programs in ([], [warm]))
    assert (fast.returncode, fast.stdout) == (cold.returncode, cold.stdout)
