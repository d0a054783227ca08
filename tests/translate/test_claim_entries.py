"""How containers refer to claims: with one entry for each claim, and to the devices they asked for.

Kubernetes declares the entries as a map by the name of the claim: server-side apply refuses two.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import assume, settings
from hypothesis import given as every
from hypothesis import strategies as st

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import Path, get_value
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.decisions.node_offers import PodAsks
from drawbridge.translate.decisions.outcome import resolve_asks
from drawbridge.translate.legacy.asks import DeviceUser
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.pods import translate
from drawbridge.translate.targets.claims import ComposedClaim, assemble_claims
from drawbridge.translate.targets.plan import (
    ClaimPart,
    Expressibility,
    ProximityRule,
    RequestConfig,
    RequestConstraint,
    TargetResult,
    UnnamedRequest,
)
from tests.tables import YamlValue, every_row
from tests.thorough import drawn
from tests.translate import worlds
from tests.translate.generated_pods import JOINT, SHARING
from tests.translate.test_properties import CLUSTERS, holds

FACTS = worlds.facts(("hgx-h100 gpu.nvidia.com", "hgx-h100 dra.net"))
GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
TOGETHER = {JOINT: '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'}


def pod_of(limits: YamlValue, annotations: YamlValue = None) -> YamlValue:
    containers = [{"name": name, "resources": {"limits": limits[name]}} for name in limits]
    metadata = {"name": "p", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": containers}}


def entries_of(pod: YamlValue, path: Path) -> list[YamlValue]:
    entries: YamlValue = get_value(pod, (*path, "resources", "claims"))
    return list(entries or ())


def is_told(pod: YamlValue, by: TranslationContext) -> bool:
    """Whether `translate` warns that server-side apply refuses the manifest."""
    manifest = msgspec.structs.replace(by, is_manifest=True, translations=None)
    return "ClaimNamedTwice" in {each.code for each in translate(pod, manifest).findings}


@settings(max_examples=drawn(30, thorough=200))
@every(SHARING, st.sampled_from(CLUSTERS))
def test_each_container_reaches_its_devices_by_one_entry_for_each_claim(
    pod: YamlValue, by: TranslationContext
) -> None:
    done = holds(pod, by)
    assume(done.edits)
    asks = read_pod(pod, by.configuration).asks
    outcome = resolve_asks(PodAsks(asks), by.facts, by.configuration)
    assert [template.name for _, template in outcome.claims] == [e.name for e in done.templates]
    after: YamlValue = apply_edits(pod, done.edits)
    names = [each["name"] for each in after["spec"]["resourceClaims"]]
    twice = False
    for user in {user.path for ask in asks for user in ask.users}:
        wanted = {
            (name, request)
            for name, (claim, _) in zip(names, outcome.claims, strict=True)
            for ask in outcome.asks
            for request in claim.asks.get(ask.name, ())
            if user in {each.path for each in ask.users}
        }
        entries = entries_of(after, user)
        twice = twice or max(Counter(e["name"] for e in entries).values(), default=0) > 1
        reached = [
            (each["name"], request["name"])
            for each in entries
            for request in requests_of(outcome.claims[names.index(each["name"])][0])
            if each.get("request") in (None, request["name"])
        ]
        assert sorted(reached) == sorted(wanted)
    assert is_told(pod, by) is twice


def requests_of(claim: ComposedClaim) -> list[dict[str, Any]]:
    requests: YamlValue = get_value(claim.spec, ("devices", "requests"))
    return list(requests)


@every_row(
    ("limits", "entries", "requests"),
    [
        ({"a": {GPU: 1}}, [["drawbridge gpu"]], ["gpu"]),
        ({"a": {GPU: 1, EFA: 2}}, [["drawbridge"]], ["gpu nic"]),
        (
            {"a": {GPU: 1}, "b": {EFA: 1}, "c": {GPU: 2}},
            [["drawbridge gpu-0"], ["drawbridge nic"], ["drawbridge gpu-1"]],
            ["gpu-0 gpu-1 nic"],
        ),
        (
            {"a": {GPU: 1, EFA: 1}, "b": {GPU: 1}},
            [["drawbridge"], ["drawbridge-2 gpu"]],
            ["gpu nic", "gpu"],
        ),
        # One entry is enough for the others wherever their requests are, so they share a claim.
        (
            {"a": {GPU: 1}, "b": {GPU: 1, EFA: 1}, "c": {EFA: 1}},
            [["drawbridge gpu"], ["drawbridge-2"], ["drawbridge nic"]],
            ["gpu nic", "gpu nic"],
        ),
        (
            {"a": {GPU: 1, EFA: 1}, "b": {GPU: 1, EFA: 1}},
            [["drawbridge"], ["drawbridge-2"]],
            ["gpu nic", "gpu nic"],
        ),
        # Each GPU and its NIC share a place, and nothing relates the two places.
        (
            {"a": {"koordinator.sh/gpu": 200}, "b": {"koordinator.sh/rdma": 200}},
            [["drawbridge gpu", "drawbridge-2 gpu"], ["drawbridge nic", "drawbridge-2 nic"]],
            ["gpu nic", "gpu nic"],
        ),
    ],
)
def test_requests_are_in_different_claims_where_one_entry_needs_it(
    limits: YamlValue, entries: list[list[str]], requests: list[str]
) -> None:
    pod = pod_of(limits, TOGETHER if "koordinator" in f"{limits}" else None)
    done = translate(pod, make_context(Configuration(), FACTS))
    after = apply_edits(pod, done.edits)
    listed = [entries_of(after, ("spec", "containers", number)) for number in range(len(limits))]
    assert [[" ".join(each.values()) for each in one] for one in listed] == entries
    specs: list[YamlValue] = [get_value(each.object, ("spec", "spec")) for each in done.templates]
    names = [[each["name"] for each in spec["devices"]["requests"]] for spec in specs]
    assert [" ".join(each) for each in names] == requests


def test_what_a_rule_keeps_in_one_claim_is_told_in_a_manifest_only() -> None:
    """NICs in different places keep all requests of two containers in one claim."""
    limits = {"a": {"koordinator.sh/gpu": 300}, "b": {"koordinator.sh/rdma": 100}}
    pod = pod_of(limits, TOGETHER)
    facts = worlds.facts(("dgx-a100 gpu.nvidia.com", "dgx-a100 dra.net"))
    by = make_context(Configuration(), facts)
    done = translate(pod, by)
    after = apply_edits(pod, done.edits)
    assert [each["request"] for each in entries_of(after, ("spec", "containers", 0))] == [
        "gpu-0",
        "gpu-1",
    ]
    assert "ClaimNamedTwice" not in {each.code for each in done.findings}
    assert is_told(pod, by)
    assert not is_told(pod_of({"a": {GPU: 1, EFA: 1}, "b": {GPU: 1}}), by)


def result_of(*users: str, **part: YamlValue) -> TargetResult:
    """A part with a request for each word, whose letters are the containers that use it."""
    requests = tuple(
        UnnamedRequest(
            "gpu", {}, 1, f"{n}", tuple(DeviceUser(("spec", "containers", ord(c)), c) for c in word)
        )
        for n, word in enumerate(users)
    )
    return TargetResult((), Expressibility.EQUAL, ClaimPart(requests, **part))


MATCH = RequestConstraint("matchAttribute", "d.io/a", (1, 3))
NEAR = ProximityRule((3,), (1,), ("d.io/a",), required=True)


@pytest.mark.parametrize(
    "part",
    [{"constraints": (MATCH,)}, {"distinct_rules": (MATCH,)}, {"proximity_rules": (NEAR,)}],
)
def test_a_part_is_divided_with_all_that_is_about_its_requests(part: YamlValue) -> None:
    """Requests 1 and 3 stay together, and each claim has the settings of its own requests."""
    configs = tuple(RequestConfig(number, "d.io", {"of": number}) for number in range(4))
    first, second, third = assemble_claims(
        [result_of("a", "b", "ab", "c", configs=configs, **part)]
    )
    assert [list(each.asks) for each in (first, second, third)] == [["0"], ["1", "3"], ["2"]]
    kept: YamlValue = [get_value(each.spec, ("devices", "config")) for each in (first, second)]
    assert [[e["opaque"]["parameters"]["of"] for e in one] for one in kept] == [[0], [1, 3]]
    assert [e["requests"] for e in kept[1]] == [["gpu-0"], ["gpu-1"]]
    assert [*names_in(second)] == [["gpu-0", "gpu-1"]]
    assert [*names_in(first), *names_in(third)] == []


def names_in(claim: ComposedClaim) -> Iterator[list[str]]:
    """The requests of each constraint and each rule of a claim."""
    constraints: YamlValue = get_value(claim.spec, ("devices", "constraints"))
    yield from (each["requests"] for each in constraints or ())
    yield from (list(each.requests) for each in claim.rules.distinct)
    yield from (sorted((*each.primary, *each.others)) for each in claim.rules.joint)


def test_what_a_driver_keeps_in_a_claim_of_its_own_stays_together() -> None:
    claims = assemble_claims([result_of("a", "a", "b", separation_key="d.io")])
    assert [list(each.asks) for each in claims] == [["0", "1", "2"]]


def test_too_many_containers_share_claims() -> None:
    """A claim for each container would be more claims than a pod may have."""
    pairs = [chr(number) for number in range(0x100, 0x100 + 65) for _ in range(2)]
    claims = assemble_claims([result_of(*pairs)])
    assert len(claims) == 5
    assert {len(use.entries) for each in claims[:4] for use in each.uses} == {2}
    assert len(assemble_claims([result_of(*pairs[:128])])) == 64
