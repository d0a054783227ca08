"""The API server handles the requests of Drawbridge before those of tenants."""

from tests.manifests.rendering import Json, read_base
from tests.tables import every_row

# The matchingPrecedence of the API server's own FlowSchemas, from apiserver's bootstrap defaults.
CONTROL_PLANE, SERVICE_ACCOUNTS = 900, 9000


OBJECTS = read_base("flow-control.yaml")
SCHEMAS = {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == "FlowSchema"}
ACCOUNTS = {
    (account["metadata"]["name"], account["metadata"].get("namespace", "drawbridge-system"))
    for account in read_base("accounts.yaml")
    if account["kind"] == "ServiceAccount"
}


def list_accounts(schema: Json) -> set[tuple[str, str]]:
    return {
        (subject["serviceAccount"]["name"], subject["serviceAccount"]["namespace"])
        for rule in schema["spec"]["rules"]
        for subject in rule["subjects"]
    }


def matches(rule: Json, group: str, resource: str, verb: str, namespace: str) -> bool:
    """Whether a resource rule of a FlowSchema matches a request; empty namespace: cluster scope."""
    wanted = {"apiGroups": group, "resources": resource, "verbs": verb}
    if namespace:
        wanted["namespaces"] = namespace
    elif not rule.get("clusterScope"):
        return False
    return all({"*", value} & set(rule[field]) for field, value in wanted.items())


def find_level(account: str, *request: str) -> str:
    """Return the priority level of a request, as the API server selects it."""
    for schema in sorted(SCHEMAS.values(), key=lambda each: each["spec"]["matchingPrecedence"]):
        if (account, "drawbridge-system") in list_accounts(schema) and any(
            matches(resource_rule, *request)
            for rule in schema["spec"]["rules"]
            for resource_rule in rule.get("resourceRules", ())
        ):
            level: str = schema["spec"]["priorityLevelConfiguration"]["name"]
            return level
    return "workload-low"


LEASES = ("coordination.k8s.io", "leases")
LEVELS = [
    ("drawbridge-controller", (*LEASES, "update", "drawbridge-system"), "leader-election"),
    ("drawbridge-controller", (*LEASES, "create", "drawbridge-system"), "leader-election"),
    ("drawbridge-controller", (*LEASES, "get", "drawbridge-system"), "leader-election"),
    ("drawbridge-controller", (*LEASES, "update", "team"), "drawbridge"),
    ("drawbridge-controller", ("", "pods", "watch", ""), "drawbridge"),
    ("drawbridge-controller", ("", "configmaps", "update", "drawbridge-system"), "drawbridge"),
    ("drawbridge-webhook", ("resource.k8s.io", "resourceclaimtemplates", "create", "team"),
     "drawbridge"),
    ("drawbridge-webhook", (*LEASES, "update", "drawbridge-system"), "drawbridge"),
    ("default", ("", "pods", "create", "team"), "workload-low"),
]  # fmt: skip


@every_row(("account", "request_", "level"), LEVELS)
def test_the_level_of_a_request(account: str, request_: tuple[str, ...], level: str) -> None:
    assert find_level(account, *request_) == level


def test_every_account_has_a_level_and_no_other_client_has_it() -> None:
    matched = {account for schema in SCHEMAS.values() for account in list_accounts(schema)}
    assert matched == ACCOUNTS
    for schema in SCHEMAS.values():
        kinds = {each["kind"] for rule in schema["spec"]["rules"] for each in rule["subjects"]}
        assert kinds == {"ServiceAccount"}


def test_the_schemas_come_after_the_control_plane_and_before_all_service_accounts() -> None:
    order = [SCHEMAS[name]["spec"]["matchingPrecedence"] for name in SCHEMAS]
    assert order == sorted(set(order))
    assert all(CONTROL_PLANE < each < SERVICE_ACCOUNTS for each in order)


def test_every_level_exists() -> None:
    own = {
        obj["metadata"]["name"] for obj in OBJECTS if obj["kind"] == "PriorityLevelConfiguration"
    }
    used = {each["spec"]["priorityLevelConfiguration"]["name"] for each in SCHEMAS.values()}
    assert used - own == {"leader-election"}
    assert own <= used
