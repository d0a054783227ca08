"""Evaluates CEL expressions on devices, once for each distinct projection of the read fields.

The results, including errors, equal those of kube-scheduler for selectors, derived attributes and
compatibility rules. The callers decide what an error means for the pod.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.brief import whole
from drawbridge.cel.dra.environment import device_variables
from drawbridge.cel.dra.projections import is_readable, published_projection
from drawbridge.cel.dra.reads import Reads, find_reads
from drawbridge.cel.dra.selectors import Selectors
from drawbridge.cel.errors import CompileError, EvaluationError
from drawbridge.cel.meter import EXCEEDED
from drawbridge.cel.programs import Programs
from drawbridge.cel.semver import Semver
from drawbridge.cel.values import CelValue
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.gates import Gates

# Of all expressions together: a tenant can write expressions whose result differs by device. One
# with more characters counts several times: as objects, they take eight times the bytes.
MAX_OUTCOMES = 300_000
CHARACTERS_OF_OUTCOME = 64
MAX_SEEN_DEVICES = 256
MAX_EXPRESSIONS = 4096
# Of the texts of all expressions together.
MAX_SOURCE = 1 << 20
# The result of an evaluation: a value, or an error.
EvaluationOutcome: TypeAlias = "bool | Attribute | EvaluationFailure"


class EvaluationFailure(str):
    """The error of an evaluation."""

    __slots__ = ()


class WorkRefusal(EvaluationFailure):
    """The expression takes more work than we spend; what Kubernetes answers is unknown."""

    __slots__ = ()


class CompiledText(NamedTuple):
    """What an expression reads, or why it cannot be compiled. Some derive attributes."""

    derived: bool
    source: str
    reads: Reads
    error: EvaluationFailure | None = None


class ProjectionOutcome(NamedTuple):
    """The result of an expression on what it reads of a device."""

    derived: bool
    source: str
    projection: Hashable
    outcome: EvaluationOutcome


class _Expression:
    """What an expression reads, and its results.

    They are kept when the program, which is much larger, is not kept any more. So a search ends
    that needs more programs than are kept.
    """

    def __init__(self, compiled: CompiledText, programs: Programs) -> None:
        self.source = compiled.source
        self.outcomes: dict[Hashable, EvaluationOutcome] = {}
        self.reads = compiled.reads
        self.published = published_projection(compiled.reads)
        self.error = compiled.error
        self._programs = programs

    def run(self, seen: Mapping[str, CelValue], *, derived: bool) -> EvaluationOutcome:
        """Evaluate on the view of a device."""
        program = self._programs.compile(self.source)
        try:
            value = program.evaluate(seen).value
        except EvaluationError as error:
            if error.kind == EXCEEDED:
                return WorkRefusal(error.message)
            return EvaluationFailure(f"CEL runtime error: {error.message}")
        return _attribute(value) if derived else bool(value)


def _make_cache() -> BoundedCache[str, _Expression]:
    return BoundedCache(MAX_EXPRESSIONS, MAX_SOURCE)


class _SeenDevice:
    """A device, and its CEL view as soon as one is needed."""

    __slots__ = ("_device", "_driver", "_lists", "_view", "is_readable")

    def __init__(self, driver: str, device: Device, *, lists: bool) -> None:
        self._driver = driver
        self._device = device
        self._lists = lists
        self._view: Mapping[str, CelValue] | None = None
        self.is_readable = is_readable(device, lists=lists)

    def view(self) -> Mapping[str, CelValue]:
        """Return the CEL variables."""
        if self._view is None:
            self._view = device_variables(self._driver, self._device, list_attributes=self._lists)
        return self._view

    def project(self, compiled: _Expression) -> Hashable:
        """Return a key of what the expression reads of the device."""
        if self.is_readable and compiled.published is not None:
            return compiled.published(self._driver, self._device)
        return compiled.reads.projection(self.view())


class ExpressionEvaluator:
    """Evaluates expressions like the scheduler with these gates; reusable for these gates.

    `selectors` are where programs are compiled, if they are of these gates.

    What was evaluated before a cut is kept, so that the same call continues there. `tell` is told
    what is computed, so that another evaluator can learn it.
    """

    def __init__(self, gates: Gates, selectors: Selectors | None = None) -> None:
        self.tell: Callable[[CompiledText | ProjectionOutcome], None] | None = None
        shared = selectors is not None and selectors.are_of(gates)
        self._programs = selectors if selectors and shared else Selectors.of_gates(gates)
        self._selectors = _make_cache()
        self._derived = _make_cache()
        self._outcomes = 0
        # What copies of the process tell shares nothing, but expressions read the same of a device.
        self._projections: dict[Hashable, Hashable] = {}
        # Keyed by id(); the value holds the device, so that its id is not reused.
        self._seen: dict[tuple[int, str], _SeenDevice] = {}

    def is_of(self, gates: Gates) -> bool:
        """Whether this evaluates like the scheduler with these gates."""
        return self._programs.are_of(gates)

    def selects(self, source: str, driver: str, device: Device) -> bool | EvaluationFailure:
        """Evaluate a selector, or a compatibility rule, on a device."""
        outcome = self._evaluate(self._selectors, source, driver, device)
        return outcome if isinstance(outcome, EvaluationFailure) else bool(outcome)

    def derive(self, source: str, driver: str, device: Device) -> Attribute | EvaluationFailure:
        """Evaluate a derived attribute on a device."""
        outcome = self._evaluate(self._derived, source, driver, device)
        return EvaluationFailure("no attribute") if isinstance(outcome, bool) else outcome

    def learn(self, learnt: "CompiledText | ProjectionOutcome") -> None:
        """Keep what another evaluator computed."""
        expressions = self._derived if learnt.derived else self._selectors
        if isinstance(learnt, CompiledText):
            self._add(expressions, learnt)
        elif (expression := expressions.get(learnt.source)) is not None:
            self._keep(expression, learnt.projection, learnt.outcome)

    def _compile(self, expressions: BoundedCache[str, _Expression], source: str) -> _Expression:
        compiled = _compile(source, self._programs_of(expressions), expressions is self._derived)
        if self.tell is not None:
            self.tell(compiled)
        return self._add(expressions, compiled)

    def _programs_of(self, expressions: BoundedCache[str, _Expression]) -> Programs:
        return self._programs.derived if expressions is self._derived else self._programs.stored

    def _add(
        self, expressions: BoundedCache[str, _Expression], compiled: CompiledText
    ) -> _Expression:
        expression = _Expression(compiled, self._programs_of(expressions))
        expressions.put(compiled.source, expression, cost=len(compiled.source))
        return expression

    def _evaluate(
        self, expressions: BoundedCache[str, _Expression], source: str, driver: str, device: Device
    ) -> EvaluationOutcome:
        expression = expressions.get(source)
        if expression is None:
            expression = self._compile(expressions, source)
        if expression.error is not None:
            return expression.error
        seen = self._see_device(driver, device)
        projection = seen.project(expression)
        outcome = expression.outcomes.get(projection)
        if outcome is None:
            derived = expressions is self._derived
            outcome = expression.run(seen.view(), derived=derived)
            if self.tell is not None:
                self.tell(ProjectionOutcome(derived, source, projection, outcome))
            self._keep(expression, projection, outcome)
        return outcome

    @whole
    def _keep(
        self, expression: _Expression, projection: Hashable, outcome: EvaluationOutcome
    ) -> None:
        """Keep a result, and drop all others beyond the limit; a large one counts several times."""
        count = 1 + len(repr((projection, outcome))) // CHARACTERS_OF_OUTCOME
        self._outcomes += count
        if self._outcomes > MAX_OUTCOMES:
            self._outcomes = count
            self._projections.clear()
            for kept in (*self._selectors.values(), *self._derived.values()):
                kept.outcomes.clear()
        expression.outcomes[self._projections.setdefault(projection, projection)] = outcome

    def _see_device(self, driver: str, device: Device) -> _SeenDevice:
        """Return a device for evaluation; keeps those of a few nodes, which are needed again."""
        key = id(device), driver
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= MAX_SEEN_DEVICES:
                self._seen.clear()
            seen = self._seen[key] = _SeenDevice(driver, device, lists=self._programs.lists)
        return seen


class Evaluators:
    """The evaluator of the gates of a cluster, for all who evaluate on its devices."""

    def __init__(self, selectors: Selectors | None = None) -> None:
        self._selectors = selectors
        self._last: ExpressionEvaluator | None = None

    def of_gates(self, gates: Gates) -> ExpressionEvaluator:
        """Return the same evaluator, with what it keeps, until other gates are asked for."""
        if self._last is None or not self._last.is_of(gates):
            self._last = ExpressionEvaluator(gates, self._selectors)
        return self._last


def _compile(source: str, programs: Programs, derived: bool) -> CompiledText:  # noqa: FBT001  # a field
    """Return what an expression reads, or its error."""
    try:
        return CompiledText(derived, source, find_reads(programs.compile(source)))
    except CompileError as error:
        return CompiledText(derived, source, Reads(()), _describe_compile_error(error))


def _describe_compile_error(error: CompileError) -> EvaluationFailure:
    if error.problems[0].kind == EXCEEDED:
        return WorkRefusal(error.problems[0].message)
    return EvaluationFailure(f"CEL compile error: {error}")


# Field names in the wire format, by type of the value.
_FIELDS = {bool: "bool", int: "int", str: "string", Semver: "version"}
_LISTS = {bool: "bools", int: "ints", str: "strings", Semver: "versions"}


def _attribute(value: object) -> EvaluationOutcome:
    """Convert the value of a derived attribute to an attribute."""
    field = _FIELDS.get(type(value))
    if field is not None:
        return msgspec.convert({field: _plain(value)}, Attribute)
    if not isinstance(value, list | tuple):
        return EvaluationFailure(f"unsupported CEL return type: {type(value).__name__}")
    if not value:
        return Attribute(strings=())
    kind = type(value[0])
    if kind not in _LISTS:
        return EvaluationFailure(f"unsupported list element type: {kind.__name__}")
    if any(type(item) is not kind for item in value):
        return EvaluationFailure(
            f"expected all elements of the list to be of one type, {kind.__name__}"
        )
    return msgspec.convert({_LISTS[kind]: [_plain(item) for item in value]}, Attribute)


def _plain(value: object) -> str | int | bool:
    return value if isinstance(value, str | int) else str(value)
