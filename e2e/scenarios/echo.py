"""Scenarios: the API server reaches a webhook through its Service."""

from e2e.controlplane.relay import Backend
from e2e.scenarios.objects import JSON
from e2e.scenarios.other_webhook import other_webhook
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

MARK = "rig.drawbridge.dev/echo"


def marking(pod: JSON) -> list[JSON]:
    """Mark a pod with what it is called."""
    annotations = {MARK: pod["metadata"]["name"]}
    return [{"op": "add", "path": "/metadata/annotations", "value": annotations}]


@scenario("smoke", needs=("loopback",))
def the_api_server_calls_a_webhook_through_its_service(stage: Stage) -> None:
    """It resolves svc.namespace.svc to the clusterIP and trusts the given caBundle."""
    nobody = Backend(port=1)  # connections go on to the next
    stage.enter(other_webhook(stage, "rig-echo", marking, before=(nobody,)))
    marked = stage.wait("the webhook is called", lambda: _asked(stage))
    assert marked == "asked"


def _asked(stage: Stage) -> str:
    """Ask for a pod without keeping it; empty while the webhook is not yet called."""
    body = stage.pod_object("asked")
    pod = stage.client.create(stage.pod_path(), body, dryRun="All")
    return str(pod["metadata"].get("annotations", {}).get(MARK, ""))
