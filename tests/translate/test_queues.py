"""What a queue of Kueue can charge: a case table, and the mappings that keep one quota."""

from pathlib import Path

import jsonpatch
import pytest

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import DriverName, ObjectName, ResourceName
from drawbridge.config.target import Target
from drawbridge.facts.model import ClassFacts, Facts
from drawbridge.finding import Severity
from drawbridge.translate.changes.queues import (
    SHARES_GATE,
    MappedClass,
    Mappings,
    describe_mappings,
    find_collisions,
    find_covered,
    find_default_queues,
    find_kueue_queue,
    find_unmapped_classes,
    merge_mappings,
    read_mappings,
)
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import test_rows

CASES = load_cases(Path(__file__).parent / "cases" / "queues.yaml")
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}


def pod_of(case: YamlValue) -> YamlValue:
    pod = test_rows.pod(case)
    pod["metadata"]["labels"] = {**QUEUE, **case.get("labels", {})}
    return pod


def done(case: YamlValue, pod: YamlValue) -> Translation:
    context = make_context(test_rows.configuration(case), test_rows.facts(case))
    return translate(pod, context, admin_access=True)


def requests(made: Translation) -> list[YamlValue]:
    requests = []
    for template in made.templates:
        spec: YamlValue = template.object["spec"]
        requests += spec["spec"]["devices"]["requests"]
    return requests


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_queue_gets_claims_that_it_charges(case: YamlValue) -> None:
    made = done(case, pod_of(case))
    loud = [each for each in made.findings if each.severity is not Severity.INFO]
    assert [
        each.code
        for each in loud
        if "Queue" in each.code or each.code in ("LabelKept", *case["findings"])
    ] == list(case["findings"])
    assert (Severity.ERROR in {each.severity for each in loud}) is case.get("refused", False)
    for words in case.get("says", ()):
        assert any(words in each.message for each in loud), [each.message for each in loud]
    if "claims" in case:
        assert [list(test_rows.lines(each)) for each in made.templates] == case["claims"]
    if "exact" in case:
        assert all("exactly" in each for each in requests(made)) is case["exact"]
        assert made.templates
    if "entries" in case:
        translated: YamlValue = jsonpatch.apply_patch(pod_of(case), list(made.operations))
        containers = translated["spec"]["containers"]
        assert [each["resources"]["claims"] for each in containers] == case["entries"]
    if "keeps" in case:
        assert case.get("selects", "") in str(requests(made))
        kept: YamlValue = jsonpatch.apply_patch(pod_of(case), list(made.operations))
        assert {field: kept["spec"].get(field) for field in case["keeps"]} == case["keeps"]
    if "mappings" in case:
        remedies = " ".join(each.remedy for each in loud)
        assert case["mappings"] in remedies
        assert case.get("shares", "") in remedies
        assert (SHARES_GATE in remedies) is ("shares" in case)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_queue_of_a_job_decides_about_its_template(case: YamlValue) -> None:
    pod = pod_of(case)
    if "labels" in case:
        return
    labels = pod["metadata"].pop("labels")
    job: YamlValue = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": labels},
        "spec": {"template": pod},
    }
    context = make_context(test_rows.configuration(case), test_rows.facts(case))
    of_job = translate_object(job, "Job/j", context)
    of_pod = done(case, pod_of(case))
    codes = [{e.code for e in one.findings if "Queue" in e.code} for one in (of_job, of_pod)]
    assert codes[0] == codes[1]
    templates: list[YamlValue] = [dict(each) for each in of_job.templates]
    names = [each["metadata"]["name"] for each in templates]
    assert names == [each.name for each in done(case, pod_of(case)).templates]


def test_the_default_queue_of_a_namespace_counts() -> None:
    case = next(each for each in CASES if each["name"] == "preferred devices")
    pod = test_rows.pod(case)
    context = make_context(Configuration(), test_rows.facts(case))
    with_queue = translate(pod, context.with_queues({"ml": "default"}), "ml")
    assert any("queue default of Kueue" in each.message for each in with_queue.findings)
    elsewhere = translate(pod, context.with_queues({"ml": "default"}), "other")
    assert "firstAvailable" in requests(elsewhere)[0]


