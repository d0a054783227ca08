"""The CEL environment of device selectors.

`device_environment` compiles selectors, `device_variables` converts a device to CEL values,
`Selectors` evaluates as Kubernetes does, and `find_reads` lists the attributes that an expression
reads.
"""

from drawbridge.cel.dra.environment import LENGTH_LIMIT, device_environment, device_variables
from drawbridge.cel.dra.reads import AttributeAccess, Reads, find_reads
from drawbridge.cel.dra.selectors import SelectorResult, Selectors

__all__ = [
    "LENGTH_LIMIT",
    "AttributeAccess",
    "Reads",
    "SelectorResult",
    "Selectors",
    "device_environment",
    "device_variables",
    "find_reads",
]
