"""Updates of translated pods."""

import asyncio
import json
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.values import equal_json
from drawbridge.dra.quantity import from_json, valid_quantity
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, load_cases
from tests.thorough import drawn
from tests.translate.generated_pods import ASKING
from tests.translate.injected_webhooks import INJECTED, injected, theirs, without_theirs
from tests.translate.test_properties import CLUSTERS, asked
from tests.webhook.admission.harness import SECONDS, AdmissionHarness, pod, review
from webhook.admission.replies import await_reply
from webhook.admission.updates import merge, preserve_translation

CASES = load_cases(Path(__file__).parent / "cases" / "updates.yaml")


def build_pod(case: YamlValue) -> YamlValue:
    if "limits" in case:
        return pod(case["limits"])
    metadata = {"name": "p", "namespace": "team", **case["original"].get("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": case["original"]["spec"],
    }


@pytest.mark.asyncio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_update_cases(case: YamlValue) -> None:
    harness = AdmissionHarness()
    if "facts" in case:
        harness.configure(case.get("configuration", {}), case["facts"])
    original = build_pod(case)
    translated = (await harness.pod(original)).after
    assert translated["spec"]["resourceClaims"]
    current = jsonpatch.apply_patch(translated, case.get("others", []))
    base = original if case.get("from") == "original" else current
    update = jsonpatch.apply_patch(base, case.get("change", []))
    response = await harness.pod(update, operation="UPDATE", old=current)
    if "code" in case:
        assert response.status["code"] == case["code"]
        assert case["message"] in response.status["message"]
        return
    assert response.allowed
    assert response.after == jsonpatch.apply_patch(current, case.get("after", []))
    begun = [
        w.startswith(b) for w, b in zip(response.warnings, case.get("warnings", []), strict=True)
    ]
    assert all(begun), response.warnings
    second_response = await harness.pod(response.after, operation="UPDATE", old=current)
    assert not second_response.patch


@pytest.mark.asyncio
async def test_translated_pods_are_preserved_after_the_namespace_opts_out() -> None:
    harness = AdmissionHarness()
    original = pod({"nvidia.com/gpu": "1"})
    current = (await harness.pod(original)).after
    harness.cluster.namespaces = {}
    assert (await harness.pod(original, operation="UPDATE", old=current)).after == current


@pytest.mark.asyncio
@pytest.mark.parametrize("amount", [1, "1", "1000m"])
@pytest.mark.parametrize("cpu", [{}, {"cpu": "1"}])
async def test_a_pod_that_the_command_translated_takes_its_original_manifest(
    amount: YamlValue, cpu: YamlValue
) -> None:
    harness = AdmissionHarness()
    # The command writes the amount into the annotation as the manifest has it, without a request.
    manifest = pod({"nvidia.com/gpu": amount, **cpu})
    del manifest["spec"]["containers"][0]["resources"]["requests"]
    translated = as_served((await harness.pod(manifest)).after)
    stored = as_served(pod({"nvidia.com/gpu": f"{from_json(amount)}", **cpu}))
    response = await harness.pod(stored, operation="UPDATE", old=translated)
    assert response.allowed
    assert response.after == translated


@pytest.mark.asyncio
async def test_an_update_of_a_pod_without_the_annotation_is_unchanged() -> None:
    harness = AdmissionHarness()
    old = pod({"nvidia.com/gpu": "1"})
    new = pod({"nvidia.com/gpu": "2"})
    new["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: "[]"}
    response = await harness.pod(new, operation="UPDATE", old=old)
    assert response.allowed
    assert not response.patch


@pytest.mark.asyncio
async def test_an_update_without_its_objects_is_denied() -> None:
    harness = AdmissionHarness()
    current = (await harness.pod(pod({"nvidia.com/gpu": "1"}))).after
    response = await harness.pod(current, operation="UPDATE", old=current, object=None)
    assert response.status["code"] == 400


@pytest.mark.asyncio
@pytest.mark.parametrize("part", ["metadata", "spec"])
@pytest.mark.parametrize("value", [None, 1.5, "x", [], [{}]])
async def test_a_malformed_pod_gets_no_patch_that_cannot_be_applied(
    part: str, value: YamlValue
) -> None:
    harness = AdmissionHarness()
    current = (await harness.pod(pod({"nvidia.com/gpu": "1"}))).after
    response = await harness.pod(
        {**current, part: value}, name="p", operation="UPDATE", old=current
    )
    assert response.allowed
    missing = {key: each for key, each in current.items() if key != part}
    assert (await harness.pod(missing, name="p", operation="UPDATE", old=current)).allowed


FORGED: YamlValue = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace"]),
            "path": st.sampled_from(
                [
                    "/metadata/labels/quarantine",
                    "/metadata/finalizers",
                    "/metadata/annotations/mine",
                    "/metadata/ownerReferences",
                    "/spec/tolerations",
                    "/spec/nodeSelector",
                    "/spec/nodeSelector/zone",
                    "/spec/containers/0/image",
                    "/spec/containers/0/securityContext",
                    "/spec/containers",
                    "/spec/activeDeadlineSeconds",
                    "/spec/containers/0/resources/limits",
                    "/metadata",
                    "",
                ]
            ),
            "value": st.sampled_from(
                ["true", ["x/y"], {"zone": "a"}, [], {}, None, 5, {"quarantine": "true"}]
            ),
        }
    ),
    max_size=4,
)
# Changes that a privileged client may make on a running pod, and that must not be reverted.
OTHERS: YamlValue = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.just({"quarantine": "true"}),
        "finalizers": st.just(["x/y"]),
        "nodeSelector": st.just({"zone": "a"}),
        "image": st.just("y"),
        "deadline": st.just(5),
        "mine": st.just("true"),
    },
)


