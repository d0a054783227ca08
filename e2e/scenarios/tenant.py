"""Gives scenarios a tenant: an account with rights in the stage's namespace only.

A tenant can write pods and ResourceClaimTemplates, and no object of another namespace.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

from e2e.controlplane.client import ApiError, Client
from e2e.scenarios.admission_original import copy_of
from e2e.scenarios.objects import JSON
from e2e.scenarios.stage import Stage

ACCOUNT = "tenant"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": VERBS},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": VERBS},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates"], "verbs": VERBS},
)
# An attack that costs admission seconds is far above it, the noise of a busy machine below.
MOST_SECONDS = 0.5
# On a busy machine one round can be slow by itself.
ROUNDS = 3
PAUSE_SECONDS = 0.01
# What tenants of several namespaces do at once.
NAMESPACES, INNOCENT_SECONDS, INNOCENT_PAUSE = 10, 6.0, 0.2
WARM_SECONDS = 2.0
# What an attack has left behind, such as open connections, is gone after this time.
CALM_SECONDS = 8.0
TIMES = 2
MODE = "drawbridge.dev/translate"


def tenant_client(stage: Stage) -> Client:
    """Create the account with its rights in the stage's namespace, and return its client."""
    stage.client.create(stage.path("serviceaccounts"), {"metadata": {"name": ACCOUNT}})
    metadata = {"metadata": {"name": ACCOUNT}}
    stage.client.create(stage.path("roles", "", RBAC), {**metadata, "rules": list(RULES)})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": stage.namespace}
    binding = {**metadata, "roleRef": role, "subjects": [subject]}
    stage.client.create(stage.path("rolebindings", "", RBAC), binding)
    client = stage.processes.client(stage.processes.account_token(stage.namespace, ACCOUNT))
    stage.wait("the tenant may create pods", lambda: _may_create(stage, client))
    return client


def _may_create(stage: Stage, client: Client) -> bool:
    """Ask the API server whether its authorizer knows the role by now."""
    attributes = {"namespace": stage.namespace, "verb": "create", "resource": "pods"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(client.create(path, review)["status"]["allowed"])


def another_namespace(stage: Stage, suffix: str, labels: Mapping[str, str]) -> str:
    """Create another namespace, which is deleted with the stage; returns its name."""
    name = f"{stage.namespace}-{suffix}"
    metadata = {"name": name, "labels": dict(labels)}
    stage.cluster_object("/api/v1/namespaces", {"metadata": metadata})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    stage.wait("the namespace has its account", lambda: stage.exists(account))
    return name


def forged_copy(pod: JSON, name: str) -> JSON:
    """Copy a pod with its annotations and claims; no scheduler places the copy."""
    copy = copy_of(pod, name)
    copy["metadata"].pop("ownerReferences", None)
    spec = {key: value for key, value in copy["spec"].items() if key != "serviceAccountName"}
    volumes = [each for each in spec.pop("volumes", ()) if "projected" not in each]
    for container in spec["containers"]:
        container.pop("volumeMounts", None)
    return {**copy, "spec": {**spec, "volumes": volumes, "schedulerName": "nobody"}}


def longest_call(call: Callable[[], object], times: int) -> float:
    """Return the seconds of the longest of several calls."""
    return max(_timed(call) for _ in range(times))


def longest_call_during(call: Callable[[], object], attack: Callable[[], object]) -> float:
    """Return the seconds of the longest call while an attack runs, and shortly after it."""
    ended = threading.Event()
    slowest = 0.0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(attack)
        running.add_done_callback(lambda _: ended.set())
        while not ended.is_set():
            slowest = max(slowest, _timed(call))
            time.sleep(PAUSE_SECONDS)
        running.result()
    return max(slowest, longest_call(call, 5))


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def check_not_delayed(
    what: str,
    call: Callable[[], object],
    attack: Callable[[int], object],
    control: Callable[[], object] = bool,
) -> None:
    """Check that an attack delays a call by at most half a second; one of three rounds counts.

    The call is compared with the same call during `control`: requests of the same size that cost
    the API server as much as the attack.
    """
    before = max(longest_call(call, 20), longest_call_during(call, control))
    seconds: list[float] = []
    for number in range(ROUNDS):
        seconds.append(longest_call_during(call, lambda: attack(number)))  # noqa: B023  # called at once
        if seconds[-1] - before <= MOST_SECONDS:
            return
    shown = ", ".join(f"{each:.2f}" for each in seconds)
    raise AssertionError(f"{what}: {before:.2f} s without it, {shown} s during the attack")


class Waits(NamedTuple):
    """How long the calls of several tenants took, in seconds."""

    median: float
    p99: float
    longest: float


def innocent_namespaces(stage: Stage) -> list[str]:
    """Create the namespaces of ten tenants, which are opted in."""
    return [another_namespace(stage, f"{each}", {MODE: "enforce"}) for each in range(NAMESPACES)]


def measure_innocents(calls: Sequence[Callable[[], object]], seconds: float) -> Waits:
    """Let tenants repeat their calls side by side for a time."""
    end = time.monotonic() + seconds

    def repeat(call: Callable[[], object]) -> list[float]:
        took = []
        while time.monotonic() < end:
            took.append(_timed(call))
            time.sleep(INNOCENT_PAUSE)
        return took

    with ThreadPoolExecutor(len(calls)) as pool:
        took = sorted(chain.from_iterable(pool.map(repeat, calls)))
    return Waits(took[len(took) // 2], took[len(took) * 99 // 100], took[-1])


def check_innocents_not_delayed(
    what: str,
    calls: Sequence[Callable[[], object]],
    attack: Callable[[], contextlib.AbstractContextManager[object]],
    control: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> None:
    """Check that calls take at most twice as long beside an attack; one of three rounds counts.

    99 of 100 calls do, or take half a second, and none is refused. `control` are requests of the
    same size that cost the API server as much.
    """
    shown = []
    measure_innocents(calls, WARM_SECONDS)
    for number in range(ROUNDS):
        time.sleep(CALM_SECONDS if number else 0)
        with control():
            before = measure_innocents(calls, INNOCENT_SECONDS)
        try:
            with attack():
                during = measure_innocents(calls, INNOCENT_SECONDS)
        except ApiError as refused:
            shown.append(f"{before} without it, refused during the attack: {refused}")
            continue
        shown.append(f"{before} without it, {during} during the attack")
        if during.p99 <= max(TIMES * before.p99, MOST_SECONDS):
            print(f"      {what}: {shown[-1]}")  # noqa: T201  # shows what was measured
            return
    raise AssertionError("\n".join((what, *shown)))
