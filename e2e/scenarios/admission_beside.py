"""Admission among others: their webhooks, claims and limits, and pods that are not ours."""

import contextlib
import json
import re

import jsonpatch

from e2e.installed.installation import MODE, asked, in_step, installed, opt_in, template_names
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, ORIGINAL, gpus, legacy
from e2e.scenarios.neighbour import CONFIGURATIONS, configuration, neighbour
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

OFF = {MODE: "off"}
# After ours: the API server calls webhooks by the names of their configurations.
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
    """Give what a pod asks for, without what is chosen anew for every pod."""
    whole = {"spec": pod["spec"], "annotations": pod["metadata"].get("annotations", {})}
    read: JSON = json.loads(re.sub(r"kube-api-access-\w{5}", "token", json.dumps(whole)))
    return read


def differently(stage: Stage, body: JSON) -> JSON:
    """Give what the API server would make of a pod if it were not for us."""
    metadata = body["metadata"]
    changed = {"name": "untouched", "labels": {**metadata["labels"], **OFF}}
    return asked(stage, {**body, "metadata": {**metadata, **changed}})


@scenario("smoke", rig="installed", needs=NEEDS)
def a_container_that_another_webhook_adds_is_translated_too(stage: Stage) -> None:
    """Called again after it, we give the new container a claim; the way back restores both."""
    town = installed(stage)
    gpus(stage)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    added = {"name": "added", "image": "none", "resources": {"limits": {LEGACY: "1"}}}
    with neighbour(stage, AFTER, lambda _: adding(added)):
        stage.wait("it is called", lambda: len(asked(stage, body)["spec"]["containers"]) == 2)
        ran = town.kubectl.inside(stage.namespace).apply(body).done()
        wanted = essence(differently(stage, body))
    for name in ("main", "added"):
        assert any(f"{LEGACY}: 1 of container {name} ->" in each for each in ran.warnings), ran
    pod = stage.running("train")
    assert [each["resources"] for each in pod["spec"]["containers"]] == BOTH
    claims = claims_of(stage, "train")
    assert sorted(claims) == ["drawbridge", "drawbridge-2"]
    assert len(set(held(stage, claims))) == 2
    assert held(stage, claims) == stage.fleet.held_by(pod)
    # Both containers ask the same, so both claims are of one template.
    assert len(template_names(stage)) == 1
    back = taken_back(asked_like(pod))
    assert essence(back)["spec"] == wanted["spec"]
    assert ORIGINAL not in back["metadata"].get("annotations", {})
    told = town.drawbridge("explain", "train", "-n", stage.namespace).done().out
    assert all(claim in told for claim in claims.values()), told


