"""The Common Expression Language as Kubernetes speaks it: parse, check, estimate, evaluate.

The door for everybody else. `device_environment` compiles selectors, `view` shows them a device,
`Selectors` says what Kubernetes would say of them, `reads` what they look at; `Environment` is for
expressions of any kind.
"""

from dra.cel.device import LENGTH_LIMIT, device_environment, view
from dra.cel.environment import COST_LIMIT, Environment, Program, Result
from dra.cel.errors import CompileError, EvaluationError, Problem
from dra.cel.programs import Programs
from dra.cel.reads import Access, Reads, reads
from dra.cel.verdict import Selectors, Verdict

__all__ = [
    "COST_LIMIT",
    "LENGTH_LIMIT",
    "Access",
    "CompileError",
    "Environment",
    "EvaluationError",
    "Problem",
    "Program",
    "Programs",
    "Reads",
    "Result",
    "Selectors",
    "Verdict",
    "device_environment",
    "reads",
    "view",
]
