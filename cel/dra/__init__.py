"""The CEL environment of device selectors.

`device_environment` compiles selectors, `view` converts a device to CEL values, `Selectors` answers
as Kubernetes does, and `reads` lists the attributes that an expression reads.
"""

from cel.dra.environment import LENGTH_LIMIT, device_environment, view
from cel.dra.reads import Access, Reads, reads
from cel.dra.selectors import Selectors, Verdict

__all__ = [
    "LENGTH_LIMIT",
    "Access",
    "Reads",
    "Selectors",
    "Verdict",
    "device_environment",
    "reads",
    "view",
]
