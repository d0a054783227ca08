"""Runs the real kubectl as a user does and returns exit code, output and warnings."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 60
WARNING = "Warning: "


@dataclass(frozen=True)
class CommandResult:
    """The result of one command."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def warnings(self) -> list[str]:
        """Return the warnings of the API server in the order printed."""
        lines = self.err.splitlines()
        return [line.removeprefix(WARNING) for line in lines if line.startswith(WARNING)]

    def check(self) -> "CommandResult":
        """Return itself; AssertionError with the output if the command failed."""
        assert self.code == 0, f"{self}"
        return self

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: exit code {self.code}\n{self.out}{self.err}"


class Kubectl:
    """Runs kubectl as one user, optionally in one namespace."""

    def __init__(self, program: Path, access: Path, cache: Path, namespace: str = "") -> None:
        self.program = program
        self.access = access
        self.cache = cache
        self.namespace = namespace

    def inside(self, namespace: str) -> "Kubectl":
        """Return the same for another namespace."""
        return Kubectl(self.program, self.access, self.cache, namespace)

    def __call__(self, *words: str, stdin: str | Mapping[str, Any] | None = None) -> CommandResult:
        """Run kubectl; `stdin` is its standard input, for example an object for `-f -`."""
        command = [str(self.program), f"--kubeconfig={self.access}", f"--cache-dir={self.cache}"]
        if self.namespace:
            command.append(f"--namespace={self.namespace}")
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        return run([*command, *words], words, text or "")

    def shell(self, line: str, seconds: float = SECONDS) -> CommandResult:
        """Run a line of commands with pipes, as a user types it, for at most so long."""
        environment = {
            **os.environ,
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.access),
            "KUBECACHEDIR": str(self.cache),
        }
        command = ("bash", "-o", "pipefail", "-c", line)
        return run(command, (line,), environment=environment, seconds=seconds)

    def apply(self, *objects: Mapping[str, Any], words: Sequence[str] = ()) -> CommandResult:
        """`kubectl apply -f -` of these objects."""
        return self("apply", "-f", "-", *words, stdin=listed(objects))

    def get(self, *words: str) -> Any:  # noqa: ANN401  # JSON
        """Run `kubectl get ... -o json`; AssertionError if the object does not exist."""
        return json.loads(self("get", *words, "-o", "json").check().out)


def run(
    command: Sequence[str],
    words: Sequence[str],
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> CommandResult:
    """Run a command to its end; `words` is the command as shown to a person."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment,
    )
    return CommandResult(tuple(words), done.returncode, done.stdout, done.stderr)


def listed(objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Combine several objects into a List."""
    if len(objects) == 1:
        return objects[0]
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
