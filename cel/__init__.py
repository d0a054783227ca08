"""The Common Expression Language (CEL) as Kubernetes uses it: parse, check, estimate, evaluate.

`Environment` compiles any CEL expression. `cel.dra` has the environment of device selectors.
"""

from cel.environment import COST_LIMIT, Environment, Program, Result
from cel.errors import CompileError, EvaluationError, Problem
from cel.programs import Programs

__all__ = [
    "COST_LIMIT",
    "CompileError",
    "Environment",
    "EvaluationError",
    "Problem",
    "Program",
    "Programs",
    "Result",
]
