"""Scenarios: with native placement, admission refuses pods that a device quota never allows."""

import yaml

from e2e.controlplane.client import ApiError
from e2e.installed.installation import dry_run
from e2e.scenarios.admission import GPU, NEEDS, legacy_pod, prepare_pod
from e2e.scenarios.admission_scope import configure, restored_configuration
from e2e.scenarios.objects import deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

FORBIDDEN = 403
LABEL = "rig.drawbridge.dev/team"


@scenario("full", rig="installed", needs=NEEDS)
def a_pod_that_a_device_quota_never_allows_is_refused_at_once(stage: Stage) -> None:
    """The quota selects the namespace by a label; a smaller pod runs, as with another label."""
    cluster, kubectl, _ = prepare_pod(stage, "probe")
    quota = {
        "name": "small",
        "namespaceSelector": {"matchLabels": {LABEL: "students"}},
        "single": {GPU: {"devices": 1}},
    }
    namespace = f"/api/v1/namespaces/{stage.namespace}"
    with restored_configuration(stage, cluster) as before:
        configure(stage, cluster, yaml.safe_dump({**before, "quotas": [quota]}))
        stage.client.patch(namespace, {"metadata": {"labels": {LABEL: "students"}}})
        stage.wait("the quota applies", lambda: "small" in refusal(stage, 2))
        assert refusal(stage, 2) == (
            f"quota small allows a pod of namespace {stage.namespace} 1 device of class {GPU}, and"
            " the pod asks for 2"
        )
        printed = kubectl.apply(deployment(legacy_pod(stage, "serve", 2), 1))
        assert printed.code, printed
        assert "DeviceQuotaTooSmall" in printed.err, printed
        stage.client.create(stage.pod_path(), legacy_pod(stage, "one", 1))
        stage.wait_running("one")
        stage.client.patch(namespace, {"metadata": {"labels": {LABEL: None}}})
        stage.wait("the quota does not apply", lambda: not refusal(stage, 2))


def refusal(stage: Stage, count: int) -> str:
    """Return why a pod with so many GPUs would be refused; empty if it would be created."""
    try:
        dry_run(stage, legacy_pod(stage, "dry", count))
    except ApiError as problem:
        if problem.code != FORBIDDEN:
            raise
        _, _, reason = f"{problem}".partition("DeviceQuotaTooSmall: spec: ")
        return reason.partition(" (")[0]
    return ""
