"""Tests of requests that another webhook puts back into a container that has its claim.

A case has the `limits` of the container when the pod is created, what another webhook `adds`
later, and what the second translation does: `left` are the device resources after it, `claims` the
number of claims of the container, `findings` its findings.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.finding import Severity
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import restore_original, to_operations
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.pods import translate
from drawbridge.translate.returned_requests import report_beside_claims, restore_translated
from tests.tables import YamlValue, every_row
from tests.translate import worlds

FACTS = worlds.facts(
    ("hgx-h100 hami-core-gpu.project-hami.io", "dgx-a100 gpu.nvidia.com static-mig")
)
CONTEXT = make_context(Configuration(), FACTS)
SHARE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
FORGED = json.dumps([{"op": "remove", "path": "/metadata/labels/app"}])


def build_pod(limits: YamlValue) -> dict[str, Any]:
    containers = [
        {"name": "main", "resources": {"limits": {"cpu": 1, **limits}}},
        {"name": "log"},
    ]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers}}


def translate_once(pod: YamlValue, context: TranslationContext = CONTEXT) -> YamlValue:
    translated = translate(pod, context)
    assert translated.edits, translated.findings
    return apply_edits(pod, translated.edits)


def translate_manifest(pod: YamlValue) -> YamlValue:
    """Translate a pod in a file that people commit."""
    named = {"apiVersion": "v1", "kind": "Pod", **pod}
    translated = translate_object(named, "", replace(CONTEXT, readable_names=True))
    return apply_edits(named, translated.edits)


def add_later(pod: YamlValue, adds: YamlValue, number: int = 0) -> YamlValue:
    changed = copy.deepcopy(pod)
    resources = changed["spec"]["containers"][number].setdefault("resources", {})
    resources.setdefault("limits", {}).update(adds)
    resources.setdefault("requests", {}).update(adds)
    return changed


@pytest.mark.parametrize("translated", [translate_once, translate_manifest])
@pytest.mark.parametrize(
    ("limits", "adds"),
    [
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": "1"}),
        (SHARE, {"nvidia.com/gpu": 1}),
        (SHARE, SHARE),
        # HAMi's webhook adds a count of 1 to memory, and all cores to a count.
        ({"nvidia.com/gpumem": 3000}, {"nvidia.com/gpu": 1}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 100}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpucores": 100}),
        ({"koordinator.sh/gpu": 100}, {"koordinator.sh/gpu": 100}),
    ],
)
def test_a_request_that_is_put_back_is_removed_without_a_second_claim(
    translated: Callable[[YamlValue], YamlValue], limits: YamlValue, adds: YamlValue
) -> None:
    asked = build_pod(limits)
    first = translated(asked)
    changed = add_later(first, adds)
    translation = translate(changed, CONTEXT)
    assert {each.code for each in translation.findings} == {"RequestReturned"}
    assert translation.templates == ()
    again: YamlValue = apply_edits(changed, translation.edits)
    assert list(translation.operations) == to_operations(translation.edits)
    assert jsonpatch.apply_patch(changed, list(translation.operations)) == again
    assert again["spec"]["resourceClaims"] == first["spec"]["resourceClaims"]
    assert again["spec"]["containers"][0]["resources"]["limits"] == {"cpu": 1}
    assert translate(again, CONTEXT).edits == ()
    restored: YamlValue = restore_original(again)
    assert restored["spec"]["containers"][0]["resources"]["limits"] == {"cpu": 1, **limits}
    undo = json.loads(again["metadata"]["annotations"][ORIGINAL_ANNOTATION])
    assert jsonpatch.apply_patch(again, undo) == restored


@pytest.mark.parametrize("others", [{}, {"cpu": 1}])
@pytest.mark.parametrize("left", ["rdma/hca", "openshift.io/sriovib", "example.com/npu"])
def test_a_request_of_a_plugin_beside_the_claim_changes_nothing_of_it(
    others: YamlValue, left: str
) -> None:
    """Not even if the devices of both were near each other."""
    context = make_context(Configuration())
    asked = build_pod({})
    asked["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 2, left: 1, **others}
    first = translate_once(asked, context)
    again = translate(first, context)
    assert again.edits == ()
    assert Severity.ERROR not in {each.severity for each in again.findings}
    returned = translate(put_back := add_later(first, {"nvidia.com/gpu": 2}), context)
    assert apply_edits(put_back, returned.edits) == first
    changed = translate(add_later(first, {"nvidia.com/gpu": 4}), context)
    assert "RequestsContradict" in {each.code for each in changed.findings}


@every_row(
    ("limits", "adds"),
    [
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}),
        (SHARE, {"nvidia.com/gpumem": 6000}),
        (SHARE, {"nvidia.com/gpucores": 30}),
        ({"nvidia.com/gpumem": 3000}, {"nvidia.com/gpu": 2}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpumem": 3000}),
        ({"koordinator.sh/gpu": 100}, {"koordinator.sh/gpu": 200}),
    ],
)
def test_a_request_for_other_devices_than_those_of_the_claim_is_an_error(
    limits: YamlValue, adds: YamlValue
) -> None:
    translated = translate(add_later(translate_once(build_pod(limits)), adds), CONTEXT)
    assert (translated.edits, translated.templates) == ((), ())
    assert [each.code for each in translated.findings] == ["RequestsContradict"] * len(adds)
    assert all(each.severity is Severity.ERROR for each in translated.findings)
    for name in adds:
        assert any(f"requests {name}: " in each.message for each in translated.findings)
        assert all("container main" in each.message for each in translated.findings)


def test_a_request_of_another_kind_of_device_gets_a_claim_of_its_own() -> None:
    words = ("dgx-a100 hami-core-gpu.project-hami.io", "dgx-a100 gpu.nvidia.com static-mig")
    context = make_context(Configuration(), worlds.facts(words))
    changed = add_later(translate_once(build_pod({"nvidia.com/mig-1g.5gb": 1}), context), SHARE)
    translated = translate(changed, context)
    assert len(translated.templates) == 1
    again: YamlValue = apply_edits(changed, translated.edits)
    claims = again["spec"]["containers"][0]["resources"]["claims"]
    assert [each["name"] for each in claims] == ["drawbridge", "drawbridge-2"]
    assert restore_original(again) == add_later(build_pod({"nvidia.com/mig-1g.5gb": 1}), SHARE)


def test_a_request_that_no_node_serves_beside_the_claim_is_refused() -> None:
    changed = add_later(translate_once(build_pod({"nvidia.com/mig-1g.5gb": 1})), SHARE)
    translated = translate(changed, CONTEXT)
    assert ([each.code for each in translated.findings], translated.edits) == (
        ["NoNodeOffersAll"],
        (),
    )


def test_a_request_of_a_container_without_a_claim_gets_a_claim() -> None:
    changed = add_later(translate_once(build_pod({"nvidia.com/gpu": 1})), {"nvidia.com/gpu": 1}, 1)
    assert len(translate(changed, CONTEXT).templates) == 1


def test_a_resource_that_no_dialect_reads_stays_beside_the_claim() -> None:
    first = translate_once(build_pod({**SHARE, "example.com/other": 1}))
    assert translate(first, CONTEXT).edits == ()
    changed = add_later(first, SHARE)
    again: YamlValue = apply_edits(changed, translate(changed, CONTEXT).edits)
    assert again["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": 1,
        "example.com/other": 1,
    }


def test_an_amount_that_is_added_to_a_count_of_zero_is_removed() -> None:
    """HAMi adds all cores to a count of zero, which a LimitRange requires on a translated pod."""
    zero = add_later(translate_once(build_pod(SHARE)), {"nvidia.com/gpu": 0})
    changed = add_later(zero, {"nvidia.com/gpucores": 100})
    translated = translate(changed, CONTEXT)
    assert {each.code for each in translated.findings} == {"RequestReturned"}
    assert apply_edits(changed, translated.edits) == zero
    assert translate(zero, CONTEXT).edits == ()


TAKEN = '[{"op":"remove","path":"/spec/containers/0/resources/limits"}]'


@pytest.mark.parametrize("text", ["", "[]", "not JSON", TAKEN])
def test_a_forged_annotation_removes_no_request(text: str) -> None:
    pod = build_pod(SHARE)
    pod["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: text}
    pod["spec"]["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "drawbridge-0"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "mine", "request": "gpu"}]
    translated = translate(pod, CONTEXT)
    assert len(translated.templates) == 1


def build_with_annotations(annotations: dict[str, str]) -> dict[str, Any]:
    pod = build_pod({})
    pod["metadata"]["annotations"] = {"theirs": "a", **annotations}
    pod["spec"]["schedulerName"] = "kai-scheduler" if "gpu-fraction" in annotations else None
    return pod


@every_row(
    "annotations",
    [
        {"gpu-fraction": "0.5"},
        {
            "tensor-fusion.ai/vram-limit": "10Gi",
            "tensor-fusion.ai/tflops-limit": "100",
            "tensor-fusion.ai/vram-request": "10Gi",
            "tensor-fusion.ai/tflops-request": "100",
            "tensor-fusion.ai/inject-container": "main",
            "tensor-fusion.ai/is-local-gpu": "true",
        },
    ],
)
def test_annotations_that_are_the_request_and_are_put_back_are_removed_again(
    annotations: dict[str, str],
) -> None:
    asked = build_with_annotations(annotations)
    first = translate_once(asked)
    changed = copy.deepcopy(first)
    changed["metadata"]["annotations"] |= annotations
    translated = translate(changed, CONTEXT)
    assert (apply_edits(changed, translated.edits), translated.templates) == (first, ())
    assert list(translated.operations) == to_operations(translated.edits)
    assert "RequestReturned" in {each.code for each in translated.findings}
    assert restore_original(first) == asked


def test_an_annotation_that_requests_other_devices_than_those_of_the_claim_is_an_error() -> None:
    changed = translate_once(build_with_annotations({"gpu-fraction": "0.5"}))
    changed["metadata"]["annotations"]["gpu-fraction"] = "0.25"
    translated = translate(changed, CONTEXT)
    assert (translated.edits, translated.templates) == ((), ())
    (finding,) = translated.findings
    assert finding.code == "RequestsContradict"
    assert "gpu-fraction: 0.25, but has a claim for 0.5" in finding.message


def test_annotations_that_the_translation_left_stay() -> None:
    pod = build_with_annotations({"nvidia.com/use-gputype": "A100"})
    pod["spec"]["containers"][0]["resources"]["limits"] = SHARE
    first = translate_once(pod)
    changed = {**first, "metadata": {**first["metadata"], "labels": {"theirs": "a"}}}
    assert translate(changed, CONTEXT).edits == ()


@pytest.mark.parametrize("translated", [translate_once, translate_manifest])
def test_a_translated_pod_has_claims_that_its_annotation_takes_back(
    translated: Callable[[YamlValue], YamlValue],
) -> None:
    asked = build_pod({"nvidia.com/gpu": 1})
    first = translated(asked)
    assert restore_translated(first)["spec"] == asked["spec"]  # type: ignore[index,call-overload]
    metadata = first["metadata"]
    copied = build_pod({"nvidia.com/gpu": 1})
    assert restore_translated({**copied, "metadata": metadata}) is None
    labelled = {"labels": {"app": "x"}, "annotations": {ORIGINAL_ANNOTATION: FORGED}}
    assert restore_translated({**copied, "metadata": labelled}) is None
    assert restore_translated({**first, "metadata": labelled}) is None, "the claims stay"


# What another client of the API server keeps in a translated object, and what is said of it.
CONTRADICTS = "RequestsContradict limits[nvidia.com/gpu]"
BESIDE: dict[str, tuple[YamlValue, list[str]]] = {
    "nothing": ({}, []),
    "the request that the claim replaced": (
        SHARE,
        [f"RequestBesideClaim limits[nvidia.com/{name}]" for name in ("gpu", "gpumem")],
    ),
    "a part of the request": ({"nvidia.com/gpu": 1}, ["RequestBesideClaim limits[nvidia.com/gpu]"]),
    "a count of zero": ({"nvidia.com/gpu": 0}, []),
    "a request for other devices, which admission refuses": ({"nvidia.com/gpu": 2}, [CONTRADICTS]),
    "what no dialect reads": ({"example.com/foo": 1}, []),
}


@every_row("case", BESIDE.values(), ids=[*BESIDE])
def test_a_request_that_stays_beside_its_claim_is_reported(
    case: tuple[YamlValue, list[str]],
) -> None:
    kept, expected = case
    pod = add_later(translate_once(build_pod(SHARE)), kept)
    reported = [*report_beside_claims(pod, Configuration(), FACTS)]
    at = "spec.containers[0].resources."
    assert [f"{each.code} {each.path.removeprefix(at)}" for each in reported] == expected
    assert all(each.severity is Severity.WARNING for each in reported)
    assert all(each.message.startswith("container main ") for each in reported)


def test_a_request_without_a_claim_or_without_the_annotation_is_not_beside_one() -> None:
    legacy = build_pod(SHARE)
    kept = add_later(translate_once(legacy), SHARE)
    own = {**kept, "metadata": {"name": "p"}}
    for pod in (legacy, own):
        assert [*report_beside_claims(pod, Configuration(), FACTS)] == []
