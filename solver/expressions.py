"""Expressions about devices, asked once for every distinct projection of what they read.

Gives what upstream's evaluation gives for a selector, a derived attribute or a compatibility rule,
errors included, and remembers it. Which devices are asked about, and what an error means for the
pod, is decided elsewhere.
"""

from collections.abc import Hashable, Mapping
from typing import TypeAlias

import msgspec

from cel.dra.environment import device_environment, lists_readable, view
from cel.dra.reads import Reads, reads
from cel.environment import Environment, Program
from cel.errors import CompileError, EvaluationError
from cel.semver import Semver
from cel.values import Value
from dra.device import Attribute, Device
from dra.gates import Gates

MOST_OUTCOMES = 100_000
# What an evaluation gave: a value, or why there is none.
Outcome: TypeAlias = "bool | Attribute | Failed"


class Failed(str):
    """Why an expression gave no value."""

    __slots__ = ()


class _Known:
    """An expression and what it gave so far."""

    def __init__(self, source: str, environment: Environment) -> None:
        self.outcomes: dict[Hashable, Outcome] = {}
        self.program: Program | None = None
        self.reads = Reads(())
        self.error = Failed("")
        try:
            self.program = environment.compile(source)
            self.reads = reads(self.program)
        except CompileError as error:
            self.error = Failed(f"CEL compile error: {error}")


class Expressions:
    """What a cluster's scheduler makes of expressions; safe to keep for as long as its gates."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._lists = lists_readable(gates.version, list_attributes=gates.list_type_attributes)
        self._selectors: dict[str, _Known] = {}
        self._derived: dict[str, _Known] = {}
        self._environments: dict[bool, Environment] = {}
        self._seen: tuple[Device | None, str, Mapping[str, Value]] = (None, "", {})

    def selects(self, source: str, driver: str, device: Device) -> bool | Failed:
        """Evaluate a selector, or a compatibility rule, on a device."""
        known = self._selectors.get(source)
        if known is None:
            known = self._selectors[source] = _Known(source, self._environment(derived=False))
        outcome = self._outcome(known, driver, device, derived=False)
        return outcome if isinstance(outcome, Failed) else bool(outcome)

    def derive(self, source: str, driver: str, device: Device) -> Attribute | Failed:
        """Evaluate a derived attribute on a device."""
        known = self._derived.get(source)
        if known is None:
            known = self._derived[source] = _Known(source, self._environment(derived=True))
        outcome = self._outcome(known, driver, device, derived=True)
        return Failed("no attribute") if isinstance(outcome, bool) else outcome

    def _environment(self, *, derived: bool) -> Environment:
        known = self._environments.get(derived)
        if known is None:
            known = self._environments[derived] = device_environment(
                self._gates.version,
                list_attributes=self._gates.list_type_attributes,
                derived=derived,
            )
        return known

    def _outcome(self, known: _Known, driver: str, device: Device, *, derived: bool) -> Outcome:
        if known.program is None:
            return known.error
        seen = self._view(driver, device)
        projection = known.reads.projection(seen)
        outcome = known.outcomes.get(projection)
        if outcome is None:
            if len(known.outcomes) >= MOST_OUTCOMES:
                known.outcomes.clear()
            outcome = _evaluated(known.program, seen, derived=derived)
            known.outcomes[projection] = outcome
        return outcome

    def _view(self, driver: str, device: Device) -> Mapping[str, Value]:
        """Show a device; the one shown last is remembered, as it is mostly asked about again."""
        last, of_driver, seen = self._seen
        if last is not device or of_driver != driver:
            seen = view(driver, device, list_attributes=self._lists)
            self._seen = (device, driver, seen)
        return seen


def _evaluated(program: Program, seen: Mapping[str, Value], *, derived: bool) -> Outcome:
    try:
        value = program.evaluate(seen).value
        return _attribute(value) if derived else bool(value)
    except EvaluationError as error:
        return Failed(f"CEL runtime error: {error.message}")


# The names of the wire, by the type of the value.
_FIELDS = {bool: "bool", int: "int", str: "string", Semver: "version"}
_LISTS = {bool: "bools", int: "ints", str: "strings", Semver: "versions"}


def _attribute(value: object) -> Outcome:
    """Turn what a derived attribute gave into an attribute."""
    field = _FIELDS.get(type(value))
    if field is not None:
        return msgspec.convert({field: _plain(value)}, Attribute)
    if not isinstance(value, list | tuple):
        return Failed(f"unsupported CEL return type: {type(value).__name__}")
    if not value:
        return Attribute(strings=())
    kind = type(value[0])
    if kind not in _LISTS:
        return Failed(f"unsupported list element type: {kind.__name__}")
    if any(type(item) is not kind for item in value):
        return Failed(f"expected all elements of the list to be of one type, {kind.__name__}")
    return msgspec.convert({_LISTS[kind]: [_plain(item) for item in value]}, Attribute)


def _plain(value: object) -> str | int | bool:
    return value if isinstance(value, str | int) else str(value)
