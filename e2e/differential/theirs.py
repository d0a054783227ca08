"""Asks the oracle scenarios, one at a time, over its standard input."""

import json
import subprocess
from pathlib import Path

from e2e.checker.quantities import Json


class Oracle:
    """A running `oracle allocate`."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen(
            [binary, "allocate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, scenario: Json, seconds: float = 5.0) -> dict[str, Json]:
        """For each node the verdict of Kubernetes' allocator, which gets this long for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(scenario | {"seconds": seconds}) + "\n")
        self._process.stdin.flush()
        answers = json.loads(self._process.stdout.readline())
        if "error" in answers:
            raise ValueError(answers["error"])
        return {str(one["node"]): one for one in answers["nodes"]}

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()
