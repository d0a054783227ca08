"""What the checker finds."""

from typing import NamedTuple


class Violation(NamedTuple):
    """A rule that an allocation breaks, by name, and how."""

    rule: str
    message: str
