"""What a queue of Kueue can charge: a case table, and the mappings that keep one quota."""

from pathlib import Path

import jsonpatch
import pytest

from drawbridge.config.model import Configuration
from drawbridge.finding import Severity
from drawbridge.translate.changes.queues import (
    find_collisions,
    find_default_queues,
    format_mappings,
    merge_mappings,
    read_mappings,
)
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.pods import Translation, make_context, translate
from tests.tables import YamlValue, load_cases
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_queue_gets_claims_that_it_charges(case: YamlValue) -> None:
    made = done(case, pod_of(case))
    loud = [each for each in made.findings if each.severity is not Severity.INFO]
    assert [
        each.code for each in loud if "Queue" in each.code or each.code in case["findings"]
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
    if "mappings" in case:
        assert case["mappings"] in " ".join(each.remedy for each in loud)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
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
            {"": ("a.example.com",)},
            {"nvidia.com/gpu": ("gpu.nvidia.com", "a.example.com")},
            {"example.com/gpu": ("gpu.nvidia.com", "b.example.com")},
        ]
    )
    assert merged == {
        "nvidia.com/gpu": ("a.example.com", "gpu.nvidia.com"),
        "example.com/gpu": ("b.example.com",),
    }
    colliding: list[dict[str, tuple[str, ...]]] = [
        {"volcano.sh/vgpu-number": ("gpu.nvidia.com",)},
        {"nvidia.com/gpu": ("gpu.nvidia.com",)},
        {"nvidia.com/gpu": ("gpu.nvidia.com", "mig.nvidia.com")},
        {"": ("mig.nvidia.com",)},
    ]
    assert merge_mappings(colliding) == {"nvidia.com/gpu": ("gpu.nvidia.com", "mig.nvidia.com")}
    assert find_collisions(colliding) == {
        "gpu.nvidia.com": ["nvidia.com/gpu", "volcano.sh/vgpu-number"]
    }
    assert format_mappings({"": ("a", "b")}) == (
        "deviceClassMappings: [{name: NAME, deviceClassNames: [a]}, "
        "{name: NAME, deviceClassNames: [b]}]"
    )


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            {
                "resources": {
                    "deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["a", 1]}]
                }
            },
            {"gpus": ("a",)},
        ),
        ({"resources": {"deviceClassMappings": [None, {}]}}, {"None": ()}),
        ({"resources": None}, {}),
        (None, {}),
    ],
    ids=["mapped", "wrong", "none", "no-object"],
)
def test_mappings_are_read_from_any_value(configuration: YamlValue, expected: YamlValue) -> None:
    assert read_mappings(configuration) == expected
