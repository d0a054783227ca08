"""An API server that begins to drop a field while everything runs: nobody gets more instead."""

from dataclasses import replace

from e2e.installed.installation import installed, template_names
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import LEGACY, NEEDS, claim_of
from e2e.scenarios.admission_original import template_path, warned
from e2e.scenarios.admission_templates import HAMI, nobody_generates, shared
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, scenario, stock
from e2e.scenarios.stage import Stage

GATE = "DRAConsumableCapacity"
# The server is asked what it keeps every half minute.
KNOWN_SECONDS = 60.0
RIGS["capacity turned off"] = stock


def share(stage: Stage, name: str, amount: int) -> JSON:
    """Give a pod that asks HAMi for so many MiB of a GPU."""
    return stage.pod_object(name, limits={LEGACY: "1", "nvidia.com/gpumem": f"{amount}"})


def turn_off(stage: Stage) -> None:
    """Let the API server come back without the feature."""
    plane = stage.processes
    plane.options = replace(plane.options, gates={**plane.options.gates, GATE: False})
    plane.processes["kube-apiserver"].stop()
    plane.start_apiserver()


@scenario("full", rig="capacity turned off", since="1.36", needs=NEEDS)
def amounts_that_are_dropped_from_now_on_are_noticed(stage: Stage) -> None:
    """What is written is read back at once, and within a minute everybody knows."""
    town = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = town.kubectl.inside(stage.namespace)
    shared(stage, town, share(stage, "early", 4000))
    kubectl.apply(share(stage, "early", 4000)).done()
    stage.running("early")
    with nobody_generates(stage):
        kubectl.apply(share(stage, "waits", 5000)).done()
        (entry,) = stage.get_pod("waits")["spec"]["resourceClaims"]
        name = entry["resourceClaimTemplateName"]
        turn_off(stage)
        town.heal()
        town.excuse()
        for words in (("--dry-run=server",), ()):
            ran = kubectl.apply(share(stage, "late", 6000), words=words)
            assert ran.code == 1, ran
            assert "exactly.capacity" in ran.err, ran
        stage.client.delete(template_path(stage, name))
        told = warned(stage, "waits", "ClaimFieldDropped")
        assert "exactly.capacity" in told, told
        assert name not in template_names(stage)
        known = f"this API server ({stage.version}) drops exactly.capacity from claims"
        same = share(stage, "same", 4000)
        reason = stage.wait("everybody knows", lambda: refusal(kubectl, same), KNOWN_SECONDS)
        assert known in reason, reason
    # A share that is held stays a share.
    (held,) = stage.allocated(claim_of(stage, "early")[1])
    assert held["consumedCapacity"]["memory"] == "4000Mi", held
    assert not stage.exists(stage.pod_path("same"))


def refusal(kubectl: Kubectl, body: JSON) -> str:
    """Try a pod, and give the reason why it is refused; empty while it is not."""
    ran = kubectl.apply(body, words=("--dry-run=server",))
    return ran.err if ran.code else ""
