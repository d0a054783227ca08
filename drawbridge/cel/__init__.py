"""The Common Expression Language (CEL) as Kubernetes uses it: parse, check, estimate, evaluate.

`Environment` compiles any CEL expression. `drawbridge.cel.dra` has the environment of device
selectors.
"""

from drawbridge.cel.environment import Environment, Program, Result
from drawbridge.cel.errors import CompileError, EvaluationError, Problem
from drawbridge.cel.frame import COST_LIMIT
from drawbridge.cel.programs import Programs

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
