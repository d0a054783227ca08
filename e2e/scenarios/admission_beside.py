"""Scenarios: admission with other webhooks, claims, LimitRanges, and pods out of scope."""

import contextlib
import json
import re

import jsonpatch

from e2e.installed.installation import (
    MODE,
    dry_run,
    installed,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import (
    GPU,
    LEGACY,
    NEEDS,
    ORIGINAL,
    add_gpu_node,
    legacy_pod,
    prepare_pod,
)
from e2e.scenarios.admission_dual import left_alone
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.other_webhook import CONFIGURATIONS, configuration, other_webhook
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

OFF = {MODE: "off"}
# Runs after Drawbridge: the API server sorts webhooks by the names of their configurations.
AFTER = "zz-sidecars"
BOTH = [
    {"claims": [{"name": "drawbridge", "request": "gpu"}]},
    {"claims": [{"name": "drawbridge-2", "request": "gpu"}]},
]


def claims_of(stage: Stage, name: str) -> dict[str, str]:
    """Map the names that a running pod has for its claims to the claims."""
    statuses = stage.get_pod(name)["status"].get("resourceClaimStatuses", ())
    return {each["name"]: each["resourceClaimName"] for each in statuses}


def held(stage: Stage, claims: dict[str, str]) -> list[str]:
    """List what these claims were allocated, as driver/pool/device."""
    results = [each for name in claims.values() for each in stage.allocated(name)]
    return sorted(f"{each['driver']}/{each['pool']}/{each['device']}" for each in results)


def adding(container: JSON) -> list[JSON]:
    """Add a container at the end."""
    return [{"op": "add", "path": "/spec/containers/-", "value": container}]


def in_front(container: JSON) -> list[JSON]:
    """Add a container before all others, as meshes do that must start first."""
    return [{"op": "add", "path": "/spec/containers/0", "value": container}]


def taken_back(pod: JSON) -> JSON:
    """Go the way back that a pod says, as a tool would that knows nothing of us."""
    patch = jsonpatch.JsonPatch.from_string(pod["metadata"]["annotations"][ORIGINAL])
    restored: JSON = patch.apply(pod)
    return restored


def essence(pod: JSON) -> JSON:
    """Return what a pod asks for, without what is chosen anew for every pod."""
    whole = {"spec": pod["spec"], "annotations": pod["metadata"].get("annotations", {})}
    read: JSON = json.loads(re.sub(r"kube-api-access-\w{5}", "token", json.dumps(whole)))
    return read


def differently(stage: Stage, body: JSON) -> JSON:
    """Return what the API server would make of a pod if it were not for us."""
    metadata = body["metadata"]
    changed = {"name": "untouched", "labels": {**metadata["labels"], **OFF}}
    return dry_run(stage, {**body, "metadata": {**metadata, **changed}})


@scenario("smoke", rig="installed", needs=NEEDS)
def a_container_added_by_another_webhook_is_translated(stage: Stage) -> None:
    """The API server reinvokes the webhook. The undo patch covers both containers."""
    cluster, _, body = prepare_pod(stage)
    added = {"name": "added", "image": "none", "resources": {"limits": {LEGACY: "1"}}}
    with other_webhook(stage, AFTER, lambda _: adding(added)):
        stage.wait(
            "the webhook is called", lambda: len(dry_run(stage, body)["spec"]["containers"]) == 2
        )
        ran = cluster.kubectl.inside(stage.namespace).apply(body).check()
        wanted = essence(differently(stage, body))
    for name in ("main", "added"):
        assert any(f"{LEGACY}: 1 of container {name} ->" in each for each in ran.warnings), ran
    pod = stage.wait_running("train")
    assert [each["resources"] for each in pod["spec"]["containers"]] == BOTH
    claims = claims_of(stage, "train")
    assert sorted(claims) == ["drawbridge", "drawbridge-2"]
    assert len(set(held(stage, claims))) == 2
    assert held(stage, claims) == stage.fleet.held_by(pod)
    # Both containers request the same, so both claims have one template.
    assert len(template_names(stage)) == 1
    back = taken_back(asked_like(pod))
    assert essence(back)["spec"] == wanted["spec"]
    assert ORIGINAL not in back["metadata"].get("annotations", {})
    told = cluster.drawbridge("explain", "train", "-n", stage.namespace).check().out
    assert all(claim in told for claim in claims.values()), told


def asked_like(pod: JSON) -> JSON:
    """Return a pod as it was admitted, before the scheduler chose a node."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {**pod, "spec": spec}


@scenario("full", rig="installed", needs=NEEDS)
def a_request_that_another_webhook_puts_back_is_removed_again(stage: Stage) -> None:
    """HAMi's webhook adds a count to a container. The pod has one claim with one device."""
    cluster, _, body = prepare_pod(stage)
    put_back: list[str] = []

    def put_request_back(pod: JSON) -> list[JSON]:
        resources = pod["spec"]["containers"][0]["resources"]
        if "claims" not in resources:
            return []
        put_back.append(pod["metadata"]["name"])
        path = "/spec/containers/0/resources"
        return [
            {"op": "add", "path": f"{path}/{part}", "value": {LEGACY: "1"}}
            for part in ("limits", "requests")
        ]

    with other_webhook(stage, AFTER, put_request_back):
        stage.wait("the webhook is called", lambda: dry_run(stage, body) and put_back)
        cluster.kubectl.inside(stage.namespace).apply(body).check()
    pod = stage.wait_running("train")
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["claims"] == BOTH[0]["claims"], resources
    assert LEGACY not in json.dumps(resources), resources
    claims = claims_of(stage, "train")
    assert list(claims) == ["drawbridge"]
    assert len(held(stage, claims)) == 1
    assert held(stage, claims) == stage.fleet.held_by(pod)


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_that_another_webhook_strips_of_its_claims_is_denied(stage: Stage) -> None:
    """As a webhook does whose types of a pod are older than claims."""
    _, kubectl, body = prepare_pod(stage)
    paths = ("/spec/resourceClaims", "/spec/containers/0/resources/claims")

    def strip(pod: JSON) -> list[JSON]:
        claims = pod["spec"].get("resourceClaims", ())
        return [{"op": "remove", "path": path} for path in paths if claims]

    with other_webhook(stage, AFTER, strip):
        told = stage.wait("it is refused", lambda: refused(kubectl, body))
        assert kubectl.apply(body).code == 1
    assert "TranslationChanged: " in told, told
    assert "no container has a claim or requests devices" in told, told
    kubectl.apply(body).check()
    stage.wait_running("train")


@scenario("full", rig="installed", needs=NEEDS)
def a_sidecar_added_by_another_webhook_is_kept(stage: Stage) -> None:
    """It requests no device, so the reinvoked webhook changes nothing."""
    cluster, _, body = prepare_pod(stage)
    with other_webhook(stage, AFTER, lambda _: adding({"name": "proxy", "image": "none"})):
        stage.wait(
            "the webhook is called", lambda: len(dry_run(stage, body)["spec"]["containers"]) == 2
        )
        ran = cluster.kubectl.inside(stage.namespace).apply(body).check()
        wanted = essence(differently(stage, body))
    assert len([each for each in ran.warnings if each.startswith("translated:")]) == 1, ran
    pod = stage.wait_running("train")
    assert [each["resources"] for each in pod["spec"]["containers"]] == [BOTH[0], {}]
    assert list(claims_of(stage, "train")) == ["drawbridge"]
    assert essence(taken_back(asked_like(pod)))["spec"] == wanted["spec"]


@scenario("full", rig="installed", needs=NEEDS)
def undo_works_after_a_sidecar_is_inserted_first(stage: Stage) -> None:
    """All list indexes shift. The manifest applies again and the undo patch still fits."""
    cluster, kubectl, body = prepare_pod(stage)
    with other_webhook(stage, AFTER, lambda _: in_front({"name": "proxy", "image": "none"})):
        stage.wait(
            "the webhook is called", lambda: len(dry_run(stage, body)["spec"]["containers"]) == 2
        )
        kubectl.apply(body).check()
    before = stage.wait_running("train")
    assert [each["name"] for each in before["spec"]["containers"]] == ["proxy", "main"]
    assert [each["resources"] for each in before["spec"]["containers"]] == [{}, BOTH[0]]
    assert held(stage, claims_of(stage, "train")) == stage.fleet.held_by(before)
    different = kubectl("diff", "-f", "-", stdin=body)
    assert (different.code, different.out) == (0, ""), different
    kubectl.apply(body).check()
    after = stage.get_pod("train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    ran = kubectl.apply(legacy_pod(stage, "train", 2))
    assert ran.code == 1, ran
    assert "DevicesFixed" in ran.err, ran
    # Undo finds moved containers by name.
    words = ("explain", "train", "-n", stage.namespace, "-o", "json")
    told = json.loads(cluster.drawbridge(*words).check().out)
    wanted = {"container": "main", "resource": LEGACY, "amount": "1"}
    assert (told["asked"], told["findings"]) == ([wanted], []), told
    with contextlib.suppress(jsonpatch.JsonPatchTestFailed):
        raise AssertionError(f"another container was changed: {taken_back(asked_like(after))}")


@scenario("full", rig="installed", needs=NEEDS)
def a_sidecar_added_by_an_earlier_webhook_is_translated(stage: Stage) -> None:
    """The sidecar requests a device. One call translates the whole pod."""
    cluster, _, body = prepare_pod(stage)
    added = {"name": "added", "image": "none", "resources": {"limits": {LEGACY: "1"}}}
    with other_webhook(stage, "aa-sidecars", lambda _: adding(added)):
        stage.wait(
            "the webhook is called", lambda: len(dry_run(stage, body)["spec"]["containers"]) == 2
        )
        cluster.kubectl.inside(stage.namespace).apply(body).check()
    pod = stage.wait_running("train")
    assert list(claims_of(stage, "train")) == ["drawbridge"]
    requests = [each["resources"]["claims"] for each in pod["spec"]["containers"]]
    assert len({each["request"] for entries in requests for each in entries}) == 2, requests
    assert len(set(held(stage, claims_of(stage, "train")))) == 2


@scenario("full", rig="installed", needs=NEEDS)
def a_user_s_own_claims_are_kept_beside_generated_claims(stage: Stage) -> None:
    """A pod with a claim, a claim template and a legacy resource gets all three devices."""
    cluster = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.claim("mine", claim_spec(request("gpu", GPU)))
    stage.template("each", claim_spec(request("gpu", GPU, count=2)))
    body = stage.pod_object(
        "train", claims={"shared": "mine"}, templates={"own": "each"}, limits={LEGACY: "1"}
    )
    wait_for_facts(stage, cluster, body)
    cluster.kubectl.inside(stage.namespace).apply(body).check()
    pod = stage.wait_running("train")
    theirs = body["spec"]["resourceClaims"]
    assert pod["spec"]["resourceClaims"][:2] == theirs
    assert [each["name"] for each in pod["spec"]["resourceClaims"][2:]] == ["drawbridge"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["claims"] == [
        {"name": "shared"},
        {"name": "own"},
        {"name": "drawbridge", "request": "gpu"},
    ]
    claims = {**claims_of(stage, "train"), "shared": "mine"}
    assert sorted(claims) == ["drawbridge", "own", "shared"]
    assert len(set(held(stage, claims))) == 4
    assert held(stage, claims) == stage.fleet.held_by(pod)
    back = taken_back(asked_like(pod))["spec"]
    assert back["resourceClaims"] == theirs
    assert back["containers"][0]["resources"] == {
        **body["spec"]["containers"][0]["resources"],
        "requests": {LEGACY: "1"},
    }


def limited(stage: Stage, path: str, **limit: JSON) -> None:
    """Add a LimitRange for containers to the namespace at a path."""
    spec = {"limits": [{"type": "Container", **limit}]}
    stage.client.create(f"{path}/limitranges", {"metadata": {"name": "gpus"}, "spec": spec})


def refused(kubectl: Kubectl, body: JSON) -> str:
    """Return why the API server refuses a pod, or an empty text."""
    ran = kubectl.apply(body, words=("--dry-run=server",))
    return ran.err if ran.code else ""


def sized(stage: Stage, part: str, count: int) -> JSON:
    """Return a pod of which one container requests some GPUs, and the others none."""
    body = legacy_pod(stage, f"{part}-{count}", 0)
    if part == "main":
        return legacy_pod(stage, f"{part}-{count}", count)
    resources = {"limits": {LEGACY: f"{count}"}}
    first = {"name": part, "image": "example.com/none", "resources": resources}
    policy = {"restartPolicy": "Always"} if part == "sidecar" else {}
    return {**body, "spec": {**body["spec"], "initContainers": [{**first, **policy}]}}


@scenario("full", rig="installed", needs=NEEDS)
def a_limit_range_on_the_legacy_name_is_enforced(stage: Stage) -> None:
    """The webhook rejects what the LimitRange forbids and translates its defaults.

    Where Drawbridge is not used, the API server rejects the same containers.
    """
    cluster, kubectl, _ = prepare_pod(stage)
    limits = {"max": {LEGACY: "1"}, "default": {LEGACY: "1"}}
    limited(stage, f"/api/v1/namespaces/{stage.namespace}", **limits)
    large = legacy_pod(stage, "large", 2)
    told = stage.wait("it is refused", lambda: refused(kubectl, large))
    assert "LimitRange gpus" in told, told
    assert f"at most 1 {LEGACY} per Container" in told, told
    assert kubectl.apply(large).code == 1
    with left_alone(stage) as pods:
        space = pods.removesuffix("/pods")
        limited(stage, space, **limits)
        theirs = cluster.kubectl.inside(space.rpartition("/")[2])
        stage.wait("the API server knows it", lambda: refused(theirs, large))
        for part in ("main", "init", "sidecar"):
            said = refused(theirs, sized(stage, part, 2))
            assert f"maximum {LEGACY} usage per Container is 1" in said, said
            assert f"container {part} has limit 2" in refused(kubectl, sized(stage, part, 2))
            small = sized(stage, part, 1)
            assert (refused(theirs, small), refused(kubectl, small)) == ("", ""), part
    kubectl.apply(legacy_pod(stage, "train")).check()
    pod = stage.wait_running("train")
    resources = pod["spec"]["containers"][0]["resources"]
    # The LimitRange adds its default if the name is missing; zero stays zero.
    assert {resources[part][LEGACY] for part in ("limits", "requests")} == {"0"}
    assert len(held(stage, claims_of(stage, "train"))) == 1
    kubectl.apply(legacy_pod(stage, "train")).check()
    assert stage.get_pod("train")["spec"] == pod["spec"]
    # A pod without a request gets the default, which is translated.
    ran = kubectl.apply(stage.pod_object("plain")).check()
    assert any(f"{LEGACY}: 1 of container main ->" in each for each in ran.warnings), ran
    stage.wait_running("plain")
    assert len(held(stage, claims_of(stage, "plain"))) == 1


@scenario("full", rig="installed", needs=NEEDS)
def other_webhooks_for_the_same_pods_are_named_in_a_warning(stage: Stage) -> None:
    """A warning names HAMi's webhook, which has no endpoint, and the order of the two."""
    cluster, kubectl, body = prepare_pod(stage)
    for name in ("hami-webhook", "cluster-hami-webhook"):
        theirs = configuration(stage, name, policy="Ignore", hook="vgpu.hami.io")
        stage.cluster_object(CONFIGURATIONS, theirs)

    def told() -> list[str]:
        lines = kubectl.apply(body, words=("--dry-run=server",)).check().warnings
        return [each for each in lines if "HAMi" in each]

    lines = stage.wait("both are named", lambda: messages if len(messages := told()) == 2 else [])
    assert "of cluster-hami-webhook runs before Drawbridge" in lines[0], lines
    assert "of hami-webhook runs after Drawbridge" in lines[1], lines
    kubectl.apply(body).check()
    stage.wait_running("train")

    def logged() -> bool:
        said = [line["finding"]["message"] for line in cluster.leader.lines() if "finding" in line]
        return any("vgpu.hami.io of hami-webhook" in each for each in said)

    stage.wait("the leader's log names it", logged)


@scenario("full", rig="installed", needs=NEEDS)
def pods_that_bypass_the_scheduler_stay_unchanged(stage: Stage) -> None:
    """Pods with a node name and mirror pods get a warning and stay unchanged."""
    cluster = installed(stage)
    add_gpu_node(stage)
    units = tuple(gpu.uuid for gpu in stage.hardware("b", "lab-2g2n").gpus)
    machine = stage.node("b", "lab-2g2n", plugins={LEGACY: units})
    wait_for_facts(stage, cluster, legacy_pod(stage, "train"))
    kubectl = cluster.kubectl.inside(stage.namespace)
    bound = legacy_pod(stage, "bound")
    bound["spec"]["nodeName"] = machine.name
    mirror = legacy_pod(stage, "mirror", annotations={"kubernetes.io/config.mirror": "0"})
    mirror["spec"]["nodeName"] = machine.name
    for body, why in ((bound, "is already assigned to node"), (mirror, "mirror")):
        ran = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=body).check()
        pod = json.loads(ran.out)
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}, pod
        assert ORIGINAL not in pod["metadata"].get("annotations", {})
        assert any(why in each for each in ran.warnings), ran
    kubectl.apply(bound).check()
    # Its device plugin serves it as before.
    stage.wait_running("bound")
    assert template_names(stage) == []


@scenario("full", rig="installed", needs=NEEDS)
def pods_in_kube_system_are_never_translated(stage: Stage) -> None:
    """With the label too. Its pods can be created while no webhook runs."""
    cluster = installed(stage, mode="")
    body = legacy_pod(stage, "train")
    system = "/api/v1/namespaces/kube-system"
    for replica in cluster.webhooks:
        replica.stop()
    try:
        stage.client.patch(system, {"metadata": {"labels": {MODE: "enforce"}}})
        set_mode(stage, "enforce")
        kubectl = cluster.kubectl.inside(stage.namespace)
        # The watch delivers it after the other label, which is therefore known, too.
        stage.wait("an opted-in namespace depends on the webhook", lambda: kubectl.apply(body).code)
        ran = cluster.kubectl.inside("kube-system").apply(body, words=("--dry-run=server",)).check()
        pod = stage.client.create(f"{system}/pods", body, dryRun="All")
    finally:
        stage.client.patch(system, {"metadata": {"labels": {MODE: None}}})
        cluster.start_all()
    assert ran.err == "", ran
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
