"""What holds for every pod and every cluster: made-up pods, the examples, and the tables' pods."""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jsonpatch
import msgspec
import pytest
from hypothesis import assume, settings
from hypothesis import given as every
from hypothesis import strategies as st

from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.facts.model import Facts, ResourceFacts
from drawbridge.finding import Severity
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import restore_original, to_operations
from drawbridge.translate.context import Translation, TranslationContext, make_context
from drawbridge.translate.decisions.node_offers import PodAsks
from drawbridge.translate.decisions.outcome import resolve_asks
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests.workloads import find_places
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, read_yaml_documents
from tests.thorough import THOROUGH, drawn
from tests.translate import worlds
from tests.translate.generated_pods import ASKING, PODS, untouched
from tests.translate.test_dialects import CASES, build_pod, load_configuration

ROOT = Path(__file__).parents[2]
KNOWN = set(ACCEPTED_NAMES)
EXAMPLES = [
    pytest.param(place.pod, id=f"{path.name} {place.path}")
    for path in sorted((ROOT / "examples").glob("*/*.yaml"))
    for value in read_yaml_documents(path.read_text("utf-8"))
    for place in find_places(value)
]
DIALECTS = [
    pytest.param(build_pod(p.values[0]), load_configuration(p.values[0]), id=p.id) for p in CASES
]
PLUGINS = ("nvidia.com/gpu", "koordinator.sh/gpu", "rdma/hca")


def clusters() -> Iterator[TranslationContext]:
    """Nothing known; drivers of every kind; the same beside plugins; and our own allocator."""
    words = (
        "hgx-h100 gpu.nvidia.com",
        "hgx-h100 dra.net",
        "hgx-h100 hami-core-gpu.project-hami.io",
        "dgx-a100 gpu.nvidia.com static-mig",
    )
    there = worlds.facts(words)
    names = tuple(ResourceFacts(each, nodes=2, devices=16, most=8, dual=1) for each in PLUGINS)
    yield make_context(Configuration())
    yield make_context(Configuration(), there)
    yield make_context(Configuration(), msgspec.structs.replace(there, names=names))
    yield make_context(Configuration(placement=Placement.BRIDGE), there)


CLUSTERS = list(clusters())


def holds(pod: YamlValue, by: TranslationContext) -> Translation:
    """Translate a pod, and check what is true of every translation."""
    before = copy.deepcopy(pod)
    done = translate(pod, by)
    assert pod == before
    for finding in done.findings:
        assert finding.code in KNOWN
        assert finding.message
        assert finding.remedy
    if any(each.severity is Severity.ERROR for each in done.findings):
        assert (done.edits, done.templates) == ((), ())
    if not done.edits:
        return done
    after = apply_edits(pod, done.edits)
    assert list(done.operations) == to_operations(done.edits)
    assert jsonpatch.apply_patch(pod, to_operations(done.edits)) == after
    again = translate(after, by)
    assert (again.edits, again.templates) == ((), ())
    assert restore_original(after) == asked(pod)
    way = json.loads(after["metadata"]["annotations"][ORIGINAL_ANNOTATION])
    assert jsonpatch.apply_patch(after, way) == asked(pod)
    return done


