"""The searches that are set aside, so that they delay only each other; in turns."""

from collections import OrderedDict
from typing import Final, NamedTuple

from allocator.scheduler.protocol import PreemptRequest
from drawbridge.bounded_cache import BoundedCache
from drawbridge.fair_cache import FairCache
from drawbridge.turn_times import MAX_NAMES, TurnTimes

MAX_PREEMPTIONS: Final = 64
# After so many copies, a search that has not ended makes place for others of its namespace.
MAX_COPIES: Final = 256
# After so many copies in a row that were killed, the search counts as the reason.
MAX_KILLED: Final = 8


class SearchesAside:
    """The searches that are set aside by name, in order for each namespace, each for a pod."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}
        self._pods: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def __contains__(self, name: str) -> bool:
        return name in self._namespaces

    def add(self, namespace: str, uid: str, name: str) -> None:
        """Set a search aside, behind the others of its namespace."""
        self.discard(name)
        self._namespaces[name] = namespace
        self._pods.setdefault(namespace, OrderedDict())[name] = uid

    def take(self) -> str | None:
        """Return the pod of the next search, and remove it; its namespace is the last one then."""
        if not self._pods:
            return None
        namespace = self._next_namespace()
        name, uid = next(iter(self._pods[namespace].items()))
        self._pods.move_to_end(namespace)
        self.discard(name)
        return uid

    def _next_namespace(self) -> str:
        """Return the namespace that has the next turn, one of those that are set aside."""
        return next(iter(self._pods))

    def discard(self, name: str) -> None:
        """Remove a search, if it is there."""
        namespace = self._namespaces.pop(name, None)
        if namespace is None:
            return
        del self._pods[namespace][name]
        if not self._pods[namespace]:
            del self._pods[namespace]


class _Begun(NamedTuple):
    """A search about which copies decide, how many did, and how many were killed in a row."""

    name: str
    copies: int = 0
    killed: int = 0


class CutSearches(SearchesAside):
    """The searches that were cut on a node. Copies of the process decide about them, in turns.

    The next turn is that of the namespace whose copies took least time. In a namespace, copies
    decide about one search until its end, so that what they answered is kept until then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._namespace = ""  # that had the last turn
        # The search about which copies decide, by namespace.
        self._begun: BoundedCache[str, _Begun] = BoundedCache(MAX_NAMES)
        self._times: TurnTimes[str] = TurnTimes()
        self._answered = ""
        # What was asked when a search for victims was cut, by pod.
        self._preemptions: FairCache[PreemptRequest] = FairCache(MAX_PREEMPTIONS)
        self._asked: dict[str, str] = {}  # the keys there, by pod

    def _next_namespace(self) -> str:
        self._namespace = self._times.choose(self._pods)
        name = next(iter(self._pods[self._namespace]))
        begun = self._begun.get(self._namespace)
        if begun is None or begun.name != name:
            begun = _Begun(name)
        self._begun.put(self._namespace, begun._replace(copies=begun.copies + 1))
        return self._namespace

    def add(self, namespace: str, uid: str, name: str) -> None:
        """Set a search aside: behind the others of its namespace, unless copies began with it."""
        super().add(namespace, uid, name)
        begun = self._begun.get(namespace)
        if begun is not None and begun.name == name and begun.copies < MAX_COPIES:
            self._pods[namespace].move_to_end(name, last=False)

    def note_copy(self, seconds: float) -> None:
        """Note how long the copy took of the namespace that had the last turn."""
        self._times.note(self._namespace, seconds)

    def note_end(self, *, killed: bool) -> bool:
        """Note how the last copy ended; return whether its search has lost too many in a row."""
        begun = self._begun.get(self._namespace)
        if begun is None:
            return False
        lost = begun.killed + 1 if killed else 0
        self._begun.put(self._namespace, begun._replace(killed=lost))
        return lost >= MAX_KILLED

    def take_answered(self) -> str | None:
        """Return the pod about which a copy has decided last, and remove its search."""
        name, self._answered = self._answered, ""
        namespace = self._namespaces.get(name)
        if namespace is None:
            return None
        uid = self._pods[namespace][name]
        self.discard(name)
        return uid

    def note_answered(self, name: str) -> None:
        """Go on with a search about which a copy has decided; its next copy has to wait."""
        self._answered = name

    def add_preemption(
        self, namespace: str, uid: str, name: str, request: PreemptRequest
    ) -> list[str]:
        """Set a search for victims of a pod aside; return the pods of searches that were forgotten.

        There is room for a number of them.
        """
        self.add(namespace, uid, name)
        if self._answered == name:
            self._answered = ""  # the copy did not hear of this request
        self.end_preemption(uid)
        self._asked[uid] = key = f"{namespace}/{uid}"
        forgotten = [lost.partition("/")[2] for lost in self._preemptions.put(key, request)]
        for each in forgotten:
            del self._asked[each]
        return forgotten

    def preemption(self, uid: str) -> PreemptRequest | None:
        """Return what was asked when the search for victims of a pod was cut."""
        return self._preemptions.get(self._asked.get(uid, ""))

    def end_preemption(self, uid: str) -> bool:
        """Forget it, because a copy has decided; return whether there was one."""
        return self._preemptions.pop(self._asked.pop(uid, "")) is not None
