"""Scenarios: an API server starts to drop a field at run time."""

from e2e.installed.installation import installed, template_names
from e2e.installed.kubectl import Kubectl
from e2e.scenarios.admission import LEGACY, NEEDS, claim_of
from e2e.scenarios.admission_original import template_path, wait_for_event
from e2e.scenarios.admission_templates import HAMI, controller_manager_stopped, wait_for_share_facts
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

GATE = "DRAConsumableCapacity"
# The controller probes the API server every 30 seconds.
KNOWN_SECONDS = 60.0
RIGS["capacity turned off"] = default_options


def share(stage: Stage, name: str, amount: int) -> JSON:
    """Return a pod that requests `amount` MiB of a GPU from HAMi."""
    return stage.pod_object(name, limits={LEGACY: "1", "nvidia.com/gpumem": f"{amount}"})


@scenario("full", rig="capacity turned off", since="1.36", needs=NEEDS)
def a_gate_turned_off_at_run_time_is_detected(stage: Stage) -> None:
    """The webhook reads templates back after a write. Within a minute all replicas know."""
    cluster = installed(stage)
    stage.node("a", "lab-2g2n", {HAMI: None})
    kubectl = cluster.kubectl.inside(stage.namespace)
    wait_for_share_facts(stage, cluster, share(stage, "early", 4000))
    kubectl.apply(share(stage, "early", 4000)).check()
    stage.wait_running("early")
    with controller_manager_stopped(stage):
        kubectl.apply(share(stage, "waits", 5000)).check()
        (entry,) = stage.get_pod("waits")["spec"]["resourceClaims"]
        name = entry["resourceClaimTemplateName"]
        stage.processes.turn_off(GATE)
        cluster.start_all()
        cluster.ignore_denials()
        for words in (("--dry-run=server",), ()):
            ran = kubectl.apply(share(stage, "late", 6000), words=words)
            assert ran.code == 1, ran
            assert "exactly.capacity" in ran.err, ran
        stage.client.delete(template_path(stage, name))
        told = wait_for_event(stage, "waits", "ClaimFieldDropped")
        assert "exactly.capacity" in told, told
        assert name not in template_names(stage)
        message = f"this API server ({stage.version}) drops exactly.capacity from claims"
        same = share(stage, "same", 4000)
        reason = stage.wait("all replicas know", lambda: refusal(kubectl, same), KNOWN_SECONDS)
        assert message in reason, reason
    # An allocated share stays a share.
    (held,) = stage.allocated(claim_of(stage, "early")[1])
    assert held["consumedCapacity"]["memory"] == "4000Mi", held
    assert not stage.exists(stage.pod_path("same"))


def refusal(kubectl: Kubectl, body: JSON) -> str:
    """Apply a pod as a dry run and return why it is denied; empty if it is admitted."""
    ran = kubectl.apply(body, words=("--dry-run=server",))
    return ran.err if ran.code else ""
