"""The contexts that a waiting pod is translated with again."""

import pytest

from controller.pod_templates import list_contexts
from controller.watched_objects import WatchedPod, WatchedPodMetadata
from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.names import FACTS_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate.pods import TranslationContext

BRIDGE, NATIVE = Placement.BRIDGE, Placement.NATIVE
POOL = OwnedPool(DriverName("gpu.example.com"), LabelSelector())


@pytest.mark.parametrize(
    ("configuration", "noted", "decided", "expected"),
    [
        (Configuration(), "", NATIVE, [NATIVE]),
        # The pod was admitted before the way back, which keeps the pools.
        (Configuration(owned_pools=(POOL,)), "bridge", NATIVE, [BRIDGE, NATIVE]),
        (Configuration(), "bridge", NATIVE, [BRIDGE, NATIVE]),
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "bridge", BRIDGE, [BRIDGE, NATIVE]),
        # An older version noted nothing, or the pod was native when it was admitted.
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "", BRIDGE, [BRIDGE, NATIVE]),
        (Configuration(placement=BRIDGE, owned_pools=(POOL,)), "", NATIVE, [NATIVE, BRIDGE]),
        (Configuration(), "moat", NATIVE, [NATIVE]),
    ],
)
def test_the_noted_placement_is_tried_first(
    configuration: Configuration, noted: str, decided: Placement, expected: list[Placement]
) -> None:
    annotations = {FACTS_ANNOTATION: "sha256:1", PLACEMENT_LABEL: noted}
    pod = WatchedPod(WatchedPodMetadata(annotations=annotations))
    contexts = list_contexts(pod, TranslationContext(configuration), lambda _: None, decided)
    assert [each.configuration.placement for each in contexts] == expected
