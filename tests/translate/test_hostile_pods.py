"""Pods with as many parts of one kind as fit, and what a translation of them is limited to."""

import json

import msgspec
import pytest

from bench._hostile_shapes import SHAPES, container, pod, share
from bench.hostile import contexts, make_pod
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.facts.model import Facts
from drawbridge.translate.changes.patch import MAX_ANNOTATION_BYTES, restore_original
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests.workloads import find_other_requests
from drawbridge.translate.pods import translate
from drawbridge.translate.targets.claims import MAX_CLAIMS
from tests.tables import YamlValue, every_row
from tests.thorough import drawn

SIZE = drawn(8, thorough=48) * 1024
ALONE = TranslationContext(facts=Facts())
CONTEXTS = contexts()
CLUSTER = TranslationContext(facts=CONTEXTS["facts"].facts)


@every_row("name", SHAPES)
def test_every_shape_is_translated_or_refused_by_name(name: str) -> None:
    text = make_pod(SHAPES[name], SIZE)
    for context in CONTEXTS.values():
        first, second = (translate(msgspec.json.decode(text), context) for _ in range(2))
        assert first == second
        refused = any(each.severity == "error" for each in first.findings)
        assert not (refused and (first.edits or first.templates))


def test_many_changes_of_a_long_list_are_undone() -> None:
    step = {"op": "add", "path": "/spec/containers/0/env/0", "value": "x"}
    main = {"name": "main", "env": ["a"] * 20_000}
    text = json.dumps([step] * 4_000, separators=(",", ":"))
    value = pod({"containers": [main]}, {"drawbridge.dev/original": text})
    restored: YamlValue = restore_original(value)
    assert len(restored["spec"]["containers"][0]["env"]) == 24_000


def test_a_pod_of_many_containers_is_translated() -> None:
    containers = [container(f"c{i}", {"nvidia.com/gpu": 1}) for i in range(100)]
    translated = translate(
        pod({"containers": containers}), TranslationContext(facts=CONTEXTS["facts"].facts)
    )
    assert len(translated.templates) == 4
    assert all(finding.severity != "error" for finding in translated.findings)


def claims_of(count: int) -> YamlValue:
    return pod({"containers": [container(f"c{i}", share(i)) for i in range(count)]})


def test_a_pod_has_a_limited_number_of_claims() -> None:
    most = translate(claims_of(MAX_CLAIMS), CLUSTER)
    assert len(most.templates) == MAX_CLAIMS
    more = translate(claims_of(MAX_CLAIMS + 1), CLUSTER)
    assert [each.code for each in more.findings if each.severity == "error"] == ["TooManyClaims"]
    assert not more.edits
    assert not more.templates


def annotated(text: str) -> YamlValue:
    return pod({"containers": [container("main", {"nvidia.com/gpu": 1})]}, {"a": text})


@pytest.mark.parametrize("letter", ["x", "\u4e2d", "\ud800"])
def test_the_annotations_of_the_translated_pod_fit_the_api_server(letter: str) -> None:
    own: YamlValue = apply_edits(annotated(""), translate(annotated(""), CLUSTER).edits)
    used = sum(len(f"{k}{v}".encode()) for k, v in own["metadata"]["annotations"].items())
    width = len(letter.encode("utf-8", "surrogatepass"))
    room = (MAX_ANNOTATION_BYTES - used) // width
    assert translate(annotated(letter * room), CLUSTER).edits
    translated = translate(annotated(letter * (room + 1)), CLUSTER)
    (finding,) = (each for each in translated.findings if each.severity == "error")
    assert finding.code == "AnnotationsTooLarge"
    assert f"the limit is {MAX_ANNOTATION_BYTES}" in finding.message
    assert not translated.edits
    assert not translated.templates


def test_a_message_names_a_few_of_many_containers() -> None:
    init = [container("init", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10})]
    limits = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 20}
    main = [container("main", limits)]
    others = [container(f"other-{i}", limits) for i in range(20)]
    value = pod({"initContainers": [*others, *init], "containers": main})
    messages = [each.message for each in read_pod(value, Configuration()).findings]
    shared = (
        "main, other-0, other-1, other-2, other-3, other-4, other-5, other-6 and 13 more containers"
    )
    names = "nvidia.com/gpu, nvidia.com/gpumem"
    sees = f"sees more than it requests ({names})"
    assert messages == [f"init container init shares the devices of {shared} and {sees}"]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "a." * 100_000,
        "a.b/" * 50_000,
        "/a " * 60_000,
        "{%" * 100_000,
        "${" * 100_000,
        "${${a}" * 50_000,
        "limits" + " " * 200_000,
        "limits: " * 50_000,
        "a" + " #" * 100_000 + "'",
        "- " * 100_000 + "{",
        "\n - " * 50_000,
    ],
)
def test_a_patch_written_as_text_is_searched_in_linear_time(text: str) -> None:
    task = {"podSpecPatch": f"{text} nvidia.com/gpu: 1"}
    value: YamlValue = {"kind": "Workflow", "spec": {"templates": [task]}}
    assert [each.name for each in find_other_requests(value, ())] == ["nvidia.com/gpu"]
