"""Scenarios: configurations which end the process of their driver, and who stops them."""

from pathlib import Path

import yaml

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.scenarios.bridge import told
from e2e.scenarios.objects import JSON, claim_spec, opaque, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
EXAMPLE = Path(__file__).parents[2] / "examples" / "fatal-configs-policy.yaml"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
GROUP = "/apis/resource.k8s.io"
FATAL = {
    "without an interval": {"strategy": "TimeSlicing", "timeSlicingConfig": {}},
    "with null": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": None}},
}
# What the driver prepares or refuses, without an end.
HARMLESS = {
    "no sharing": None,
    "no settings": {"strategy": "TimeSlicing"},
    "settings that are null": {"strategy": "TimeSlicing", "timeSlicingConfig": None},
    "an interval": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}},
    "an unknown interval": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": ""}},
    "settings that are a text": {"strategy": "TimeSlicing", "timeSlicingConfig": "Short"},
    "sharing that is a list": ["TimeSlicing"],
    "another strategy": {"strategy": "MPS", "timeSlicingConfig": {}},
}


PROCESSORS = "dra.cpu"
ENDLESS: dict[str, JSON] = {
    "a range beyond memory": {"cpuConfig": {"cpuset": "0-99999999999"}},
    "one of several": {"cpuConfig": {"cpuset": "1,2-+9223372036854775807,3"}},
    "fields in another case": {"CPUCONFIG": {"cpuSet": "0-1000000"}},
    "the long s that Go takes for s": {"cpuConfig": {"cpu\u017fet": "0-1000000"}},
}
BOUNDED: dict[str, JSON] = {
    "the processors of a machine": {"cpuConfig": {"cpuset": "0-3,5,8-8191"}},
    "no list": {"cpuConfig": {"cpuset": 100000}},
    "another driver's field": {"cpuset": "0-99999999999"},
    "settings that are a text": {"cpuConfig": "0-99999999999"},
}


def processors(parameters: JSON) -> JSON:
    """Return a claim spec with a configuration of the driver for processors."""
    settings = opaque(PROCESSORS, {"apiVersion": "v1alpha1", **parameters}, "gpu")
    return claim_spec(request("gpu", GPU), config=[settings])


def spec(sharing: object, driver: str = GPU, **more: JSON) -> JSON:
    """Return a claim spec with one configuration."""
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": sharing,
    }
    return claim_spec(request("gpu", GPU), config=[opaque(driver, parameters | more)])


def refusal(stage: Stage, version: str, kind: str, body: JSON) -> str:
    """Return why a dry run is refused; empty if it is not."""
    if version == "v1beta1":  # its requests are flat
        flat = {"name": "gpu", "deviceClassName": GPU}
        body = {"devices": {**body["devices"], "requests": [flat]}}
    whole = body if kind == "resourceclaims" else {"spec": body}
    path = stage.path(kind, "", f"{GROUP}/{version}")
    try:
        stage.client.create(path, {"metadata": {"name": "probe"}, "spec": whole}, dryRun="All")
    except ApiError as problem:
        return str(problem)
    return ""


def apply_policy(stage: Stage) -> None:
    """Apply the policy, and wait until it acts."""
    policy, binding = yaml.safe_load_all(EXAMPLE.read_text("utf-8"))
    binding["spec"]["matchResources"] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    }
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicies", policy)
    stage.cluster_object(f"{POLICIES}/validatingadmissionpolicybindings", binding)
    fatal = spec(FATAL["without an interval"])
    stage.wait("the policy acts", lambda: refusal(stage, "v1", "resourceclaims", fatal))


@scenario("smoke")
def a_policy_refuses_configurations_that_end_a_driver(stage: Stage) -> None:
    """Without the policy the API server accepts them; with it, in no version of the API."""
    versions = [each["version"] for each in stage.client.get(GROUP)["versions"]]
    kinds = ("resourceclaims", "resourceclaimtemplates")
    places = [(version, kind) for version in versions for kind in kinds]
    for version, kind in places:
        for sharing in FATAL.values():
            assert not refusal(stage, version, kind, spec(sharing)), (version, kind)
    apply_policy(stage)
    for version, kind in places:
        for name, sharing in FATAL.items():
            why = refusal(stage, version, kind, spec(sharing))
            assert "ends the process of driver gpu.nvidia.com" in why, (version, kind, name, why)
        for name, harmless in HARMLESS.items():
            why = refusal(stage, version, kind, spec(harmless))
            assert not why, (version, kind, name, why)
        for name, endless in ENDLESS.items():
            why = refusal(stage, version, kind, processors(endless))
            assert "ends the process of driver dra.cpu" in why, (version, kind, name, why)
        for name, bounded in BOUNDED.items():
            why = refusal(stage, version, kind, processors(bounded))
            assert not why, (version, kind, name, why)
        other = spec(FATAL["with null"], "gpu.example.com")
        assert not refusal(stage, version, kind, other), (version, kind)
        assert not refusal(stage, version, kind, claim_spec(request("gpu", GPU))), (version, kind)


@scenario("smoke")
def a_policy_refuses_the_claims_of_an_old_template_that_ends_a_driver(stage: Stage) -> None:
    """A template from before the policy makes no claim, so its pod never reaches a driver."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("old", spec(FATAL["without an interval"]))
    apply_policy(stage)
    stage.pod("work", templates={"gpu": "old"})

    def refused() -> bool:
        return any("ends the process of driver" in each for each in stage.events("work"))

    stage.wait("an event says why the pod waits", refused)
    assert stage.get_pod("work")["status"]["phase"] == "Pending"
    assert not stage.client.get(stage.claim_path())["items"]


@bridge_scenario("full")
def a_claim_that_ends_its_driver_is_never_allocated(stage: BridgeStage) -> None:
    """The pod waits with the reason, and another one gets the device."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    stage.template("fatal", spec(FATAL["with null"]))
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    # The reason of a first attempt stays while nothing that the pod needs changes, so the allocator
    # has to use the node before.
    stage.run_pod("first", templates={"gpu": "gpu"})
    stage.pod("waiting", templates={"gpu": "fatal"})
    stage.wait_unschedulable("waiting")
    reason = "ends the process of driver gpu.nvidia.com"
    stage.wait("the pod says why", lambda: told(stage, "waiting", reason))
    stage.run_pod("worker", templates={"gpu": "gpu"})
    claim = stage.get_claim(stage.generated_claim("waiting"))
    assert "allocation" not in claim.get("status", {})
