"""The searches that are set aside, because they need an evaluation that takes long; in turns."""

from collections import OrderedDict


class SearchesAside:
    """The pods whose searches are set aside, in order for each namespace."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}
        self._pods: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def __contains__(self, uid: str) -> bool:
        return uid in self._namespaces

    def add(self, namespace: str, uid: str) -> None:
        """Set a search aside, behind the others of its namespace."""
        self.discard(uid)
        self._namespaces[uid] = namespace
        self._pods.setdefault(namespace, OrderedDict())[uid] = None

    def take(self) -> str | None:
        """Return the next pod, and remove it; its namespace is the last one then."""
        if not self._pods:
            return None
        namespace = next(iter(self._pods))
        uid = next(iter(self._pods[namespace]))
        self._pods.move_to_end(namespace)
        self.discard(uid)
        return uid

    def discard(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        namespace = self._namespaces.pop(uid, None)
        if namespace is None:
            return
        del self._pods[namespace][uid]
        if not self._pods[namespace]:
            del self._pods[namespace]
