"""Scenarios: the API of the allocator, asked by ServiceAccounts of two tenants with real rights."""

import base64
import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

from e2e.bridge.pair import Pair
from e2e.bridge.placement import NAME as SCHEDULER_ACCOUNT
from e2e.bridge.placement import SCHEDULER, TOLERATION, BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError, Client
from e2e.installed.installation import NAMESPACE
from e2e.scenarios.objects import claim_spec, request

GPU = "gpu.nvidia.com"
HOST = f"drawbridge-allocator.{NAMESPACE}.svc"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SECRET = f"{SECRETS}/drawbridge-ca"
CERTIFICATE = f"{SECRETS}/drawbridge-allocator-tls"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"]}
JSON = dict[str, Any]


class Answer(NamedTuple):
    """The status of a response, and its body."""

    status: int
    body: JSON


@contextlib.contextmanager
def connected(stage: BridgeStage, pair: Pair) -> Iterator[http.client.HTTPConnection]:
    """Connect to the API of an allocator over TLS, as a client of the Service does."""
    secret = stage.client.get(SECRET)["data"]
    authority = ssl.create_default_context(cadata=base64.b64decode(secret["ca.crt"]).decode())
    with (
        socket.create_connection(("127.0.0.1", pair.allocator.port("api")), 10) as plain,
        authority.wrap_socket(plain, server_hostname=HOST) as encrypted,
    ):
        connection = http.client.HTTPConnection(HOST)
        connection.sock = encrypted
        yield connection


def send(
    connection: http.client.HTTPConnection, call: str, token: str, body: JSON | None = None
) -> Answer:
    """Send one request, and read the response."""
    method, _, path = call.partition(" ")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    return Answer(response.status, json.loads(response.read()))


def ask(stage: BridgeStage, pair: Pair, call: str, token: str, body: JSON | None = None) -> Answer:
    """Call the API of an allocator on a connection of its own."""
    with connected(stage, pair) as connection:
        return send(connection, call, token, body)


def tenant(stage: BridgeStage, name: str, rules: list[JSON], namespace: str = "") -> str:
    """Create an account with rights in a namespace, else that of the stage; return a token."""
    own = namespace or stage.namespace
    stage.client.create(f"/api/v1/namespaces/{own}/serviceaccounts", {"metadata": {"name": name}})
    roles = f"{ROLES}/namespaces/{own}"
    stage.client.create(f"{roles}/roles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": own}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    stage.client.create(f"{roles}/rolebindings", binding)
    return stage.processes.account_token(own, name)


class Asked:
    """The API of the leading allocator, as callers see it."""

    def __init__(self, stage: BridgeStage) -> None:
        self.stage = stage
        self.pair = stage.leader()
        stage.wait("the API has its certificate", lambda: answers(stage, self.pair))

    def __call__(self, call: str, token: str, body: JSON | None = None) -> Answer:
        """Call the API."""
        return ask(self.stage, self.pair, call, token, body)


@bridge_scenario("full")
def tenants_are_told_of_their_own_devices_only(stage: BridgeStage) -> None:
    """The API server decides who they are and what they may read."""
    node = stage.run_on_new_node("worker")
    claim = stage.generated_claim("worker")
    claims = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]}
    owner, stranger = tenant(stage, "owner", [PODS, claims]), tenant(stage, "stranger", [])
    asked, listing = Asked(stage), f"GET /v1/allocations?namespace={stage.namespace}"
    stage.wait("the role is in effect", lambda: asked(listing, owner).status == 200)
    (item,) = asked(listing, owner).body["items"]
    assert (item["claim"], item["node"], item["pods"]) == (claim, node, ["worker"])
    named = {"namespace": stage.namespace, "name": "worker"}
    told = asked("POST /v1/explain", owner, named)
    assert told.body["state"] == "Bound", told
    assert told.body["claims"][0]["devices"][0]["device"] == item["devices"][0]["device"]
    assert asked("GET /v1/allocations", owner).status == 403
    assert asked(f"GET /v1/nodes/{node}", owner).status == 403
    assert asked(listing, stranger).status == 403
    assert asked("POST /v1/explain", stranger, named).status == 403
    assert asked(listing, "forged").status == 401
    assert holders(asked(f"GET /v1/nodes/{node}", stage.processes.tokens["admin"])) == [claim]


