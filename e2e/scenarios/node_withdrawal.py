"""A scenario on real nodes: Drawbridge is removed as docs/installing.md says."""

from e2e.controlplane.client import ApiError
from e2e.installed.installation import NAMESPACE
from e2e.realnodes.installation import forget_installation, installed_as_pods
from e2e.realnodes.stage import real
from e2e.scenarios.node_devices import GPUS, LEGACY
from e2e.scenarios.node_translated import DECIDED_SECONDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage


@scenario("node", rig="nodes")
def running_pods_keep_their_devices_when_drawbridge_is_removed(stage: Stage) -> None:
    """The commands of the page succeed, nothing in the cluster stays, and new pods are left."""
    nodes = real(stage)
    cluster = installed_as_pods(nodes)
    nodes.node("a", "lab-2g2n", {GPUS: "full"})
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    nodes.pod("before", limits={LEGACY: "1"})
    running = nodes.wait_running("before")
    assert len(nodes.printed("before").variables) == 1
    cluster.run_section("Roll back")
    forget_installation(nodes)
    nodes.wait(
        "the namespace is gone", lambda: not nodes.exists(f"/api/v1/namespaces/{NAMESPACE}"), 60
    )
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/drawbridge"
        assert not nodes.exists(path), path
    assert nodes.get_pod("before")["metadata"]["uid"] == running["metadata"]["uid"]
    assert len(nodes.fleet.held_by(running)) == 1
    try:
        after = nodes.pod("after", limits={LEGACY: "1"})
    except ApiError as problem:
        raise AssertionError(f"admission still depends on Drawbridge: {problem}") from problem
    assert after["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
