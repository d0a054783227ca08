"""Evaluates device selectors as Kubernetes does: admission by the API server, then evaluation.

The API server checks a new object with the libraries of the previous version and the estimated
cost. The scheduler evaluates a stored object with all libraries of its version.
"""

import functools
from collections.abc import Collection
from typing import Self

import msgspec

from drawbridge.cel.dra.environment import (
    LENGTH_LIMIT,
    device_environment,
    device_variables,
    lists_readable,
)
from drawbridge.cel.environment import Program
from drawbridge.cel.errors import CompileError, EvaluationError, Problem
from drawbridge.cel.frame import COST_LIMIT
from drawbridge.cel.programs import Programs
from drawbridge.dra.device import Device
from drawbridge.dra.gates import Gates


class SelectorResult(msgspec.Struct, frozen=True):
    """The result for one selector and one device, with the fields of the batch output."""

    compile: str
    admitted: bool
    new_compile: str
    result: bool | str | None = None
    error_kind: str | None = None
    error: str | None = None
    error_position: tuple[int, int] | None = None
    cost: int | None = None
    estimated_max_cost: int | None = None


class Selectors:
    """The selectors of one version of Kubernetes and one setting of the list gate.

    Keeps the compiled programs of all who evaluate or judge selectors of one cluster.
    """

    def __init__(self, version: str = "1.36", *, list_attributes: bool = False) -> None:
        self._version = version
        self._list_attributes = list_attributes
        self.lists = lists_readable(version, list_attributes=list_attributes)

    @classmethod
    def of_gates(cls, gates: Gates) -> Self:
        """Return the selectors of a cluster."""
        return cls(gates.version, list_attributes=gates.list_type_attributes)

    def are_of(self, gates: Gates) -> bool:
        """Tell whether these are the selectors of a cluster with these gates."""
        own = (self._version, self._list_attributes)
        return own == (gates.version, gates.list_type_attributes)

    @functools.cached_property
    def stored(self) -> Programs:
        """The programs of stored objects, as the scheduler evaluates them."""
        return Programs(device_environment(self._version, list_attributes=self._list_attributes))

    @functools.cached_property
    def fresh(self) -> Programs:
        """The programs of new objects."""
        lists = self._list_attributes
        return Programs(device_environment(self._version, list_attributes=lists, stored=False))

    @functools.cached_property
    def derived(self) -> Programs:
        """The programs of derived attributes."""
        lists = self._list_attributes
        return Programs(device_environment(self._version, list_attributes=lists, derived=True))

    @functools.cached_property
    def _fresh_derived(self) -> Programs:
        """The programs of derived attributes in new objects."""
        lists = self._list_attributes
        return Programs(
            device_environment(self._version, list_attributes=lists, stored=False, derived=True)
        )

    @functools.cached_property
    def _differing_functions(self) -> Collection[str]:
        return self.stored.environment.differences(self.fresh.environment)

    def compile_new(self, source: str, *, derived: bool = False) -> Program:
        """Compile as a new expression; shares the cache if both environments agree on it."""
        if derived:
            return self._fresh_derived.compile(source)
        if any(name in source for name in self._differing_functions):
            return self.fresh.compile(source)
        return self.stored.compile(source)

    def check_admission(self, source: str, *, derived: bool = False) -> tuple[bool, Problem | None]:
        """Tell whether the API server admits the expression in a new object; return the error."""
        try:
            program = self.compile_new(source, derived=derived)
        except CompileError as error:
            return False, error.problems[0]
        fits = len(source.encode("utf-8", "replace")) <= LENGTH_LIMIT
        return fits and program.max_cost <= COST_LIMIT, None

    def evaluate(self, source: str, driver: str, device: Device) -> SelectorResult:
        """Check a selector and evaluate it on a device."""
        admitted, refused = self.check_admission(source)
        new_compile = "ok" if refused is None else "error"
        try:
            program = self.stored.compile(source)
        except CompileError as error:
            return _compile_error_result(error.problems[0], new_compile)
        tried = device_variables(driver, device, list_attributes=self.lists)
        try:
            result = program.evaluate(tried)
        except EvaluationError as error:
            return SelectorResult(
                compile="ok",
                admitted=admitted,
                new_compile=new_compile,
                result="error",
                error_kind=error.kind,
                error=error.message,
                error_position=position(source, error.offset),
                cost=error.cost,
                estimated_max_cost=program.max_cost,
            )
        return SelectorResult(
            compile="ok",
            admitted=admitted,
            new_compile=new_compile,
            result=bool(result.value),
            cost=result.cost,
            estimated_max_cost=program.max_cost,
        )


def _compile_error_result(problem: Problem, new_compile: str) -> SelectorResult:
    return SelectorResult(
        compile="error",
        admitted=False,
        new_compile=new_compile,
        error_kind=problem.kind,
        error=problem.message,
        error_position=(problem.line, problem.column) if problem.line > 0 else None,
    )


def position(source: str, offset: int) -> tuple[int, int] | None:
    """Return the line and column, both from 1, of a character offset."""
    if offset < 0:
        return None
    before = source[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