def test_a_pod_in_a_default_queue_is_told_the_mapping_once() -> None:
    case = next(each for each in CASES if each["name"] == "a whole GPU")
    context = make_context(Configuration(), test_rows.facts(case)).with_queues({"ml": "default"})
    pod = test_rows.pod(case)
    template = {"metadata": {}, "spec": pod["spec"]}
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ml"},
        "spec": {"template": template},
    }
    for findings in (
        translate(pod, context, "ml").findings,
        translate_object({"apiVersion": "batch/v1", **job}, "Job/j", context).findings,
    ):
        messages = [each.message for each in findings if each.code == "QueueCountsNames"]
        assert len(messages) == 1, messages
        assert messages[0].startswith("queue default of Kueue does not admit claims of")


@pytest.mark.parametrize("label", ["", 7, None, "x" * 64, "x" * 1_000_000])
def test_what_is_no_label_names_no_queue(label: YamlValue) -> None:
    pod = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": label}}}
    assert find_kueue_queue(pod) == ""
    assert find_kueue_queue(pod, "default") == "default"


def test_a_local_queue_with_the_name_default_is_the_default_queue() -> None:
    queues: list[YamlValue] = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
        }
        for name, namespace in (("default", "ml"), ("other", "web"))
    ]
    assert find_default_queues([*queues, None]) == {"ml": "default"}


def test_a_class_is_mapped_to_one_name() -> None:
    merged = merge_mappings(
        [
            {"": mapped("a.example.com")},
            {"nvidia.com/gpu": mapped("gpu.nvidia.com", "a.example.com")},
            {"example.com/gpu": mapped("gpu.nvidia.com", "b.example.com")},
        ]
    )
    assert merged == {
        "nvidia.com/gpu": mapped("a.example.com", "gpu.nvidia.com"),
        "example.com/gpu": mapped("b.example.com"),
    }
    colliding: list[Mappings] = [
        {"volcano.sh/vgpu-number": mapped("gpu.nvidia.com")},
        {"nvidia.com/gpu": mapped("gpu.nvidia.com")},
        {"nvidia.com/gpu": mapped("gpu.nvidia.com", "mig.nvidia.com")},
        {"": mapped("mig.nvidia.com")},
    ]
    assert merge_mappings(colliding) == {
        "nvidia.com/gpu": mapped("gpu.nvidia.com", "mig.nvidia.com")
    }
    assert find_collisions(colliding) == {
        "gpu.nvidia.com": ["nvidia.com/gpu", "volcano.sh/vgpu-number"]
    }
    assert describe_mappings({"": mapped("a", "b")}) == (
        "deviceClassMappings: [{name: NAME, deviceClassNames: [a]}, "
        "{name: NAME, deviceClassNames: [b]}]."
    )


def test_a_class_with_shares_of_one_pod_is_one_with_shares() -> None:
    share = MappedClass("gpu", "d.io", "memory")
    whole: Mappings = {"nvidia.com/gpu": mapped("gpu")}
    for several in ([{"": (share,)}, whole], [whole, {"": (share,)}]):
        assert merge_mappings(several) == {"nvidia.com/gpu": (share,)}


def mapped(*names: str) -> tuple[MappedClass, ...]:
    return tuple(map(MappedClass, names))


DRIVER = "gpu.nvidia.com"
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
NOTHING = "maps no name"
TWO = "two quotas for the same devices"
TARGET = Target(
    driver=DriverName("b.example.com"),
    class_=ObjectName("b"),
    resources=(ResourceName("example.com/b"),),
)


