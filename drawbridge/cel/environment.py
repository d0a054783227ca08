"""A CEL environment: the variables and functions of an expression, compilation and evaluation.

`Environment.compile` returns a `Program` or raises CompileError. `Program.evaluate` returns a value
and its cost or raises EvaluationError. Both are thread-safe.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping

import msgspec

from drawbridge.cel.checker import Checked, check, declare
from drawbridge.cel.compile import compile_tree
from drawbridge.cel.declare import UNBOUNDED, Library
from drawbridge.cel.errors import CompileError, EvaluationError, Problem
from drawbridge.cel.estimate import Estimator, Sizes
from drawbridge.cel.frame import COST, WORK, Cancelled, Frame, Run
from drawbridge.cel.macros import MACROS, SORT_BY
from drawbridge.cel.meter import EXCEEDED, MOST_WORK, exceeded
from drawbridge.cel.parser import ParserOptions, parse
from drawbridge.cel.types import Type
from drawbridge.cel.validate import Validators, validate
from drawbridge.cel.values import MISSING, CelValue, type_name

NEWER = 37  # the minor version of Kubernetes that introduced cel-go 0.29
OutputCheck = Callable[[Type], str | None]


class Result(msgspec.Struct, frozen=True, gc=False):
    """The value, the cost and the work (`drawbridge.cel.meter`) of an evaluation."""

    value: object
    cost: int
    work: int


class Program:
    """A compiled expression."""

    __slots__ = (
        "_blank",
        "_max_cost",
        "_names",
        "_run",
        "_sizes",
        "boolean",
        "checked",
        "source",
        "type",
        "work",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a program
        self,
        source: str,
        checked: Checked,
        run: Run,
        names: tuple[str, ...],
        slots: int,
        work: int,
        sizes: Sizes,
        *,
        boolean: bool,
    ) -> None:
        self.source = source
        self.checked = checked
        self.type = checked.types[checked.node.id]
        self._sizes = sizes
        self._max_cost: int | None = None
        # Of an evaluation without its loops and the calls that pay by their arguments.
        self.work = work
        self.boolean = boolean
        self._run = run if work <= MOST_WORK else _refuse
        # In the order of their slots, which follow the cost and the work.
        self._names = names
        self._blank = (MISSING,) * slots

    @property
    def max_cost(self) -> int:
        """The estimate of the cost, which decides about new expressions only."""
        if self._max_cost is None:
            self._max_cost = min(
                Estimator(self.checked, self._sizes).cost(self.checked.node), UNBOUNDED
            )
        return self._max_cost

    def evaluate(self, variables: Mapping[str, CelValue]) -> Result:
        """Evaluate.

        If a variable is an EvaluationError, the variable is not readable, and every evaluation
        fails with that error. An evaluation that takes too much work fails with an error of kind
        `work_exceeded` (`drawbridge.cel.meter`).
        """
        frame: Frame = [0, self.work]
        for name in self._names:
            value = variables[name] if name in variables else MISSING  # noqa: SIM401  # faster
            if type(value) is EvaluationError:
                raise EvaluationError(value.kind, value.message)
            frame.append(value)
        if self._blank:
            frame += self._blank
        try:
            outcome = self._run(frame)
        except EvaluationError as error:
            error.cost, error.work = frame[COST], frame[WORK]
            raise
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # a bug in a function fails this evaluation only
            failure = _ended(error)
            failure.cost, failure.work = frame[COST], frame[WORK]
            raise failure from None
        if type(outcome) is not bool and self.boolean:
            message = f"the result is a {type_name(outcome)}, not a bool"
            failure = EvaluationError("not_bool", message, 0)
            failure.cost, failure.work = frame[COST], frame[WORK]
            raise failure
        return Result(outcome, frame[COST], frame[WORK])


def _refuse(frame: Frame) -> object:
    frame[WORK] = 0
    raise exceeded()


def _ended(error: Exception) -> EvaluationError:
    """Return the failure of an evaluation; what no expression may raise is a bug of ours."""
    if isinstance(error, Cancelled):
        return EvaluationError(error.kind, error.message)
    if isinstance(error, RecursionError):
        return EvaluationError("recursion", "the expression is nested too deeply to evaluate")
    name = type(error).__name__
    warnings.warn(f"an evaluation raised {name}", stacklevel=1)
    return EvaluationError("internal", f"internal error of Drawbridge: {name}: {error}")


class Environment:
    """The environment that expressions are compiled in.

    `libraries` provide the functions. `version` is the version of Kubernetes whose syntax applies.
    `output` checks the type of a whole expression and returns an error message or None. `sizes`
    bounds the sizes of the variables for the estimate.
    """

    def __init__(  # noqa: PLR0913  # it is that many choices
        self,
        variables: Mapping[str, Type],
        libraries: Iterable[Library],
        version: str = "1.36",
        *,
        objects: Mapping[str, Mapping[str, Type]] | None = None,
        sizes: Sizes = lambda path: None,  # noqa: ARG005  # nothing is known
        output: OutputCheck = lambda type_: None,  # noqa: ARG005  # everything is fine
        boolean: bool = False,
        validators: Validators = (),
    ) -> None:
        self.version = version
        self._names = tuple(variables)
        self._sizes, self._output, self._boolean = sizes, output, boolean
        self._validators = validators
        newer = int(version.partition(".")[2]) >= NEWER
        self._declarations = declare(libraries, variables, objects or {}, local_first=newer)
        sorts = "@sortByAssociatedKeys" in self._declarations.functions
        macros = {**MACROS, **SORT_BY} if sorts else MACROS
        self._options = ParserOptions(macros, escaped_fields=newer)

    def compile(self, source: str) -> Program:
        """Compile an expression; raises CompileError with all errors in it."""
        node = parse(source, self._options)
        checked = check(node, source, self._declarations)
        validate(checked, source, self._validators)
        wrong = self._output(checked.types[node.id])
        if wrong is not None:
            raise CompileError((Problem("not_bool", 0, 0, wrong),))
        try:
            compiled = compile_tree(checked, self._names)
        except EvaluationError as error:
            raise CompileError((_constant(error),)) from None
        return Program(
            source,
            checked,
            compiled.run,
            self._names,
            compiled.slots,
            compiled.work,
            self._sizes,
            boolean=self._boolean,
        )

    def differences(self, other: "Environment") -> frozenset[str]:
        """Return the function names whose declarations differ in the other environment.

        An expression that contains none of these names has the same result in both. If the
        variables differ, the empty name is returned, which is part of every expression.
        """
        mine, others = self._declarations, other._declarations  # noqa: SLF001  # of its own kind
        if mine.variables != others.variables or mine.objects != others.objects:
            return frozenset({""})
        names = mine.functions.keys() | others.functions.keys()
        return frozenset(
            name for name in names if mine.functions.get(name) != others.functions.get(name)
        )


def _constant(error: EvaluationError) -> Problem:
    if error.kind == EXCEEDED:
        return Problem(EXCEEDED, 0, 0, error.message)
    return Problem("constant", 0, 0, f"program instantiation failed: {error.message}")
