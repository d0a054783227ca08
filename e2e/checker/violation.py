"""Defines what the checker reports."""

from typing import NamedTuple


class BrokenRule(NamedTuple):
    """A rule that an allocation breaks, by name, and how."""

    rule: str
    message: str
