"""Objects with pod templates in them: what is told of the object itself, and all or nothing."""

from typing import Any

import pytest

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.finding import Severity
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue

BY = make_context(Configuration())
OPTED_OUT: YamlValue = {"labels": {"drawbridge.dev/translate": "off"}}
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}


def template(limits: YamlValue, **spec: YamlValue) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": limits}}
    return {"spec": {"tolerations": [{"operator": "Exists"}], "containers": [container], **spec}}


def job(limits: YamlValue, **metadata: YamlValue) -> dict[str, Any]:
    spec = {"template": template(limits)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def volcano(**spec: YamlValue) -> dict[str, Any]:
    tasks = [{"name": "worker", "template": template({"nvidia.com/gpu": 1})}]
    whole = {"tasks": tasks, **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": whole}


def told(value: YamlValue) -> dict[str, str]:
    return {e.code: f"{e.path}: {e.message}" for e in translate_object(value, "Job/j", BY).findings}


def test_the_queue_of_a_job_is_reported() -> None:
    messages = told(job({"nvidia.com/gpu": 1}, labels=QUEUE))
    assert "metadata.labels[kueue.x-k8s.io/queue-name]" in messages["QueueCountsNames"]
    assert "gpu.nvidia.com" in messages["QueueCountsNames"]
    assert "QueueCountsNames" not in told(job({"cpu": 1}, labels=QUEUE))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "the pods of the job keep scheduler volcano"),
        ({"schedulerName": "mine"}, "the pods of the job keep scheduler mine"),
        ({"queue": "team-a"}, "with queue team-a"),
    ],
)
def test_the_scheduler_of_a_volcano_job_is_reported(spec: YamlValue, words: str) -> None:
    message = told(volcano(**spec))["SchedulerKept"]
    assert message.startswith("spec.schedulerName: ")
    assert words in message


def test_requests_in_templates_and_patches_of_a_workflow_are_reported() -> None:
    """Argo's templates hold one container and no pod; they are translated when pods are made."""
    container = {"image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    patch = '{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":2}}}]}'
    value = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "spec": {
            "podSpecPatch": patch,
            "templates": [
                {"name": "train", "container": container},
                {"name": "more", "podSpecPatch": "limits: {amd.com/gpu: 1}"},
                {"name": "none", "podSpecPatch": '{"terminationGracePeriodSeconds": 3}'},
            ],
        },
    }
    done = translate_object(value, "Workflow/w", BY)
    assert done.edits == ()
    paths = {each.path for each in done.findings if each.code == "RequestNotInPod"}
    assert paths == {
        "spec.templates[0].container.resources.limits[nvidia.com/gpu]",
        "spec.podSpecPatch[nvidia.com/gpu]",
        "spec.templates[1].podSpecPatch[amd.com/gpu]",
    }
    assert all(each.severity is Severity.WARNING for each in done.findings)


def test_one_refused_template_leaves_the_object_unchanged() -> None:
    value = volcano()
    value["spec"]["tasks"].append({"template": template({"koordinator.sh/gpu": 101})})
    done = translate_object(value, "Job/j", BY)
    assert (done.edits, done.templates) == ((), ())
    assert any(each.path.startswith("spec.tasks[1].template.spec") for each in done.findings)


def test_templates_have_the_namespace_of_the_object() -> None:
    done = translate_object(job({"nvidia.com/gpu": 1}, namespace="team"), "Job/team/j", BY)
    (made,) = done.templates
    assert get_value(dict(made), ("metadata", "namespace")) == "team"
    after = apply_edits(job({"nvidia.com/gpu": 1}, namespace="team"), done.edits)
    claims = get_value(after, ("spec", "template", "spec", "resourceClaims"))
    assert claims == [
        {
            "name": "drawbridge",
            "resourceClaimTemplateName": get_value(dict(made), ("metadata", "name")),
        }
    ]
    again = translate_object(after, "Job/team/j", BY)
    assert (again.edits, again.templates) == ((), ())


def test_a_template_that_opts_out_keeps_its_requests() -> None:
    value = volcano()
    tasks = value["spec"]["tasks"]
    tasks.append({"name": "master", "template": {**tasks[0]["template"], "metadata": OPTED_OUT}})
    done = translate_object(value, "Job/j", BY)
    after = apply_edits(value, done.edits)
    assert get_value(after, ("spec", "tasks", 0)) != value["spec"]["tasks"][0]
    assert get_value(after, ("spec", "tasks", 1)) == tasks[1]
    path = "spec.tasks[1].template.metadata.labels[drawbridge.dev/translate]"
    assert told(value)["OptedOut"].startswith(f"{path}: the label opts out")
    without = job({"cpu": 1})
    without["spec"]["template"]["metadata"] = OPTED_OUT
    assert told(without) == {}
