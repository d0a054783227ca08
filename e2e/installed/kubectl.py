"""The real kubectl as a person uses it: words in; exit code, output and warnings out."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 60
WARNING = "Warning: "


@dataclass(frozen=True)
class Ran:
    """What one call of a command gave."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def warnings(self) -> list[str]:
        """What the API server told beside its answer, in the order it was printed."""
        lines = self.err.splitlines()
        return [line.removeprefix(WARNING) for line in lines if line.startswith(WARNING)]

    def done(self) -> "Ran":
        """Give itself; AssertionError with everything that was said when it did not succeed."""
        assert self.code == 0, f"{self}"
        return self

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: exit code {self.code}\n{self.out}{self.err}"


class Kubectl:
    """Calls kubectl as one user, in a namespace where one is given."""

    def __init__(self, program: Path, access: Path, cache: Path, namespace: str = "") -> None:
        self.program = program
        self.access = access
        self.cache = cache
        self.namespace = namespace

    def inside(self, namespace: str) -> "Kubectl":
        """Give the same for another namespace."""
        return Kubectl(self.program, self.access, self.cache, namespace)

    def __call__(self, *words: str, given: str | Mapping[str, Any] | None = None) -> Ran:
        """Call it; `given` is its standard input, an object as JSON (name it with `-f -`)."""
        command = [str(self.program), f"--kubeconfig={self.access}", f"--cache-dir={self.cache}"]
        if self.namespace:
            command.append(f"--namespace={self.namespace}")
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        return run([*command, *words], words, text or "")

    def apply(self, *objects: Mapping[str, Any], words: Sequence[str] = ()) -> Ran:
        """`kubectl apply -f -` of these objects."""
        return self("apply", "-f", "-", *words, given=listed(objects))

    def get(self, *words: str) -> Any:  # noqa: ANN401  # JSON
        """`kubectl get ... -o json`; AssertionError when there is none."""
        return json.loads(self("get", *words, "-o", "json").done().out)


def run(
    command: Sequence[str],
    words: Sequence[str],
    given: str = "",
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run a command to its end; `words` are what a person sees of it."""
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment,
    )
    return Ran(tuple(words), done.returncode, done.stdout, done.stderr)


def listed(objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Give several objects as one."""
    if len(objects) == 1:
        return objects[0]
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
