"""Evaluates CEL expressions on one device with Kubernetes' own CEL."""

import json
import subprocess
from pathlib import Path
from typing import Self

from e2e.checker.quantities import Json


class ExpressionError(Exception):
    """The expression does not compile, or failed on the device."""


class Expressions:
    """A running `oracle evaluate` and what it has answered so far."""

    def __init__(self, oracle: Path) -> None:
        self._process = subprocess.Popen(
            [oracle, "evaluate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._known: dict[str, Json] = {}

    def __enter__(self) -> Self:
        """Start nothing: the process runs since it was made."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def value(self, question: Json) -> object:
        """Answer `{driver, device, expression, derived, lists, shares}`, or raise what failed."""
        line = json.dumps(question, sort_keys=True)
        if line not in self._known:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            self._known[line] = json.loads(self._process.stdout.readline())
        answer = self._known[line]
        if "error" in answer:
            raise ExpressionError(str(answer["error"]))
        return answer["value"]
