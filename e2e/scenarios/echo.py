"""An admission webhook that says what it was asked, reached as in a cluster by its Service."""

from e2e.controlplane.relay import Backend
from e2e.scenarios.neighbour import neighbour
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

MARK = "rig.drawbridge.dev/echo"


def marking(pod: JSON) -> list[JSON]:
    """Mark a pod with what it is called."""
    annotations = {MARK: pod["metadata"]["name"]}
    return [{"op": "add", "path": "/metadata/annotations", "value": annotations}]


@scenario("smoke", needs=("loopback",))
def an_admission_webhook_is_reached_through_its_service(stage: Stage) -> None:
    """The API server calls svc.namespace.svc on the clusterIP and believes the authority given."""
    nobody = Backend(port=1)  # connections go on to the next
    stage.enter(neighbour(stage, "rig-echo", marking, before=(nobody,)))
    marked = stage.wait("the webhook is called", lambda: _asked(stage))
    assert marked == "asked"


def _asked(stage: Stage) -> str:
    """Ask for a pod without keeping it; empty while the webhook is not yet called."""
    body = stage.pod_object("asked")
    pod = stage.client.create(stage.pod_path(), body, dryRun="All")
    return str(pod["metadata"].get("annotations", {}).get(MARK, ""))