@settings(max_examples=drawn(16, thorough=50))
@given(FORGED, OTHERS, st.sampled_from([{}, {"nodeSelector": {"zone": "b"}}]))
def test_a_forged_original_annotation_reverts_no_other_change(
    forged: YamlValue, others: YamlValue, spec: YamlValue
) -> None:
    old = pod({"cpu": "1"}, **spec)
    old["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: json.dumps(forged), "mine": "0"}
    new = json.loads(json.dumps(old))
    for name, value in others.items():
        match name:
            case "labels" | "finalizers":
                new["metadata"][name] = value
            case "nodeSelector":
                new["spec"]["nodeSelector"] = value
            case "image":
                new["spec"]["containers"][0]["image"] = value
            case "deadline":
                new["spec"]["activeDeadlineSeconds"] = value
            case "mine":
                new["metadata"]["annotations"]["mine"] = value
    edits, _ = preserve_translation(old, new, Configuration())
    assert equal_json(apply_edits(new, edits), new)


@settings(max_examples=drawn(12, thorough=60))
@given(
    *[
        st.recursive(
            st.sampled_from([1, "a", None]),
            lambda below: (
                st.dictionaries(st.sampled_from("xyz"), below, max_size=3)
                | st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from("xyz"), "v": below}), max_size=3
                )
            ),
            max_leaves=6,
        )
        for _ in range(3)
    ]
)
def test_a_merge_keeps_the_current_value_and_the_changes(
    current: YamlValue, original: YamlValue, update: YamlValue
) -> None:
    assert merge(current, original, current) == current
    assert merge(current, original, original) == current
    assert merge(current, current, update) == update
    result = merge(current, original, update)
    assert merge(current, original, result) == result


def as_served(pod: YamlValue) -> YamlValue:
    """Return a pod with the amounts of its containers as the API server writes them.

    A limit without a request becomes one.
    """
    served: YamlValue = json.loads(json.dumps(pod))
    for part in ("initContainers", "containers"):
        for container in served["spec"].get(part) or ():
            resources = container.get("resources") or {}
            for amounts in (resources.get("limits"), resources.get("requests")):
                for name, amount in (amounts or {}).items():
                    read = valid_quantity(amount)
                    amounts[name] = amount if read is None else f"{read}"
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
    return served


@settings(max_examples=drawn(16, thorough=80))
@given(ASKING, st.sampled_from(CLUSTERS), INJECTED)
def test_the_original_pod_with_injected_values_changes_nothing(
    pod: YamlValue, by: TranslationContext, steps: list[tuple[str, int, int]]
) -> None:
    """A client replaces the pod by the pod that would exist without Drawbridge."""
    done = translate(pod, by)
    assume(done.edits)
    # The annotation keeps the amounts of a manifest; the API server writes its own form elsewhere.
    current = as_served(injected(apply_edits(pod, done.edits), asked(pod), steps))
    update = as_served(restore_original(current))
    edits, findings = preserve_translation(current, update, by.configuration)
    assert findings == ()
    kept = apply_edits(update, edits)
    assert without_theirs(kept) == without_theirs(current)
    assert theirs(kept) == theirs(current)


def test_hostile_original_annotations_cause_no_exception() -> None:
    async def ask() -> None:
        harness = AdmissionHarness()
        for text in (
            "[" * 100_000,
            '{"a":' * 5000,
            "\\ud800",
            '[{"op":"add","path":"/spec","value":1e400}]',
        ):
            old = pod({"cpu": "1"})
            old["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: text}
            reply = await await_reply(
                harness.admission.review_pod(review(pod(), operation="UPDATE", old=old), SECONDS)
            )
            assert reply.status == 200

    asyncio.run(ask())
