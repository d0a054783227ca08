"""The contexts that a waiting pod is translated with again."""

import copy
import itertools
from typing import Any

import msgspec
import pytest

from controller.pod_templates import check_content, list_contexts, rebuild_templates
from controller.watched_objects import WatchedPod, WatchedPodMetadata
from drawbridge.cluster.store import CachedObject
from drawbridge.config.model import Configuration, Decisions, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.values import Value
from drawbridge.facts.model import ClassFacts, Cluster, Facts, ResourceFacts
from drawbridge.names import FACTS_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.cluster.memory_store import MemoryStore
from tests.tables import every_row

BRIDGE, NATIVE = Placement.BRIDGE, Placement.NATIVE
FPGA = "example.com/fpga"
TRANSLATING = Configuration(decisions=Decisions(native_extended_names="translate"))
POOL = OwnedPool(DriverName("gpu.example.com"), LabelSelector())


@every_row(
    ("configuration", "noted", "decided", "expected"),
    [
        (Configuration(), "", NATIVE, [NATIVE]),
        # The pod was admitted before the way back, which keeps the pools.
        (Configuration(owned_pools=(POOL,)), "bridge", NATIVE, [NATIVE, BRIDGE]),
        (Configuration(), "bridge", NATIVE, [NATIVE, BRIDGE]),
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "bridge", BRIDGE, [BRIDGE, NATIVE]),
        # An older version noted nothing, or the pod was native when it was admitted.
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "", BRIDGE, [BRIDGE, NATIVE]),
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "", NATIVE, [NATIVE, BRIDGE]),
        (Configuration(), "moat", NATIVE, [NATIVE]),
    ],
)
def test_the_placement_of_admission_is_tried_first(
    configuration: Configuration, noted: str, decided: Placement, expected: list[Placement]
) -> None:
    annotations = {FACTS_ANNOTATION: "sha256:1", PLACEMENT_LABEL: noted}
    pod = WatchedPod(WatchedPodMetadata(annotations=annotations))
    contexts = list_contexts(pod, TranslationContext(configuration), lambda _: None, decided)
    assert [each.configuration.placement for each in contexts] == expected


def _serve(device_class: str) -> Facts:
    """Return facts in which this class serves the name of the pod, and has the driver's devices."""
    return Facts(
        cluster=Cluster(version="1.37"),
        classes=(
            ClassFacts(device_class, extended=FPGA, drivers=("fpga.example.com",), devices=1),
        ),
        names=(ResourceFacts(FPGA, classes=(device_class,)),),
    )


def _store(pod: Any) -> CachedObject[WatchedPod]:  # noqa: ANN401
    metadata = {**pod["metadata"], "namespace": "ml"}
    return MemoryStore(WatchedPod).put({**pod, "metadata": metadata})


@pytest.mark.parametrize("now", [_serve("small"), Facts()])
def test_a_template_is_rebuilt_by_the_names_of_the_noted_facts(now: Facts) -> None:
    """Another class serves the name now, or none does."""
    limits: Value = {FPGA: "1"}
    containers: Value = [{"name": "main", "resources": {"limits": limits}}]
    pod: Value = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    admitted = _serve("large")
    translation = translate(pod, make_context(TRANSLATING, admitted, "sha256:1"))
    (template,) = translation.templates
    current = make_context(TRANSLATING, now, "sha256:2")
    watched = WatchedPod(WatchedPodMetadata(annotations={FACTS_ANNOTATION: "sha256:1"}))
    rebuilt = rebuild_templates(
        _store(apply_edits(pod, translation.edits)),
        frozenset([template.name]),
        list_contexts(watched, current, lambda _: admitted, NATIVE),
        (),
        admin_access=False,
    )
    assert rebuilt == (template,)


@every_row(("placement", "amount", "position"), [*itertools.product(Placement, ("1", "2"), (0, 1))])
def test_the_templates_of_two_translations_of_a_pod_are_rebuilt(
    placement: Placement, amount: str, position: int
) -> None:
    """Another webhook added a container with a request in between, and the facts changed."""
    configuration = msgspec.structs.replace(TRANSLATING, placement=placement)
    facts = (_serve("large"), _serve("small"))
    contexts = [
        make_context(configuration, each, f"sha256:{each.classes[0].name}") for each in facts
    ]
    containers: list[Value] = [{"name": "main", "resources": {"limits": {FPGA: "1"}}}]
    pod: Any = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    first = translate(pod, contexts[0])
    between: Any = copy.deepcopy(apply_edits(pod, first.edits))
    side = {"name": "side", "resources": {"limits": {FPGA: amount}}}
    between["spec"]["containers"].insert(position, side)
    second = translate(between, contexts[1])
    made = {each.name: each for each in (*first.templates, *second.templates)}
    assert len(made) == 2
    for missing in (made.keys(), {first.templates[0].name}, {second.templates[0].name}):
        rebuilt = rebuild_templates(
            _store(apply_edits(between, second.edits)),
            frozenset(missing),
            contexts,
            (),
            admin_access=False,
        )
        assert rebuilt == tuple(made[name] for name in sorted(missing))


@pytest.mark.parametrize("value", [b"1" * 5000, b"[" * 5000 + b"]" * 5000])
def test_a_template_that_cannot_be_decoded_is_not_ours(value: bytes) -> None:
    assert check_content(b'{"spec":%b}' % value) == (False, False)
