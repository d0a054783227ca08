"""The audit log shows which rights were used, and the comparison finds each difference."""

import json

from e2e.audit.__main__ import read_explained, read_roles
from e2e.audit.rights import Right, allows, compare, read_granted, read_used
from tests.tables import every_row

NAMESPACE = "drawbridge-system"
USER = f"system:serviceaccount:{NAMESPACE}:webhook"


def event(
    verb: str, user: str = USER, code: int = 200, agent: str = "drawbridge", **reference: str
) -> str:
    return json.dumps(
        {
            "user": {"username": user},
            "userAgent": agent,
            "verb": verb,
            "objectRef": reference or None,
            "responseStatus": {"code": code},
            "annotations": {"authorization.k8s.io/decision": "forbid" if code == 403 else "allow"},
        }
    )


def granted(**rule: list[str]) -> set[Right]:
    metadata = {"name": "role", "namespace": NAMESPACE}
    reference = {"kind": "Role", "name": "role"}
    subjects = [{"kind": "ServiceAccount", "name": "webhook", "namespace": NAMESPACE}]
    return read_granted(
        [
            {"kind": "Role", "metadata": metadata, "rules": [rule]},
            {
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": subjects,
            },
        ]
    )


FACTS = granted(
    apiGroups=[""], resources=["configmaps"], resourceNames=["facts"], verbs=["list", "watch"]
)


def test_a_rule_grants_one_right_for_each_verb_and_name() -> None:
    assert {
        Right("webhook", verb, "", "configmaps", NAMESPACE, "facts") for verb in ("list", "watch")
    } == FACTS


def test_only_requests_of_the_accounts_of_the_namespace_count() -> None:
    lines = [
        event("get", resource="pods", namespace="a", name="b"),
        event("get", user="system:serviceaccount:other:webhook", resource="secrets"),
        event("get", user="admin", resource="nodes"),
        event("get"),  # a path that is no resource, such as /version
        event("list", code=403, resource="secrets"),
        event("update", resource="pods", subresource="status", apiGroup=""),
    ]
    used, denied = read_used(lines, NAMESPACE)
    assert used == {
        Right("webhook", "get", "", "pods", "a", "b"),
        Right("webhook", "update", "", "pods/status"),
    }
    assert denied == {Right("webhook", "list", "", "secrets")}


def test_a_scheduler_uses_only_its_lease_with_the_rights_of_its_allocator() -> None:
    agent = "drawbridge-scheduler/v1.36.3"
    lines = [
        event("list", agent=agent, resource="nodes"),
        event("update", agent=agent, resource="leases", apiGroup="coordination.k8s.io"),
        event("list", agent=agent, code=403, resource="secrets"),
    ]
    used, denied = read_used(lines, NAMESPACE)
    assert used == {Right("webhook", "update", "coordination.k8s.io", "leases")}
    assert denied == {Right("webhook", "list", "", "secrets")}


FOUND = Right("webhook", "list", "", "configmaps", NAMESPACE, "facts")


@every_row(
    ("request_", "allowed"),
    [
        (FOUND, True),
        (FOUND._replace(name="other"), False),
        (FOUND._replace(name=""), False),
        (FOUND._replace(namespace="other"), False),
        (FOUND._replace(verb="get"), False),
        (FOUND._replace(account="controller"), False),
        (FOUND._replace(resource="configmaps/status"), False),
    ],
)
def test_a_right_covers_its_own_request_only(request_: Right, allowed: bool) -> None:  # noqa: FBT001  # a case
    assert any(allows(each, request_) for each in FACTS) is allowed


def test_each_difference_is_found() -> None:
    watch = FOUND._replace(verb="watch")
    other = FOUND._replace(name="other")
    assert compare(FACTS, {FOUND, watch}, set(), {}).is_equal
    assert compare(FACTS, {FOUND}, set(), {}).unused == [watch]
    assert compare(FACTS, {FOUND}, set(), {str(watch): "why"}).is_equal
    assert compare(FACTS, {FOUND, watch}, set(), {str(watch): "why"}).is_equal
    assert compare(FACTS, {FOUND, watch}, set(), {"a right that is gone": "why"}).stale
    assert compare(FACTS, {FOUND, watch, other}, set(), {}).ungranted == [other]
    assert compare(FACTS, {FOUND, watch}, {other}, {}).denied == [other]
    assert compare(FACTS, {FOUND, watch}, {watch}, {}).denied == []


def test_the_roles_of_people_grant_nothing_to_a_process() -> None:
    accounts = {each.account for each in read_roles()}
    assert accounts >= {"drawbridge-webhook", "drawbridge-controller"}
    assert all(each.startswith("drawbridge-") for each in accounts)


def test_every_explained_right_is_granted_and_has_a_reason() -> None:
    granted = {str(each) for each in read_roles()}
    explained = read_explained()
    assert set(explained) <= granted, set(explained) - granted
    assert all(len(reason.split()) > 5 for reason in explained.values())
