"""Authorizes requests to the fake API server by the rules of roles."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.trouble import Seen

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class _Asked(NamedTuple):
    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verb, f"{self.group}/{self.resource}", self.name)))


class Rights:
    """The rights of a person. Keeps what was `denied`.

    A Role that names no namespace of its own is bound in `namespace`.
    """

    def __init__(self, roles: Iterable[Mapping[str, Any]], namespace: str) -> None:
        self.denied: list[str] = []
        self._rules = [
            (role["metadata"].get("namespace", namespace) if role["kind"] == "Role" else "", rule)
            for role in roles
            for rule in role["rules"]
        ]

    def check(self, seen: Seen) -> None:
        """Refuse a request without the right; everybody may discover and ask for rights."""
        asked = _read(seen)
        if asked is None or asked.group == "authorization.k8s.io" or self._allows(asked):
            return
        self.denied.append(f"{asked}")
        raise RefusedError(403, f'User "jane" cannot {asked}')

    def _allows(self, asked: _Asked) -> bool:
        return any(
            asked.group in rule["apiGroups"]
            and asked.resource in rule["resources"]
            and asked.verb in rule["verbs"]
            and namespace in ("", asked.namespace)
            and asked.name in rule.get("resourceNames", (asked.name,))
            for namespace, rule in self._rules
        )


def _read(seen: Seen) -> _Asked | None:
    """Return what is asked for; None of discovery."""
    root, *words = seen.path.strip("/").split("/")
    group, rest = ("", words[1:]) if root == "api" else ("".join(words[:1]), words[2:])
    # A namespace is in itself, so a Role can give its reading.
    namespace = rest[1] if rest[:1] == ["namespaces"] and rest[1:] else ""
    rest = rest[2:] if namespace and rest[2:] else rest
    if not rest or root not in ("api", "apis"):
        return None
    resource, name = "/".join((rest[0], *rest[2:])), "".join(rest[1:2])
    reads = "watch" if seen.watches else "get" if name else "list"
    # A selector of one name stands for the name.
    field, _, selected = seen.query.get("fieldSelector", "").partition("=")
    if field == "metadata.name":
        name = selected
    return _Asked(_VERBS.get(seen.method, reads), group, resource, namespace, name)
