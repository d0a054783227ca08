"""Scenarios: the judge refuses at kubectl what can never work, and nothing else.

A claim is impossible if it asks for more memory than any published device has. The configuration
says that the fleet is closed, because the nodes of the rig are those of a cloud. The judge refuses
nothing about devices within the first seconds, so a scenario first waits until it does.
"""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from e2e.controlplane.client import ApiError
from e2e.controlplane.processes import suspended
from e2e.installed.installation import NAMESPACE, Installation, installed, set_mode
from e2e.installed.judge import InstalledJudge, judged
from e2e.installed.kubectl import CommandResult, Kubectl
from e2e.scenarios.admission import GPU, NEEDS
from e2e.scenarios.objects import JSON, RESOURCE, claim_spec, deployment, opaque, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import another_namespace, check_not_delayed

CONFIGURATION: Final = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
CLOSED: Final = f"{CONFIGURATION}fleet: [{{class: gpu.nvidia.com, closed: true}}]\n"
API: Final = "resource.k8s.io/v1"
MEMORY: Final = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'
# The devices of the node have 40Gi.
TOO_MUCH: Final = claim_spec(request("gpu", GPU, MEMORY.format("96Gi")))
ENOUGH: Final = claim_spec(request("gpu", GPU, MEMORY.format("20Gi")))
# The timeout of the webhook, and time for kubectl.
SLOWEST: Final = 5.0
ATTACKERS, CLAIMS, TEAMS = 4, 8, 10
REFUSED: Final = 'admission webhook "{}.judge.drawbridge.dev" denied the request: '
MESSAGE: Final = "DeviceNeverMatches: spec.devices.requests[0].exactly.selectors[0]"


def claim(name: str, spec: JSON) -> JSON:
    """Return a claim."""
    metadata = {"name": name}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def template(name: str, spec: JSON) -> JSON:
    """Return a template."""
    return {**claim(name, {"spec": spec}), "kind": "ResourceClaimTemplate"}


def enter(stage: Stage, *, devices: bool = True) -> tuple[Installation, InstalledJudge, Kubectl]:
    """Install the judge, and wait until it refuses what no device satisfies."""
    cluster = installed(stage)
    stage.enter(configured(cluster, CLOSED))
    if devices:
        stage.node("a", "lab-2g2n", {GPU: "full"})
    judge = stage.enter(judged(stage, cluster))
    kubectl = cluster.kubectl.inside(stage.namespace)
    if devices:
        wait_until_refused(stage, kubectl)
    return cluster, judge, kubectl