@every_row(
    ("name", "covered", "row", "told"),
    [
        (None, {"nvidia.com/gpu"}, {}, NOTHING),
        (None, set(), {"devices": 0}, ""),
        ("nvidia.com/gpu", {"nvidia.com/gpu"}, {}, ""),
        ("gpus", {"nvidia.com/gpu", "gpus", "cpu"}, {}, TWO),
        # The administrator has chosen the name, and jobs with a legacy name are not admitted.
        ("gpus", {"gpus", "koordinator.sh/gpu", "amd.com/gpu"}, {}, ""),
        ("nvidia.com/gpu-10gb", {"nvidia.com/gpu-10gb"}, {}, ""),
        ("nvidia.com/gpu", {"nvidia.com/gpu-10gb"}, {}, TWO),
        # Names of which a class has one: what `audit` says, and no fault of the mapping.
        ("nvidia.com/gpu", {"nvidia.com/gpu", "nvidia.com/gpu-10gb"}, {}, ""),
        ("gpus", {"nvidia.com/gpu"}, {"name": "chosen-by-the-administrator"}, TWO),
        ("gpus", {"example.com/gpu"}, {"extended": "example.com/gpu"}, TWO),
        ("example.com/gpu", {"example.com/gpu"}, {"extended": "example.com/gpu"}, ""),
        ("gpus", {"example.com/b"}, {"drivers": ("b.example.com",)}, TWO),
        ("example.com/b", {"example.com/b"}, {"drivers": ("b.example.com",)}, ""),
        ("nics", {"rdma/hca"}, {"drivers": ("dra.net",)}, ""),
        ("nics", {"vpc.amazonaws.com/efa"}, {"drivers": ("dra.net",)}, TWO),
        ("nics", {"networking.gke.io.networks/rdma-0"}, {"drivers": ("dra.net",)}, TWO),
        ("vke.volcengine.com/rdma", {"vke.volcengine.com/rdma"}, {"drivers": ("dra.net",)}, ""),
        ("nics", {"openshift.io/a"}, {"drivers": (SRIOV,)}, TWO),
        ("nics", {"openshift.io/a"}, {"drivers": ("dra.net",)}, ""),
    ],
)
def test_doctor_compares_the_mapping_of_a_class_with_the_quotas(
    name: str | None, covered: set[str], row: YamlValue, told: str
) -> None:
    devices = ClassFacts(**{"name": DRIVER, "drivers": (DRIVER,), "devices": 8, **row})
    mappings = {name: mapped(devices.name)} if name else {}
    configuration = Configuration(targets=(TARGET,))
    findings = [*find_unmapped_classes(mappings, covered, Facts(classes=(devices,)), configuration)]
    assert [told in each.message for each in findings] == [True] * bool(told)


@every_row("case", test_rows.CASES, ids=test_rows.name)
def test_doctor_knows_the_names_that_count_gpus_in_each_dialect(case: YamlValue) -> None:
    facts = test_rows.facts(case) or Facts()
    context = make_context(test_rows.configuration(case), facts)
    made = translate(test_rows.pod(case), context, admin_access=True)
    gpus = {each.name for each in facts.classes if each.devices and "gpu" in each.name}
    for name, classes in made.mappings.items():
        chosen = {"chosen": mapped(*(gpus & {each.name for each in classes}))}
        for mappings, expected in ((chosen, len(chosen["chosen"])), ({name: classes}, 0)):
            findings = find_unmapped_classes(mappings, {name} - {""}, facts, context.configuration)
            told = [each for each in findings if TWO in each.message]
            assert len(told) == (expected if name else 0), (name, mappings)


def test_names_with_a_quota_are_read_from_any_queue() -> None:
    groups: YamlValue = [{"coveredResources": ["cpu", 1]}, {"coveredResources": ["a"]}, None]
    assert find_covered([{"spec": {"resourceGroups": groups}}, {}, None]) == {"cpu", "a"}


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            {
                "resources": {
                    "deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["a", 1]}]
                }
            },
            {"gpus": (MappedClass("a"),)},
        ),
        ({"resources": {"deviceClassMappings": [None, {}]}}, {"None": ()}),
        ({"resources": None}, {}),
        (None, {}),
    ],
    ids=["mapped", "wrong", "none", "no-object"],
)
def test_mappings_are_read_from_any_value(configuration: YamlValue, expected: YamlValue) -> None:
    assert read_mappings(configuration) == expected
