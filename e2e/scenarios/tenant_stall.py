"""Scenarios: a tenant sends objects that are expensive to translate; nobody else waits."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.threaded import repeating
from e2e.installed.installation import (
    NAMESPACE,
    Installation,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.scenarios.admission import FACTS, GPU, LEGACY, NEEDS, ORIGINAL, legacy_pod
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import (
    MODE,
    NAMESPACES,
    another_namespace,
    check_innocents_not_delayed,
    check_not_delayed,
    innocent_namespaces,
    tenant_client,
)

HAMI = "hami-core-gpu.project-hami.io"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/drawbridge-controller"
ARGUMENTS, INSERTIONS, ATTACKERS, CONTAINERS = 200_000, 4_000, 4, 800
# Of the 256 KiB that the API server accepts, what the pod's own annotations leave.
ANNOTATIONS, ROOM = 256 << 10, 300
MOST_CLAIMS = 64
PODS_OF_EACH, SPANNED = 2, 120
TOO_COMPLEX, TOO_LARGE = ("PodTooComplex", "TooManyClaims"), "AnnotationsTooLarge"


def expensive_undo(stage: Stage, cluster: Installation, name: str) -> JSON:
    """Return a pod with 4,000 insertions at the head of a list of 200,000 arguments."""
    step = {"op": "add", "path": "/spec/containers/0/args/0", "value": ""}
    pod = stage.pod_object(name)
    pod["metadata"]["annotations"] = {
        ORIGINAL: json.dumps([step] * INSERTIONS, separators=(",", ":")),
        FACTS: cluster.facts_hash(),
    }
    reference = {"name": "drawbridge", "resourceClaimTemplateName": f"drawbridge-{'0' * 32}"}
    container = pod["spec"]["containers"][0]
    container |= {"args": ["x"] * ARGUMENTS, "resources": {"claims": [{"name": "drawbridge"}]}}
    pod["spec"] |= {"schedulerName": "nobody", "resourceClaims": [reference]}
    return pod


def lease_holder(stage: Stage) -> tuple[str, int]:
    """Return the holder of the controller's lease, and how often it has changed."""
    spec = stage.client.get(LEASE)["spec"]
    return spec["holderIdentity"], spec.get("leaseTransitions", 0)


def innocent_pod(stage: Stage, cluster: Installation) -> tuple[str, JSON]:
    """Return another team's namespace, which is opted in, and a pod that is translated there."""
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    return another_namespace(stage, "other", {MODE: "enforce"}), legacy_pod(stage, "innocent")


def update_all(client: Client, stage: Stage, round_number: int, kind: str = "attack") -> None:
    """Let a tenant change a label of all its pods of a kind at once."""
    change = {"metadata": {"labels": {"round": f"{round_number}"}}}

    def update(number: int) -> None:
        client.patch(stage.pod_path(f"{kind}-{number}"), change)

    with ThreadPoolExecutor(ATTACKERS) as pool:
        for _ in pool.map(update, range(ATTACKERS)):
            pass


@scenario("full", rig="installed", needs=NEEDS)
def an_expensive_undo_patch_delays_nobody(stage: Stage) -> None:
    """Updates and pending pods with it delay neither another team's pod nor the leader."""
    cluster = installed(stage, mode="")
    stage.node("a", "lab-2g2n", {GPU: "full"})
    set_mode(stage, "enforce")
    namespace, innocent = innocent_pod(stage, cluster)
    set_mode(stage, None)
    client, holder, leader = tenant_client(stage), lease_holder(stage), cluster.leader
    path = f"/api/v1/namespaces/{namespace}/pods"

    def create_innocent() -> None:
        pod = stage.client.create(path, innocent, dryRun="All")
        assert ORIGINAL in pod["metadata"]["annotations"]

    def create(kind: str) -> None:
        for number in range(ATTACKERS):
            body = expensive_undo(stage, cluster, f"{kind}-{number}")
            if kind == "control":  # as large, but not sent to the webhook
                body["metadata"]["annotations"]["team"] = body["metadata"]["annotations"].pop(
                    ORIGINAL
                )
            client.create(stage.pod_path(), body)
        update_all(client, stage, 0, kind)

    check_not_delayed(
        "another team's pod",
        create_innocent,
        lambda number: update_all(client, stage, number) if number else create("attack"),
        lambda: create("control"),
    )
    # The pods wait for a template, and now the namespace is in scope of the controller.
    set_mode(stage, "enforce")
    check_not_delayed(
        "the leader's response",
        lambda: leader.request("health", "/readyz").code == 200 or 1 / 0,
        lambda number: update_all(client, stage, number + 10),
    )
    assert lease_holder(stage) == holder
    assert template_names(stage) == []


def many_containers(stage: Stage, name: str) -> JSON:
    """Return a pod with 800 init containers and 800 containers, each with another GPU share."""
    pod = many_shares(stage, name, CONTAINERS)
    pod["spec"]["initContainers"] = share_containers("i", 1 + CONTAINERS, CONTAINERS)
    return pod


def many_shares(stage: Stage, name: str, count: int) -> JSON:
    """Return a pod with this many containers, each with another GPU share."""
    pod = stage.pod_object(name)
    pod["spec"] |= {"schedulerName": "nobody", "containers": share_containers("c", 1, count)}
    return pod


