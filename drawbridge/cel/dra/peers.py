"""Evaluates the expressions in `compatibleOnlyWith` on other devices.

Implements what `drawbridge.dra.compatibility` needs of an expression.
"""

from drawbridge.cel.dra.environment import device_variables
from drawbridge.cel.errors import CompileError, EvaluationError
from drawbridge.cel.programs import Programs
from drawbridge.dra.compatibility import Evaluate, ExpressionEvaluationError, Peer


def make_evaluator(programs: Programs, *, list_attributes: bool = False) -> Evaluate:
    """Return a function that evaluates an expression on a device; caches in `programs`."""

    def evaluate(expression: str, peer: Peer) -> bool:
        variables = device_variables(peer.pool.driver, peer.device, list_attributes=list_attributes)
        try:
            return programs.compile(expression).evaluate(variables).value is True
        except (CompileError, EvaluationError) as error:
            raise ExpressionEvaluationError(f"{error}") from error

    return evaluate
