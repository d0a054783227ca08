"""The moves that were interrupted: nodes and Jobs with the annotation that a move sets and removes.

A node says to which driver it moves, and whether it was cordoned before.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from drawbridge.audit.objects import AuditedObjects, namespace_of, text_at
from drawbridge.documents.values import Value
from drawbridge.names import MOVING_ANNOTATION

OPEN: Final = "open"
CORDONED: Final = "cordoned"


class Interrupted(NamedTuple):
    """The nodes that moves have begun with, those of them cordoned before, and suspended Jobs."""

    nodes: frozenset[str]
    cordoned: frozenset[str]
    jobs: tuple[tuple[str, str], ...]  # namespace and owner


def read_mark(annotations: Mapping[str, Value]) -> tuple[str, str]:
    """Return the driver to which a node moves, and its state before; empty if it does not move."""
    mark = annotations.get(MOVING_ANNOTATION)
    driver, _, state = mark.partition(",") if isinstance(mark, str) else ("", "", "")
    return driver, state


def find_interrupted(objects: AuditedObjects) -> Interrupted:
    """Return what has the annotation of a move."""
    marks = {name: read_mark(notes) for name, notes in objects.annotations.items()}
    jobs = (
        (namespace_of(each), f"Job/{text_at(each, 'metadata', 'name')}")
        for each in objects.workloads
        if text_at(each, "metadata", "annotations", MOVING_ANNOTATION)
    )
    return Interrupted(
        frozenset(name for name, (driver, _) in marks.items() if driver),
        frozenset(name for name, (_, state) in marks.items() if state == CORDONED),
        tuple(sorted(jobs)),
    )