def share_containers(prefix: str, megabytes: int, count: int) -> list[JSON]:
    """Return containers with shares of this memory, and one megabyte more each."""
    return [
        {
            "name": f"{prefix}{number}",
            "image": "x",
            "resources": {"limits": {LEGACY: "1", "nvidia.com/gpumem": f"{megabytes + number}"}},
        }
        for number in range(count)
    ]


def spanning_pod(stage: Stage, name: str, *, shares: bool) -> JSON:
    """Return a pod of 30 KB whose init containers may use the devices of all containers.

    Without `shares`, its containers request nothing that is translated.
    """
    pod = stage.pod_object(name)
    limits = {LEGACY: f"{SPANNED}", "nvidia.com/gpumem": "1"}
    init = [
        {"name": f"i{number}", "image": "x", "resources": {"limits": limits}}
        for number in range(SPANNED)
    ]
    containers = share_containers("c", 1, SPANNED)
    if not shares:
        for container in (*init, *containers):
            container["resources"] = {"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}}
    pod["spec"] |= {"schedulerName": "nobody", "initContainers": init, "containers": containers}
    return pod


def refusal_of(client: Client, stage: Stage, pod: JSON) -> str:
    """Create a pod that must be refused, and return the message."""
    try:
        client.create(stage.pod_path(), pod)
    except ApiError as problem:
        return str(problem)
    raise AssertionError("the pod was admitted")


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def a_pod_with_1600_gpu_shares_is_refused_before_any_write(stage: Stage) -> None:
    """It delays no other team's pod, and leaves no template."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None, GPU: "full"})
    namespace, innocent = innocent_pod(stage, cluster)
    client, holder = tenant_client(stage), lease_holder(stage)
    path = f"/api/v1/namespaces/{namespace}/pods"
    refused: list[str] = []

    def attack(_number: int) -> None:
        bodies = [many_containers(stage, f"attack-{each}") for each in range(ATTACKERS)]
        with ThreadPoolExecutor(ATTACKERS) as pool:
            refused.extend(pool.map(lambda body: refusal_of(client, stage, body), bodies))

    check_not_delayed(
        "another team's pod", lambda: stage.client.create(path, innocent, dryRun="All"), attack
    )
    for message in refused:
        assert any(code in message for code in TOO_COMPLEX), message[:500]
    assert template_names(stage) == []
    assert lease_holder(stage) == holder


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def small_pods_that_are_expensive_to_translate_delay_nobody(stage: Stage) -> None:
    """Pods of 30 KB from ten namespaces at once delay the pods of no team in ten others."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None, GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    attackers = [
        another_namespace(stage, f"attack-{number}", {MODE: "enforce"})
        for number in range(NAMESPACES)
    ]
    codes: list[str] = []

    def send(namespace: str, *, shares: bool) -> None:
        pod = spanning_pod(stage, "attack", shares=shares)
        pod["metadata"].pop("namespace", None)
        assert len(json.dumps(pod)) < 32 << 10
        try:
            stage.client.create(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
        except ApiError as problem:
            codes.append(str(problem))

    def send_all(*, shares: bool) -> None:
        with ThreadPoolExecutor(NAMESPACES * PODS_OF_EACH) as pool:
            list(pool.map(partial(send, shares=shares), attackers * PODS_OF_EACH))

    innocent = legacy_pod(stage, "innocent")
    check_innocents_not_delayed(
        "pods",
        [
            partial(stage.client.create, f"/api/v1/namespaces/{each}/pods", innocent, dryRun="All")
            for each in innocent_namespaces(stage)
        ],
        lambda: repeating(partial(send_all, shares=True)),
        lambda: repeating(partial(send_all, shares=False)),
    )
    assert all("denied the request" in each for each in codes), codes[:3]
    assert codes


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def a_pod_of_64_claims_is_admitted_and_one_of_65_is_refused(stage: Stage) -> None:
    """The API server stores the translated pod, and the controllers create each claim once."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None, GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    client = tenant_client(stage)
    text = refusal_of(client, stage, many_shares(stage, "more", MOST_CLAIMS + 1))
    assert "TooManyClaims" in text, text[:500]
    assert template_names(stage) == []
    pod = client.create(stage.pod_path(), many_shares(stage, "most", MOST_CLAIMS))
    used = [each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"]]
    assert len({*used}) == MOST_CLAIMS, used
    # Admission creates some of them ahead of the pod, the controller the others.
    stage.wait("each template exists", lambda: {*used} == {*template_names(stage)})
    stage.wait(
        "each claim exists",
        lambda: len(stage.client.get(stage.claim_path())["items"]) == MOST_CLAIMS,
    )


@scenario("full", rig="installed", needs=NEEDS)
def a_translation_beyond_the_annotation_limit_is_refused_before_any_write(stage: Stage) -> None:
    """The pod's own annotations fit. With the undo patch they exceed 256 KiB."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    client = tenant_client(stage)
    filler = "x" * (ANNOTATIONS - ROOM)
    pod = legacy_pod(stage, "train", annotations={"team": filler})
    text = refusal_of(client, stage, pod)
    assert TOO_LARGE in text, text[:500]
    assert template_names(stage) == []
    # It is the sum that decides: a little less fits.
    smaller = legacy_pod(stage, "train", annotations={"team": filler[: len(filler) // 2]})
    client.create(stage.pod_path(), smaller)
    stage.wait_running("train")
