"""The searches of waiting pods that have not ended, and where each of them goes on."""

from collections.abc import Iterable
from typing import Final

from allocator.decisions.searches_aside import CutSearches, SearchesAside
from allocator.scheduler.protocol import PreemptRequest
from allocator.state.pod_table import PodTable


class UnfinishedSearches:
    """The searches that are set aside by the group of a pod, or by its UID if it is alone."""

    def __init__(self, records: PodTable) -> None:
        self._records = records
        # Cut on a node, so that copies of the process decide; too long for a turn; for victims.
        self.on_nodes: Final = CutSearches()
        self.in_turns: Final = SearchesAside()
        self.for_victims: Final = SearchesAside()

    def _name_of(self, uid: str) -> str:
        """Return the name of a search: that of all members of a group is the same."""
        return self._records.get(uid).group or uid

    def has(self, uid: str) -> bool:
        """Whether the search for a node of a pod goes on."""
        name = self._name_of(uid)
        return name in self.on_nodes or name in self.in_turns

    def set_aside(self, uid: str, *, was_cut: bool) -> None:
        """Set the search of a pod aside that `was_cut` on a node, or was too long for a turn."""
        self.add(uid, self.on_nodes if was_cut else self.in_turns)

    def add(self, uid: str, aside: SearchesAside) -> None:
        """Set the search of a pod aside among these."""
        aside.add(self._records.get(uid).namespace, uid, self._name_of(uid))

    def add_preemption(self, uid: str, request: PreemptRequest) -> Iterable[str]:
        """Set a search for victims aside that was cut on a node; return who lost its own."""
        namespace = self._records.get(uid).namespace
        return self.on_nodes.add_preemption(namespace, uid, self._name_of(uid), request)

    def note_answered(self, uid: str) -> None:
        """Go on with the search of a pod about which a copy of the process has decided."""
        self.on_nodes.note_answered(self._name_of(uid))
        if self.on_nodes.end_preemption(uid):
            self.add(uid, self.for_victims)

    def leave(self, uid: str) -> None:
        """Continue no search of a pod."""
        self.on_nodes.discard(uid)
        self.in_turns.discard(uid)
        self.on_nodes.end_preemption(uid)
