"""The compile-time and run-time errors of CEL expressions."""

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One compile-time error: kind, position (line and column, from 1) and message."""

    kind: str
    line: int
    column: int
    message: str


class CompileError(Exception):
    """The expression is not valid; `problems` has cel-go's order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class EvaluationError(Exception):
    """The evaluation failed. `kind` is stable; the message is for people.

    `offset` is the character offset of the expression that failed, if known. `cost` and `work` are
    those until then. Evaluation raises this object through many frames and creates it often,
    because `||` absorbs errors, so it contains nothing else.
    """

    cost: int | None = None
    work = 0
    levels = 0  # the calls that it left, see `drawbridge.cel.meter`

    def __init__(self, kind: str, message: str, offset: int = -1) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.offset = offset
