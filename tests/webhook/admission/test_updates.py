"""An update of a translated pod: the table, and what nobody can reach by it."""

import asyncio
import json
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.model import Legacy
from documents.patch import patched
from documents.values import same
from dra.names import ORIGINAL_ANNOTATION
from tests.tables import Plain, cases
from tests.translate.injected_webhooks import INJECTED, injected, theirs, without_theirs
from tests.translate.test_properties import CLUSTERS, asked
from tests.translate.test_undo import VALID
from tests.webhook.admission.harness import Town, pod, review
from translate.changes.patch import restored
from translate.pods import Given, translate
from webhook.admission.updates import healed, merged

CASES = cases(Path(__file__).parent / "cases" / "updates.yaml")


def asked_for(case: Plain) -> Plain:
    if "limits" in case:
        return pod(case["limits"])
    metadata = {"name": "p", "namespace": "team", **case["asked"].get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": case["asked"]["spec"]}


@pytest.mark.asyncio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_the_table_of_updates(case: Plain) -> None:
    town = Town()
    if "facts" in case:
        town.decides({}, case["facts"])
    asked = asked_for(case)
    translated = (await town.pod(asked)).after
    assert translated["spec"]["resourceClaims"]
    stands = jsonpatch.apply_patch(translated, case.get("others", []))
    begins = asked if case.get("from") == "asked" else stands
    update = jsonpatch.apply_patch(begins, case.get("change", []))
    answer = await town.pod(update, operation="UPDATE", old=stands)
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
    again = await town.pod(answer.after, operation="UPDATE", old=stands)
    assert not again.patch


@pytest.mark.asyncio
async def test_a_namespace_that_opted_out_still_keeps_its_translated_pods() -> None:
    town = Town()
    asked = pod({"nvidia.com/gpu": "1"})
    stands = (await town.pod(asked)).after
    town.known.namespaces = {}
    assert (await town.pod(asked, operation="UPDATE", old=stands)).after == stands


@pytest.mark.asyncio
async def test_an_update_of_a_pod_without_our_mark_is_let_through() -> None:
    town = Town()
    old = pod({"nvidia.com/gpu": "1"})
    new = pod({"nvidia.com/gpu": "2"})
    new["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: "[]"}
    answer = await town.pod(new, operation="UPDATE", old=old)
    assert answer.allowed
    assert not answer.patch


@pytest.mark.asyncio
async def test_an_update_without_its_objects_is_refused() -> None:
    town = Town()
    stands = (await town.pod(pod({"nvidia.com/gpu": "1"}))).after
    answer = await town.pod(stands, operation="UPDATE", old=stands, object=None)
    assert answer.status["code"] == 400


@pytest.mark.asyncio
@pytest.mark.parametrize("part", ["metadata", "spec"])
@pytest.mark.parametrize("value", [None, 1.5, "x", [], [{}]])
async def test_what_is_no_pod_gets_no_patch_that_cannot_be_applied(part: str, value: Plain) -> None:
    town = Town()
    stands = (await town.pod(pod({"nvidia.com/gpu": "1"}))).after
    answer = await town.pod({**stands, part: value}, name="p", operation="UPDATE", old=stands)
    assert answer.allowed
    missing = {key: each for key, each in stands.items() if key != part}
    assert (await town.pod(missing, name="p", operation="UPDATE", old=stands)).allowed


FORGED: Plain = st.lists(
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
# What somebody with more rights may write on a running pod, and must not be undone.
OTHERS: Plain = st.fixed_dictionaries(
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
def test_a_forged_way_back_undoes_nothing_of_others(
    forged: Plain, others: Plain, held: Plain
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
    edits, _ = healed(old, new, Legacy())
    assert same(patched(new, edits), new)


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
def test_a_merge_keeps_what_stands_and_what_is_changed(
    stands: Plain, asked: Plain, update: Plain
) -> None:
    assert merged(stands, asked, stands) == stands
    assert merged(stands, asked, asked) == stands
    assert merged(stands, stands, update) == update
    result = merged(stands, asked, update)
    assert merged(stands, asked, result) == result


@settings(deadline=None, max_examples=80)
@given(VALID, st.sampled_from(CLUSTERS), INJECTED)
def test_what_was_asked_with_what_others_inserted_changes_nothing(
    pod: Plain, by: Given, steps: list[tuple[str, int, int]]
) -> None:
    """As somebody who replaces the pod by what it would be without us."""
    done = translate(pod, by)
    if not done.edits:
        return
    stands = injected(patched(pod, done.edits), asked(pod), steps)
    update = restored(stands)
    edits, told = healed(stands, update, by.configuration.legacy)
    assert told == ()
    kept = patched(update, edits)
    assert without_theirs(kept) == without_theirs(stands)
    assert theirs(kept) == theirs(stands)


def test_hostile_ways_back_end_nobody() -> None:
    async def ask() -> None:
        town = Town()
        for text in (
            "[" * 100_000,
            '{"a":' * 5000,
            "\\ud800",
            '[{"op":"add","path":"/spec","value":1e400}]',
        ):
            old = pod({"cpu": "1"})
            old["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: text}
            reply = await town.admission.pods(review(pod(), operation="UPDATE", old=old))
            assert reply.status == 200

    asyncio.run(ask())
