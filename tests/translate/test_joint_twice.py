"""A second translation changes nothing, also if the partner of a joint request is already a claim.

The pods ask for GPUs and NICs together, in clusters that serve none, one or both by claims.
"""

import functools
import itertools
import json
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.patch import apply_edits
from drawbridge.finding import Severity
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.thorough import drawn
from tests.translate import test_clusters

JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
GPUS, NICS, HAMI = "gpu.nvidia.com", "dra.net", "hami-core-gpu.project-hami.io"
SLICES: Final = ([], [GPUS], [NICS], [GPUS, NICS], [f"{GPUS} static-mig", NICS], [HAMI, NICS])
PLUGINS: Final = (
    {},
    {"koordinator.sh/gpu": 800},
    {"koordinator.sh/rdma": 800},
    {"nvidia.com/gpu": 8, "rdma/hca": 100},
)

NAMES: Final = (
    "koordinator.sh/gpu",
    "koordinator.sh/rdma",
    "koordinator.sh/gpu-memory-ratio",
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/mig-1g.5gb",
    "rdma/hca",
)


def build_context(
    slices: list[str], plugins: dict[str, int], placement: Placement, *, are_apart: bool
) -> TranslationContext:
    """Build the facts of a cluster whose plugins and slices are on one node or on two."""
    nodes = (
        {"n1": {"slices": slices}, "n2": {"plugins": plugins}}
        if are_apart
        else {"n1": {"slices": slices, "plugins": plugins}}
    )
    classes: dict[str, Any] = {name: {} for name in (GPUS, "mig.nvidia.com", NICS, HAMI)}
    facts = test_clusters.facts({"nodes": nodes, "classes": classes})
    return make_context(Configuration(placement=placement), facts)


@functools.cache
def contexts() -> tuple[TranslationContext, ...]:
    """Return the contexts of all combinations."""
    return tuple(
        build_context(slices, plugins, placement, are_apart=are_apart)
        for slices, plugins, placement, are_apart in itertools.product(
            SLICES, PLUGINS, Placement, (False, True)
        )
    )


LIMITS = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from([1, 2, 50, 100, 200, 400]), min_size=1, max_size=3
)
SCOPES: st.SearchStrategy[dict[str, str]] = st.sampled_from([{}, {"requiredScope": "SamePCIe"}])
TYPES = st.permutations(["gpu", "rdma"])


@settings(max_examples=drawn(240, thorough=1200), derandomize=True)
@given(
    st.deferred(lambda: st.sampled_from(contexts())),
    st.lists(LIMITS, min_size=1, max_size=2),
    TYPES,
    SCOPES,
)
def test_a_second_translation_of_a_joint_request_changes_nothing(
    context: TranslationContext,
    containers: list[dict[str, int]],
    types: list[str],
    scope: dict[str, str],
) -> None:
    pod: Any = test_clusters.pod({"limits": containers})
    pod["metadata"]["annotations"] = {JOINT: json.dumps({"deviceTypes": types, **scope})}
    first = translate(pod, context)
    second = translate(apply_edits(pod, first.edits), context)
    if first.edits:
        assert second.edits == ()
        assert restore_original(apply_edits(pod, first.edits)) == pod
        assert Severity.ERROR not in {each.severity for each in second.findings}, second.findings


def test_the_contexts_translate_one_partner_or_both() -> None:
    """Otherwise the property would hold for the wrong reason."""
    limits = {"nvidia.com/gpu": 1, "koordinator.sh/rdma": 100}
    pod: Any = test_clusters.pod({"limits": [limits]})
    left = set()
    for context in contexts():
        if edits := translate(pod, context).edits:
            after: Any = apply_edits(pod, edits)
            left.add(len(after["spec"]["containers"][0]["resources"].get("limits", {})))
    assert left == {0, 1}
