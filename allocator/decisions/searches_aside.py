"""The searches that are set aside, so that they delay only each other; in turns."""

from collections import OrderedDict


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
        namespace = next(iter(self._pods))
        name, uid = next(iter(self._pods[namespace].items()))
        self._pods.move_to_end(namespace)
        self.discard(name)
        return uid

    def discard(self, name: str) -> None:
        """Remove a search, if it is there."""
        namespace = self._namespaces.pop(name, None)
        if namespace is None:
            return
        del self._pods[namespace][name]
        if not self._pods[namespace]:
            del self._pods[namespace]