def asked(pod: YamlValue) -> YamlValue:
    """The pod as the way back gives it: a way back that somebody wrote and nobody reads is gone."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if ORIGINAL_ANNOTATION not in annotations:
        return pod
    rest = {key: text for key, text in annotations.items() if key != ORIGINAL_ANNOTATION}
    return {**pod, "metadata": {**pod["metadata"], "annotations": rest}}


def demand(pod: YamlValue, by: TranslationContext) -> Counter[str]:
    """The devices that the translated asks of a pod are for, by kind."""
    asks = resolve_asks(
        PodAsks(read_pod(pod, by.configuration).asks),
        by.facts,
        by.configuration,
    ).asks
    counted: Counter[str] = Counter()
    for ask in asks:
        counted[f"{ask.kind}"] += ask.count or 0
    return counted


def supplied(done: Translation) -> Counter[str]:
    """The devices that the claims ask for, by kind; of alternatives the first one counts.

    Only a request for NICs has alternatives with more devices, for each PCIe root that may need it.
    """
    counted: Counter[str] = Counter()
    for made in done.templates:
        requests: YamlValue = get_value(made.object, ("spec", "spec", "devices", "requests"))
        for request in requests:
            ways = request.get("firstAvailable") or [request["exactly"]]
            kind, counts = request["name"].partition("-")[0], [way.get("count", 0) for way in ways]
            assert counts == sorted(counts)
            assert kind == "nic" or len(set(counts)) == 1
            counted[kind] += counts[0]
    return counted


@settings(max_examples=drawn(12, thorough=60))
@every(PODS, st.sampled_from(CLUSTERS))
def test_generated_pods_have_the_properties(pod: YamlValue, by: TranslationContext) -> None:
    holds(pod, by)


@settings(max_examples=drawn(12, thorough=60))
@every(ASKING, st.sampled_from(CLUSTERS))
def test_generated_pods_keep_their_fields_and_get_their_requests(
    pod: YamlValue, by: TranslationContext
) -> None:
    done = holds(pod, by)
    assume(done.edits)
    assert untouched(apply_edits(pod, done.edits)) == untouched(pod)
    wanted, got = demand(pod, by), supplied(done)
    assert got["gpu"] == wanted["gpu"]
    assert got["nic"] >= wanted["nic"]


@every_row("pod", EXAMPLES)
def test_the_examples_have_the_same_properties(pod: YamlValue) -> None:
    for by in CLUSTERS:
        done = holds(pod, by)
        if done.edits:
            assert supplied(done)["gpu"] == demand(pod, by)["gpu"]


@every_row(("number", "pod", "case"), [(i, *row.values) for i, row in enumerate(DIALECTS)])
def test_the_pods_of_the_tables_have_the_same_properties(
    number: int, pod: YamlValue, case: Configuration
) -> None:
    for cluster in CLUSTERS if THOROUGH else [CLUSTERS[number % len(CLUSTERS)]]:
        configuration = msgspec.structs.replace(
            cluster.configuration,
            legacy=case.legacy,
            targets=(*cluster.configuration.targets, *case.targets),
        )
        holds(pod, make_context(configuration, cluster.facts))


@settings(max_examples=drawn(10, thorough=30))
@every(PODS)
def test_the_same_facts_give_the_same_bytes(pod: YamlValue) -> None:
    """Whatever was translated before; and from a copy of the facts."""
    for by in CLUSTERS[1:]:
        facts = msgspec.json.decode(msgspec.json.encode(by.facts), type=Facts)
        fresh = make_context(by.configuration, facts)
        bare = TranslationContext(by.configuration, facts, fresh.facts_digest)
        said = [plain(translate(pod, each)) for each in (by, by, fresh, bare)]
        assert len(set(said)) == 1


def plain(done: Translation) -> bytes:
    return msgspec.json.encode([to_operations(done.edits), done.templates, done.findings])


@pytest.mark.parametrize("by", CLUSTERS)
def test_a_container_added_later_is_translated(by: TranslationContext) -> None:
    """As another webhook does between two of our turns."""
    container = {"name": "main", "resources": {"limits": {"koordinator.sh/gpu": 100}}}
    pod: YamlValue = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    first = apply_edits(pod, holds(pod, by).edits)
    more = {"name": "side", "resources": {"limits": {"koordinator.sh/gpu": 200, "cpu": 1}}}
    added: YamlValue = copy.deepcopy(first)
    added["spec"]["containers"].append(more)
    done = translate(added, by)
    second: YamlValue = apply_edits(added, done.edits)
    names = [each["name"] for each in second["spec"]["resourceClaims"]]
    assert names == ["drawbridge", "drawbridge-2"]
    claims = [each["resources"]["claims"] for each in second["spec"]["containers"]]
    assert [[each["name"] for each in one] for one in claims] == [["drawbridge"], ["drawbridge-2"]]
    assert translate(second, by).edits == ()
    whole: YamlValue = copy.deepcopy(pod)
    whole["spec"]["containers"].append(more)
    assert restore_original(second) == whole
    way = json.loads(second["metadata"]["annotations"][ORIGINAL_ANNOTATION])
    assert jsonpatch.apply_patch(second, way) == whole
