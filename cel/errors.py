"""What can be wrong with an expression, and what can go wrong in it."""

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One compile-time error: its kind, its place (line from 1, column from 1) and its words."""

    kind: str
    line: int
    column: int
    message: str


class CompileError(Exception):
    """The expression is not valid; `problems` in the order in which they are reported."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


class EvaluationError(Exception):
    """The evaluation failed at run time: `kind` is stable, the message is for people.

    `offset` is the character offset of the expression that failed, where it is known. The
    object is raised through many frames and may be created often (errors are absorbed by `||`),
    so it carries no more than that, and in the end what the evaluation had cost.
    """

    cost: int | None = None

    def __init__(self, kind: str, message: str, offset: int = -1) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.offset = offset
