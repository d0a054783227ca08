"""Reads rights from roles and from audit logs, and compares them. Pure.

A right is one verb on one resource by one account. An audit log shows which rights were used; a
right that no scenario used is either unnecessary or named in `unseen.yaml` with its reason.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

JSON = dict[str, Any]
ACCOUNTS = "system:serviceaccount:"
AGENT = "drawbridge"
FORBIDDEN = 403


class Right(NamedTuple):
    """One verb of one account on a resource. An empty `name` stands for all names.

    `namespace` is empty for a right in the whole cluster.
    """

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        named = f" {self.name}" if self.name else ""
        group = f"{self.group}/" if self.group else ""
        return f"{self.account}: {self.verb} {group}{self.resource}{named}{where}"


def read_granted(objects: Iterable[JSON]) -> set[Right]:
    """Return the rights that the roles and bindings grant to ServiceAccounts.

    Leaves out roles of Kubernetes itself (`system:`): the API server maintains their rules.
    """
    objects = list(objects)
    roles = {
        (obj["kind"], obj["metadata"]["name"]): obj
        for obj in objects
        if obj["kind"] in ("Role", "ClusterRole")
    }
    rights: set[Right] = set()
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        reference = binding["roleRef"]
        if reference["name"].startswith("system:"):
            continue
        inside = binding["metadata"]["namespace"] if binding["kind"] == "RoleBinding" else ""
        for subject in binding["subjects"]:
            for rule in roles[reference["kind"], reference["name"]]["rules"]:
                rights |= _read_rule(rule, subject["name"], inside)
    return rights


def _read_rule(rule: Mapping[str, Any], account: str, namespace: str) -> set[Right]:
    return {
        Right(account, verb, group, resource, namespace, name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    }


def read_used(lines: Iterable[str], namespace: str) -> tuple[set[Right], set[Right]]:
    """Return what the accounts of a namespace requested: what was allowed, and what was denied.

    A kube-scheduler shares the account of its allocator. It has roles of Kubernetes itself, so only
    the use of its Lease counts, which is Drawbridge's own.
    """
    used: set[Right] = set()
    denied: set[Right] = set()
    for line in lines:
        event = json.loads(line)
        user = event["user"]["username"]
        prefix = f"{ACCOUNTS}{namespace}:"
        reference = event.get("objectRef")
        # Requests for /version and discovery need no rule of ours.
        if not user.startswith(prefix) or reference is None:
            continue
        resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
        right = Right(
            user.removeprefix(prefix),
            event["verb"],
            reference.get("apiGroup", ""),
            resource,
            reference.get("namespace", ""),
            reference.get("name", ""),
        )
        if event.get("responseStatus", {}).get("code", 0) == FORBIDDEN and _is_rbac(event):
            denied.add(right)
        elif event.get("userAgent") == AGENT or resource == "leases":
            used.add(right)
    return used, denied


def _is_rbac(event: Mapping[str, Any]) -> bool:
    """Whether RBAC refused the request, and not a quota or another webhook."""
    return bool(event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid")


def allows(granted: Right, used: Right) -> bool:
    """Whether a granted right covers a request."""
    return (
        granted[:4] == used[:4]
        and granted.namespace in ("", used.namespace)
        and granted.name in ("", used.name)
    )


class Comparison(NamedTuple):
    """What is granted and not used, used and not granted, and listed without need."""

    unused: list[Right]
    ungranted: list[Right]
    stale: list[str]
    denied: list[Right]

    @property
    def is_equal(self) -> bool:
        """Whether the rights are exactly those that are used or explained."""
        return not any(self)


def compare(
    granted: set[Right], used: set[Right], denied: set[Right], explained: Mapping[str, str]
) -> Comparison:
    """Compare granted with used rights; `explained` names unused ones, each with its reason."""
    exercised = {each for each in granted if any(allows(each, one) for one in used)}
    names = {str(each) for each in granted}
    return Comparison(
        sorted(each for each in granted - exercised if str(each) not in explained),
        sorted(one for one in used if not any(allows(each, one) for each in granted)),
        sorted(explained.keys() - names),
        # A scenario that removes a right plays its denial.
        sorted(one for one in denied if not any(allows(each, one) for each in granted)),
    )