def asked_like(pod: JSON) -> JSON:
    """Give a pod as it was admitted, before the scheduler chose a node."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {**pod, "spec": spec}


@scenario("full", rig="installed", needs=NEEDS)
def a_sidecar_that_another_webhook_adds_is_kept(stage: Stage) -> None:
    """It asks for nothing and gets nothing; called again, we change nothing."""
    town = installed(stage)
    gpus(stage)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with neighbour(stage, AFTER, lambda _: adding({"name": "proxy", "image": "none"})):
        stage.wait("it is called", lambda: len(asked(stage, body)["spec"]["containers"]) == 2)
        ran = town.kubectl.inside(stage.namespace).apply(body).done()
        wanted = essence(differently(stage, body))
    assert len([each for each in ran.warnings if each.startswith("translated:")]) == 1, ran
    pod = stage.running("train")
    assert [each["resources"] for each in pod["spec"]["containers"]] == [BOTH[0], {}]
    assert list(claims_of(stage, "train")) == ["drawbridge"]
    assert essence(taken_back(asked_like(pod)))["spec"] == wanted["spec"]


@scenario("full", rig="installed", needs=NEEDS)
def a_sidecar_that_comes_in_front_moves_nothing(stage: Stage) -> None:
    """Every place that we noted is another now; the manifest applies again, the way back holds."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    with neighbour(stage, AFTER, lambda _: in_front({"name": "proxy", "image": "none"})):
        stage.wait("it is called", lambda: len(asked(stage, body)["spec"]["containers"]) == 2)
        kubectl.apply(body).done()
    before = stage.running("train")
    assert [each["name"] for each in before["spec"]["containers"]] == ["proxy", "main"]
    assert [each["resources"] for each in before["spec"]["containers"]] == [{}, BOTH[0]]
    assert held(stage, claims_of(stage, "train")) == stage.fleet.held_by(before)
    different = kubectl("diff", "-f", "-", given=body)
    assert (different.code, different.out) == (0, ""), different
    kubectl.apply(body).done()
    after = stage.get_pod("train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    ran = kubectl.apply(legacy(stage, "train", 2))
    assert ran.code == 1, ran
    assert "DevicesFixed" in ran.err, ran
    # The way back finds what has moved by its name; who goes by numbers alone harms nobody.
    words = ("explain", "train", "-n", stage.namespace, "-o", "json")
    told = json.loads(town.drawbridge(*words).done().out)
    wanted = {"container": "main", "resource": LEGACY, "amount": "1"}
    assert (told["asked"], told["findings"]) == ([wanted], []), told
    with contextlib.suppress(jsonpatch.JsonPatchTestFailed):
        raise AssertionError(f"another container was changed: {taken_back(asked_like(after))}")


@scenario("full", rig="installed", needs=NEEDS)
def what_another_webhook_adds_before_us_is_part_of_the_pod(stage: Stage) -> None:
    """A sidecar that asks for a device comes first: one call of ours translates all of it."""
    town = installed(stage)
    gpus(stage)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    added = {"name": "added", "image": "none", "resources": {"limits": {LEGACY: "1"}}}
    with neighbour(stage, "aa-sidecars", lambda _: adding(added)):
        stage.wait("it is called", lambda: len(asked(stage, body)["spec"]["containers"]) == 2)
        town.kubectl.inside(stage.namespace).apply(body).done()
    pod = stage.running("train")
    assert list(claims_of(stage, "train")) == ["drawbridge"]
    requests = [each["resources"]["claims"] for each in pod["spec"]["containers"]]
    assert len({each["request"] for entries in requests for each in entries}) == 2, requests
    assert len(set(held(stage, claims_of(stage, "train")))) == 2


@scenario("full", rig="installed", needs=NEEDS)
def claims_of_the_user_stand_beside_ours(stage: Stage) -> None:
    """A pod with a claim and a template of its own, and a legacy resource, is given all three."""
    town = installed(stage)
    stage.node("a", "dgx-a100", {GPU: "full"})
    stage.claim("mine", claim_spec(request("gpu", GPU)))
    stage.template("each", claim_spec(request("gpu", GPU, count=2)))
    body = stage.pod_object(
        "train", claims={"shared": "mine"}, templates={"own": "each"}, limits={LEGACY: "1"}
    )
    in_step(stage, town, body)
    town.kubectl.inside(stage.namespace).apply(body).done()
    pod = stage.running("train")
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


def limited(stage: Stage, **limit: JSON) -> None:
    """Add a LimitRange for containers."""
    spec = {"limits": [{"type": "Container", **limit}]}
    stage.client.create(stage.path("limitranges"), {"metadata": {"name": "gpus"}, "spec": spec})


@scenario("full", rig="installed", needs=NEEDS)
def a_limit_range_on_the_legacy_name_is_kept(stage: Stage) -> None:
    """It sees no legacy name any more; what it forbids is refused, what it gives is translated."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    in_step(stage, town, legacy(stage, "train"))
    limited(stage, max={LEGACY: "1"}, default={LEGACY: "1"})
    large = legacy(stage, "large", 2)

    def refused() -> str:
        ran = kubectl.apply(large, words=("--dry-run=server",))
        return ran.err if ran.code else ""

    told = stage.wait("it is refused", refused)
    assert "LimitRange gpus" in told, told
    assert f"at most 1 {LEGACY} per Container" in told, told
    assert kubectl.apply(large).code == 1
    kubectl.apply(legacy(stage, "train")).done()
    pod = stage.running("train")
    resources = pod["spec"]["containers"][0]["resources"]
    # The LimitRange fills in its default where the name is missing; an amount of none stays none.
    assert {resources[part][LEGACY] for part in ("limits", "requests")} == {"0"}
    assert len(held(stage, claims_of(stage, "train"))) == 1
    kubectl.apply(legacy(stage, "train")).done()
    assert stage.get_pod("train")["spec"] == pod["spec"]
    # Who asks for nothing has its default, and that is translated as well.
    ran = kubectl.apply(stage.pod_object("plain")).done()
    assert any(f"{LEGACY}: 1 of container main ->" in each for each in ran.warnings), ran
    stage.running("plain")
    assert len(held(stage, claims_of(stage, "plain"))) == 1


@scenario("full", rig="installed", needs=NEEDS)
def webhooks_that_meet_the_same_pods_are_named(stage: Stage) -> None:
    """HAMi's, which nobody answers for, is named to whoever creates a pod, with the order."""
    town = installed(stage)
    gpus(stage)
    kubectl = town.kubectl.inside(stage.namespace)
    body = legacy(stage, "train")
    in_step(stage, town, body)
    for name in ("hami-webhook", "cluster-hami-webhook"):
        theirs = configuration(stage, name, policy="Ignore", hook="vgpu.hami.io")
        stage.cluster_object(CONFIGURATIONS, theirs)

    def told() -> list[str]:
        lines = kubectl.apply(body, words=("--dry-run=server",)).done().warnings
        return [each for each in lines if "HAMi" in each]

    lines = stage.wait("both are named", lambda: found if len(found := told()) == 2 else [])
    assert "of cluster-hami-webhook runs before Drawbridge" in lines[0], lines
    assert "of hami-webhook runs after Drawbridge" in lines[1], lines
    kubectl.apply(body).done()
    stage.running("train")

    def logged() -> bool:
        said = [line["finding"]["message"] for line in town.leader.lines() if "finding" in line]
        return any("vgpu.hami.io of hami-webhook" in each for each in said)

    stage.wait("the leader's log names it", logged)


@scenario("full", rig="installed", needs=NEEDS)
def pods_that_no_scheduler_looks_at_stay_as_they_are(stage: Stage) -> None:
    """Who names a node is bound, a mirror is the kubelet's: both are told, and left alone."""
    town = installed(stage)
    gpus(stage)
    units = tuple(gpu.uuid for gpu in stage.hardware("b", "lab-2g2n").gpus)
    machine = stage.node("b", "lab-2g2n", plugins={LEGACY: units})
    in_step(stage, town, legacy(stage, "train"))
    kubectl = town.kubectl.inside(stage.namespace)
    bound = legacy(stage, "bound")
    bound["spec"]["nodeName"] = machine.name
    mirror = legacy(stage, "mirror", annotations={"kubernetes.io/config.mirror": "0"})
    mirror["spec"]["nodeName"] = machine.name
    for body, why in ((bound, "is already assigned to node"), (mirror, "mirror")):
        ran = kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=body).done()
        pod = json.loads(ran.out)
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}, pod
        assert ORIGINAL not in pod["metadata"].get("annotations", {})
        assert any(why in each for each in ran.warnings), ran
    kubectl.apply(bound).done()
    # Its device plugin serves it as ever.
    stage.running("bound")
    assert template_names(stage) == []


@scenario("full", rig="installed", needs=NEEDS)
def kube_system_is_never_touched(stage: Stage) -> None:
    """Not even labelled: its pods can be made while nobody of us runs."""
    town = installed(stage, mode="")
    body = legacy(stage, "train")
    system = "/api/v1/namespaces/kube-system"
    for replica in town.webhooks:
        replica.stop()
    try:
        stage.client.patch(system, {"metadata": {"labels": {MODE: "enforce"}}})
        opt_in(stage, "enforce")
        kubectl = town.kubectl.inside(stage.namespace)
        # Seen after the other label, so that one is known by now as well.
        stage.wait("an opted-in namespace depends on us", lambda: kubectl.apply(body).code)
        ran = town.kubectl.inside("kube-system").apply(body, words=("--dry-run=server",)).done()
        pod = stage.client.create(f"{system}/pods", body, dryRun="All")
    finally:
        stage.client.patch(system, {"metadata": {"labels": {MODE: None}}})
        town.heal()
    assert ran.err == "", ran
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