@contextlib.contextmanager
def configured(cluster: Installation, text: str) -> Iterator[None]:
    """Use another configuration until the context exits."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-config"
    before = cluster.plane.admin.get(path)["data"]["config.yaml"]
    cluster.configure(text)
    try:
        yield
    finally:
        cluster.configure(before)


def wait_until_refused(stage: Stage, kubectl: Kubectl) -> None:
    """Wait until an impossible claim is refused."""
    stage.wait(
        "the judge refuses an impossible claim",
        lambda: kubectl.apply(claim("probe", TOO_MUCH), words=("--dry-run=server",)).code,
    )


def check_refused(ran: CommandResult, hook: str, message: str) -> None:
    """Check that kubectl shows the whole message of the judge."""
    assert ran.code, f"{ran}"
    assert REFUSED.format(hook) in ran.err, ran
    assert message in ran.err, ran
    assert "the largest gpu.nvidia.com device has 40Gi of memory, 96Gi requested" in ran.err, ran


def expensive_claim(number: int) -> JSON:
    """Return a claim with 32 selectors of the highest cost, which no other claim has."""
    loop = "[1,2,3,4,5,6,7,8,9,10]"
    nested = f"{loop}.all(a,{loop}.all(b,{loop}.all(c,{loop}.all(d,a+b+c+d<{{}}))))"
    texts = [nested.format(100_000 * (number + 1) + each) for each in range(32)]
    return claim(
        f"expensive-{number}",
        claim_spec(*(request(f"r{each}", GPU, text) for each, text in enumerate(texts))),
    )


def pod_of(stage: Stage, name: str, wanted: str) -> JSON:
    """Return a pod that refers to a template."""
    return stage.pod_object(name, templates={"gpu": wanted})


@scenario("full", rig="installed", needs=NEEDS)
def an_impossible_request_is_refused_at_kubectl(stage: Stage) -> None:
    """Claim, template, pod and Deployment are refused with the message intact."""
    _, _, kubectl = enter(stage)
    check_refused(kubectl.apply(claim("big", TOO_MUCH)), "claims", MESSAGE)
    in_template = MESSAGE.replace("spec.", "spec.spec.", 1)
    check_refused(kubectl.apply(template("big", TOO_MUCH)), "claims", in_template)
    kubectl.apply(claim("small", ENOUGH), template("small", ENOUGH)).check()
    unjudged(stage, template("old", TOO_MUCH), claim("old", TOO_MUCH))
    pod = pod_of(stage, "work", "old")
    check_refused(kubectl.apply(pod), "pods", in_template)
    check_refused(kubectl.apply(deployment(pod, 1)), "workloads", in_template)
    direct = stage.pod_object("work", claims={"gpu": "old"})
    check_refused(kubectl.apply(direct), "pods", MESSAGE)
    kubectl.apply(pod_of(stage, "fits", "small")).check()
    stage.wait_running("fits")


def unjudged(stage: Stage, *objects: JSON) -> None:
    """Create objects while the namespace is not judged."""
    set_mode(stage, None)
    plural = {"ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates"}
    for obj in objects:
        stage.client.create(stage.path(plural[obj["kind"]], "", RESOURCE), obj)
    set_mode(stage, "enforce")


@scenario("full", rig="installed", needs=NEEDS)
def report_mode_and_namespaces_without_the_label_refuse_nothing(stage: Stage) -> None:
    """The label of the namespace decides, and older API versions are judged alike."""
    _, _, kubectl = enter(stage)
    set_mode(stage, "report")

    def warned() -> list[str]:
        return kubectl.apply(claim("big", TOO_MUCH), words=("--dry-run=server",)).warnings

    first, *_ = stage.wait("report mode warns", warned)
    assert first.startswith("would be denied: DeviceNeverMatches: "), first
    ran = kubectl.apply(claim("big", TOO_MUCH)).check()
    assert ran.warnings[0] == first, ran
    set_mode(stage, "off")
    stage.wait(
        "off says nothing",
        lambda: not kubectl.apply(claim("other", TOO_MUCH), words=("--dry-run=server",)).warnings,
    )
    kubectl.apply(claim("other", TOO_MUCH)).check()


@scenario("full", rig="installed", needs=NEEDS)
def objects_that_would_be_refused_today_can_be_changed_and_deleted(stage: Stage) -> None:
    """Annotations, finalizers and deletion of an impossible claim never meet the judge."""
    _, judge, kubectl = enter(stage)
    unjudged(stage, claim("old", TOO_MUCH), template("old", TOO_MUCH))
    wait_until_refused(stage, kubectl)
    for kind in ("resourceclaim", "resourceclaimtemplate"):
        ran = kubectl("annotate", kind, "old", "example.com/note=1").check()
        assert ran.warnings == [], ran
        finalizer = '{"metadata":{"finalizers":["example.com/kept"]}}'
        kubectl("patch", kind, "old", "--type=merge", "-p", finalizer).check()
        kubectl("delete", kind, "old", "--wait=false").check()
        kubectl("patch", kind, "old", "--type=merge", '-p={"metadata":{"finalizers":null}}').check()
    assert judge.running().metric("drawbridge_translations_total", operation="UPDATE") == 0


@scenario("full", rig="installed", needs=NEEDS)
def objects_in_the_order_of_helm_and_in_one_dry_run_are_accepted(stage: Stage) -> None:
    """A Deployment before its template is only warned about, also where both are one file."""
    _, _, kubectl = enter(stage)
    objects = (deployment(pod_of(stage, "web", "later"), 1), template("later", ENOUGH))
    dry = kubectl.apply(*objects, words=("--dry-run=server",)).check()
    assert any(each.startswith("ClaimNotFound: ") for each in dry.warnings), dry
    first = kubectl.apply(objects[0]).check()
    assert any(each.startswith("ClaimNotFound: ") for each in first.warnings), first
    second = kubectl.apply(objects[1]).check()
    assert second.warnings == [], second

    def runs() -> bool:
        pods = stage.client.get(stage.pod_path())["items"]
        return any(each.get("status", {}).get("phase") == "Running" for each in pods)

    stage.wait("the pod of the Deployment runs", runs)
    kubectl("delete", "deployment", "web", "--cascade=foreground").check()


@scenario("full", rig="installed", needs=NEEDS)
def a_pool_that_is_published_in_steps_refuses_nothing(stage: Stage) -> None:
    """Neither a pool that is half published nor a driver that restarts refuses a claim."""
    _, _, kubectl = enter(stage)
    name = stage.node_name("a")
    layout = stage.fleet.layout(GPU, name)
    big = claim("later", TOO_MUCH)

    def refused() -> bool:
        return bool(kubectl.apply(big, words=("--dry-run=server",)).code)

    stage.fleet.publish(layout, whole=False)
    stage.wait("a half published pool refuses nothing", lambda: not refused())
    kubectl.apply(claim("meanwhile", ENOUGH)).check()
    stage.fleet.publish(layout)
    wait_until_refused(stage, kubectl)
    # The driver withdraws its slices, as after an uninstallation, and publishes them again.
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    for item in stage.client.get(slices)["items"]:
        if item["spec"].get("nodeName") == name and item["spec"]["driver"] == GPU:
            stage.client.delete(f"{slices}/{item['metadata']['name']}")
    stage.wait("without devices nothing is refused", lambda: not refused())
    kubectl.apply(claim("restart", ENOUGH)).check()
    stage.fleet.publish(layout)
    kubectl.apply(claim("again", ENOUGH)).check()
    wait_until_refused(stage, kubectl)


@scenario("full", rig="installed", needs=NEEDS)
def an_autoscaler_keeps_the_fleet_open(stage: Stage) -> None:
    """Nodes of a cloud can become more, so the claim is only warned about by default."""
    cluster, _, kubectl = enter(stage)
    cluster.configure(CONFIGURATION)
    probe = claim("big", TOO_MUCH)
    stage.wait(
        "the fleet is open",
        lambda: not kubectl.apply(probe, words=("--dry-run=server",)).code,
    )
    ran = kubectl.apply(probe).check()
    # The warning is cut before its reason; the command in the last line prints all of it.
    assert any(each.startswith("DeviceNeverMatches") for each in ran.warnings), ran
    cluster.configure(CLOSED)
    probe = claim("more", TOO_MUCH)
    stage.wait(
        "the fleet is closed",
        lambda: kubectl.apply(probe, words=("--dry-run=server",)).code,
    )
    assert kubectl.apply(probe).code


@scenario("full", rig="installed", needs=NEEDS)
def a_configuration_that_a_driver_cannot_decode_is_refused_whatever_devices_exist(
    stage: Stage,
) -> None:
    """An error in the claim itself needs no device to be certain."""
    _, _, kubectl = enter(stage, devices=False)
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    good = claim_spec(request("gpu", GPU), config=[opaque(GPU, parameters)])
    wrong = claim_spec(request("gpu", GPU), config=[opaque(GPU, {**parameters, "shared": True})])
    kubectl.apply(claim("good", good)).check()
    ran = kubectl.apply(claim("wrong", wrong))
    assert "ConfigInvalid: spec.devices.config[0].opaque.parameters.shared" in ran.err, ran
    old = {**claim("old", wrong), "apiVersion": f"{API.partition('/')[0]}/v1beta1"}
    flat = {"name": "gpu", "deviceClassName": GPU}
    old["spec"] = {"devices": {**wrong["devices"], "requests": [flat]}}
    ran = kubectl.apply(old)
    # Not every control plane serves the older versions.
    assert "ConfigInvalid: " in ran.err or "no matches for kind" in ran.err, ran


@scenario("full", rig="installed", needs=NEEDS)
def a_judge_that_is_down_or_hangs_delays_nothing_beyond_its_timeout(stage: Stage) -> None:
    """The API server accepts objects at once without a judge, and after its timeout otherwise."""
    _, judge, kubectl = enter(stage)
    with suspended(judge.running().started_process()):
        started = time.monotonic()
        kubectl.apply(claim("hangs", TOO_MUCH)).check()
        assert time.monotonic() - started < SLOWEST
    wait_until_refused(stage, kubectl)
    judge.running().kill()
    kubectl.apply(claim("down", TOO_MUCH)).check()
    stage.pod("runs", claims={"gpu": "fits"})
    stage.claim("fits", ENOUGH)
    stage.wait_running("runs")


@scenario("full", rig="installed", since="1.36", needs=NEEDS)
def expensive_claims_of_a_tenant_do_not_turn_the_judge_off(stage: Stage) -> None:
    """Impossible claims of ten teams are all refused meanwhile, and the judge stays ready."""
    _, judge, _ = enter(stage)
    labels = {"drawbridge.dev/translate": "enforce"}
    others = [another_namespace(stage, f"other-{number}", labels) for number in range(TEAMS)]
    path = f"/apis/{API}/namespaces/{{}}/resourceclaims"
    sent: list[int] = []

    def refuse(other: str) -> None:
        why = "it was admitted"
        try:
            stage.client.create(path.format(other), claim("c", TOO_MUCH), dryRun="All")
        except ApiError as problem:
            why = str(problem)
        assert "DeviceNeverMatches" in why, why

    def refuse_all() -> None:
        with ThreadPoolExecutor(TEAMS) as pool:
            list(pool.map(refuse, others))
        assert judge.running().request("health", "/readyz").code == 200

    def attack(number: int) -> None:
        with ThreadPoolExecutor(ATTACKERS) as pool:
            for expensive in pool.map(
                expensive_claim, range(number * CLAIMS, (number + 1) * CLAIMS)
            ):
                sent.append(number)
                with contextlib.suppress(ApiError):
                    stage.client.create(path.format(stage.namespace), expensive, dryRun="All")

    check_not_delayed("the claims of other teams", refuse_all, attack)
    assert sent
