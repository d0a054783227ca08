"""References of claims and pods: to classes, claims, templates and requests."""

from pathlib import Path

from msgspec.structs import replace

from drawbridge.dra.claim import Claim, Template, read_claim, read_template
from drawbridge.finding import Severity
from drawbridge.judge.claims.references import check_references
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.subject import Subject, pod_subject
from drawbridge.ledger.pods import Pod, pod_reader
from tests.judge.contexts import class_context, findings, subject_of
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "references.yaml")
GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
NIC = {
    "name": "nic",
    "firstAvailable": [
        {"name": "fast", "deviceClassName": "dra.net"},
        {"name": "slow", "deviceClassName": "dra.net"},
    ],
}
METADATA = {"namespace": "ns"}


def shared() -> Claim:
    claim = read_claim(
        {"metadata": METADATA | {"name": "shared"}, "spec": {"devices": {"requests": [GPU]}}}
    )
    assert isinstance(claim, Claim)
    return claim


def single() -> Template:
    spec = {"spec": {"devices": {"requests": [GPU, NIC]}}}
    template = read_template({"metadata": METADATA | {"name": "one"}, "spec": spec})
    assert isinstance(template, Template)
    return template


def cluster(*, complete: bool = True) -> JudgeContext:
    claims, templates = {("ns", "shared"): shared()}, {("ns", "one"): single()}
    lookups = ObjectLookups(
        find_claim=lambda *key: claims.get(key),
        find_template=lambda *key: templates.get(key),
        complete=complete,
    )
    classes = {"gpu.nvidia.com": "true", "dra.net": "true"}
    return replace(class_context(classes), lookups=lookups)


def pod_of(case: YamlValue, context: JudgeContext, pod_path: str = "") -> Subject:
    init = [{"name": "i", "resources": {"claims": case["init"]}}] if "init" in case else []
    pod = pod_reader().read(
        {
            "metadata": METADATA | {"name": "p"},
            "spec": {
                "resourceClaims": case["claims"],
                "initContainers": init,
                "containers": [{"name": "c", "resources": {"claims": case.get("uses", [])}}],
            },
        }
    )
    assert isinstance(pod, Pod), pod
    return pod_subject(pod, context.lookups, pod_path=pod_path)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_references_of_a_pod(case: YamlValue) -> None:
    context = cluster(complete=case.get("cluster", True))
    reported = findings(check_references(pod_of(case, context), context))
    assert [[each.code, each.path] for each in reported] == case["found"]
    assert all(each.object == "Pod/ns/p" for each in reported)
    if "says" in case:
        assert reported[0].message == case["says"]
    if "do" in case:
        assert reported[0].remedy == case["do"]


def test_paths_in_a_workload_start_at_its_pod_template() -> None:
    context = cluster()
    case = {"claims": [{"name": "a", "resourceClaimName": "shared"}], "uses": [{"name": "b"}]}
    (finding,) = findings(check_references(pod_of(case, context, "spec.template"), context))
    assert finding.path == "spec.template.spec.containers[0].resources.claims[0].name"


def test_class_that_does_not_exist_is_a_warning_with_the_nearest_name() -> None:
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.con"}},
        {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "other"}]},
        GPU,
    ]
    reported = findings(check_references(subject_of(requests), cluster()))
    assert [(each.path, each.message) for each in reported] == [
        (
            "spec.devices.requests[0].exactly.deviceClassName",
            "DeviceClass gpu.nvidia.con does not exist; did you mean gpu.nvidia.com?",
        ),
        (
            "spec.devices.requests[1].firstAvailable[0].deviceClassName",
            "DeviceClass other does not exist",
        ),
    ]
    assert {each.severity for each in reported} == {Severity.WARNING}
    assert not findings(check_references(subject_of(requests), cluster(complete=False)))
