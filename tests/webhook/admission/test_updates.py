"""Updates of translated pods."""

import asyncio
import json
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.model import Legacy
from documents.patch import apply_edits
from documents.values import equal_json
from dra.names import ORIGINAL_ANNOTATION
from tests.tables import YamlValue, load_cases
from tests.translate.injected_webhooks import INJECTED, injected, theirs, without_theirs
from tests.translate.test_properties import CLUSTERS, asked
from tests.translate.test_undo import VALID
from tests.webhook.admission.harness import AdmissionHarness, pod, review
from translate.changes.patch import restore_original
from translate.pods import TranslationContext, translate
from webhook.admission.updates import merge, preserve_translation

CASES = load_cases(Path(__file__).parent / "cases" / "updates.yaml")


def build_pod(case: YamlValue) -> YamlValue:
    if "limits" in case:
        return pod(case["limits"])
    metadata = {"name": "p", "namespace": "team", **case["asked"].get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": case["asked"]["spec"]}


@pytest.mark.asyncio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_update_cases(case: YamlValue) -> None:
    harness = AdmissionHarness()
    if "facts" in case:
        harness.configure({}, case["facts"])
    asked = build_pod(case)
    translated = (await harness.pod(asked)).after
    assert translated["spec"]["resourceClaims"]
    stands = jsonpatch.apply_patch(translated, case.get("others", []))
    begins = asked if case.get("from") == "asked" else stands
    update = jsonpatch.apply_patch(begins, case.get("change", []))
    answer = await harness.pod(update, operation="UPDATE", old=stands)
    if "code" in case:
        assert answer.status["code"] == case["code"]
        assert case["message"] in answer.status["message"]
        return
    assert answer.allowed
    assert answer.after == jsonpatch.apply_patch(stands, case.get("after", []))
    begun = [
        w.startswith(b) for w, b in zip(answer.warnings, case.get("warnings", []), strict=True)
    ]
    assert all(begun), answer.warnings
    again = await harness.pod(answer.after, operation="UPDATE", old=stands)
    assert not again.patch


@pytest.mark.asyncio
async def test_translated_pods_are_preserved_after_the_namespace_opts_out() -> None:
    harness = AdmissionHarness()
    asked = pod({"nvidia.com/gpu": "1"})
    stands = (await harness.pod(asked)).after
    harness.cluster.namespaces = {}
    assert (await harness.pod(asked, operation="UPDATE", old=stands)).after == stands


@pytest.mark.asyncio
async def test_an_update_of_a_pod_without_the_annotation_is_unchanged() -> None:
    harness = AdmissionHarness()
    old = pod({"nvidia.com/gpu": "1"})
    new = pod({"nvidia.com/gpu": "2"})
    new["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: "[]"}
    answer = await harness.pod(new, operation="UPDATE", old=old)
    assert answer.allowed
    assert not answer.patch


@pytest.mark.asyncio
async def test_an_update_without_its_objects_is_denied() -> None:
    harness = AdmissionHarness()
    stands = (await harness.pod(pod({"nvidia.com/gpu": "1"}))).after
    answer = await harness.pod(stands, operation="UPDATE", old=stands, object=None)
    assert answer.status["code"] == 400


@pytest.mark.asyncio
@pytest.mark.parametrize("part", ["metadata", "spec"])
@pytest.mark.parametrize("value", [None, 1.5, "x", [], [{}]])
async def test_a_malformed_pod_gets_no_patch_that_cannot_be_applied(
    part: str, value: YamlValue
) -> None:
    harness = AdmissionHarness()
    stands = (await harness.pod(pod({"nvidia.com/gpu": "1"}))).after
    answer = await harness.pod({**stands, part: value}, name="p", operation="UPDATE", old=stands)
    assert answer.allowed
    missing = {key: each for key, each in stands.items() if key != part}
    assert (await harness.pod(missing, name="p", operation="UPDATE", old=stands)).allowed


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


@settings(deadline=None, max_examples=50)
@given(FORGED, OTHERS, st.sampled_from([{}, {"nodeSelector": {"zone": "b"}}]))
def test_a_forged_original_annotation_reverts_no_other_change(
    forged: YamlValue, others: YamlValue, held: YamlValue
) -> None:
    old = pod({"cpu": "1"}, **held)
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
    edits, _ = preserve_translation(old, new, Legacy())
    assert equal_json(apply_edits(new, edits), new)


@settings(deadline=None, max_examples=60)
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
    stands: YamlValue, asked: YamlValue, update: YamlValue
) -> None:
    assert merge(stands, asked, stands) == stands
    assert merge(stands, asked, asked) == stands
    assert merge(stands, stands, update) == update
    result = merge(stands, asked, update)
    assert merge(stands, asked, result) == result


@settings(deadline=None, max_examples=80)
@given(VALID, st.sampled_from(CLUSTERS), INJECTED)
def test_the_original_pod_with_injected_values_changes_nothing(
    pod: YamlValue, by: TranslationContext, steps: list[tuple[str, int, int]]
) -> None:
    """A client replaces the pod by the pod that would exist without Drawbridge."""
    done = translate(pod, by)
    if not done.edits:
        return
    stands = injected(apply_edits(pod, done.edits), asked(pod), steps)
    update = restore_original(stands)
    edits, told = preserve_translation(stands, update, by.configuration.legacy)
    assert told == ()
    kept = apply_edits(update, edits)
    assert without_theirs(kept) == without_theirs(stands)
    assert theirs(kept) == theirs(stands)


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
            reply = await harness.admission.review_pod(review(pod(), operation="UPDATE", old=old))
            assert reply.status == 200

    asyncio.run(ask())
