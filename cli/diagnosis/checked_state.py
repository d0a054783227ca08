"""What the checks of `drawbridge doctor` are given: what was read, and what follows from it."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from cli.diagnosis.state import ClusterState, Right
from cli.diagnosis.unread import NotReadError, Unread
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.facts_objects import facts_input
from cli.input.live_cluster import as_documents
from controller.field_probe import infer_gates
from drawbridge.config.model import Configuration
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.gates import Gates
from drawbridge.facts.gather import GatheredFacts, gather_facts
from drawbridge.finding import Finding

# What is right, what is wrong, or what could not be read.
Result = str | Finding | Unread
_LIST_NAMESPACES: Final = Right("list", "", "namespaces")


class CheckedState(msgspec.Struct, frozen=True):
    """The state, and what is derived from it once."""

    state: ClusterState
    configuration: Configuration
    configuration_findings: tuple[LocatedFinding, ...]
    gates: Gates
    objects: ClusterObjects
    gathered: GatheredFacts

    @property
    def lists_namespaces(self) -> bool:
        """Whether the caller may; else only the own namespace was read."""
        missing = self.state.missing_rights.values()
        return not any(_LIST_NAMESPACES in each for each in missing)

    def unread(self, *kinds: str) -> list[Unread]:
        """Return the kinds of published objects that could not be read."""
        parts = (self.state.published[kind] for kind in kinds)
        return [each for each in parts if isinstance(each, Unread)]

    def need(self, *kinds: str) -> None:
        """Raise NotReadError unless all published objects of these kinds could be read."""
        if missing := self.unread(*kinds):
            raise NotReadError(*missing)


Check = Callable[[CheckedState], Iterator[Result]]


def derive_checked_state(
    state: ClusterState, configuration: Configuration, findings: tuple[LocatedFinding, ...]
) -> CheckedState:
    """Sort the objects and gather the facts as the controller does."""
    stored = None if isinstance(state.stored_fields, Unread) else state.stored_fields
    gates, _ = infer_gates(state.version, stored)
    read = [
        value for kind in state.published.values() if not isinstance(kind, Unread) for value in kind
    ]
    objects = sort_documents(as_documents(read))
    gathered = gather_facts(facts_input(objects), configuration, gates, stored)
    return CheckedState(state, configuration, findings, gates, objects, gathered)