def holders(told: Answer) -> list[str]:
    """Return the claims that hold devices of a node."""
    devices = (each for pool in told.body["pools"] for each in pool["devices"])
    return [each["claim"] for device in devices for each in device.get("claims", ())]


def answers(stage: BridgeStage, pair: Pair) -> bool:
    """Whether the listener has a certificate."""
    try:
        return ask(stage, pair, "GET /v1/openapi.json", "none").status == 401
    except OSError:
        return False


@bridge_scenario("full")
def the_account_of_the_scheduler_has_no_key_of_the_ca(stage: BridgeStage) -> None:
    """The API has a certificate of the CA all the same, and another one after it was damaged."""
    plane = stage.processes
    stolen = plane.client(plane.account_token(NAMESPACE, SCHEDULER_ACCOUNT))
    assert refused(stolen, SECRETS)
    assert refused(stolen, SECRET)
    assert refused(stolen, SECRETS, fieldSelector="metadata.name=drawbridge-ca")
    assert refused(stolen, SECRETS, fieldSelector="metadata.name=drawbridge-ca", watch="true")
    (own,) = stolen.get(SECRETS, fieldSelector="metadata.name=drawbridge-allocator-tls")["items"]
    assert set(own["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    Asked(stage)
    damaged = {"tls.crt": "", "tls.key": ""}
    stage.client.replace(CERTIFICATE, {**stage.client.get(CERTIFICATE), "data": damaged})
    stage.wait(
        "it is signed again", lambda: stage.client.get(CERTIFICATE)["data"].get("tls.key"), 90
    )
    Asked(stage)


def refused(client: Client, path: str, **query: str) -> bool:
    """Return whether the API server forbids to read something."""
    try:
        client.get(path, **query)
    except ApiError as problem:
        return problem.code == http.client.FORBIDDEN
    return False


@bridge_scenario("full")
def a_simulation_says_what_the_scheduler_then_does(stage: BridgeStage) -> None:
    """The allocator places the pod where the API said, and nothing was reserved before."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("both", claim_spec(request("gpu", GPU, count=2)))
    owner, asked, body = tenant(stage, "owner", [PODS]), Asked(stage), two_pods(stage)

    def simulated() -> list[bool]:
        told = asked("POST /v1/simulate", owner, body)
        return [bool(each["node"]) for each in told.body.get("pods", ())]

    # The role is in effect, and the node has the fence.
    stage.wait("one of the pods fits", lambda: simulated() == [True, False])
    assert simulated() == [True, False]
    stage.run_pod("first", templates={"gpu": "both"})
    stage.wait("no pod fits", lambda: simulated() == [False, False])
    stage.pod("second", templates={"gpu": "both"})
    stage.wait_unschedulable("second")
    named = {"namespace": stage.namespace, "name": "second"}
    told = asked("POST /v1/explain", owner, named)
    assert (told.body["state"], told.body["nodes"]) == ("Waiting", []), told
    assert told.body["reasons"], told


def two_pods(stage: BridgeStage) -> JSON:
    """Return a simulation of two pods that both need all GPUs of a node."""
    reference = {"name": "gpu", "resourceClaimTemplateName": "both"}
    spec = {"resourceClaims": [reference], "tolerations": [TOLERATION], "schedulerName": SCHEDULER}
    path = stage.path("resourceclaimtemplates", "both", "/apis/resource.k8s.io/v1")
    pods = [
        {"metadata": {"name": name, "namespace": stage.namespace}, "spec": spec} for name in "ab"
    ]
    return {"pods": pods, "templates": [stage.client.get(path)]}
