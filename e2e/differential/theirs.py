"""Asks the oracle scenarios, one at a time, over its standard input."""

import json
import subprocess
from pathlib import Path

from e2e.checker.quantities import Json


class Program:
    """A running program that answers each line with a line."""

    def __init__(self, *words: Path | str) -> None:
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Json) -> Json:
        """Return the answer to a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: Json = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


class Oracle(Program):
    """A running `oracle allocate`."""

    def __init__(self, binary: Path) -> None:
        super().__init__(binary, "allocate")

    def answer(self, scenario: Json, seconds: float = 5.0) -> dict[str, Json]:
        """For each node the verdict of Kubernetes' allocator, which gets this long for it."""
        answers = self.ask(scenario | {"seconds": seconds})
        if "error" in answers:
            raise ValueError(answers["error"])
        return {str(verdict["node"]): verdict for verdict in answers["nodes"]}
