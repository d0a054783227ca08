"""What is stuck is found with who holds it, and what goes on is not."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import process_time
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.report.stuck import codes
from drawbridge.report.stuck.context import StuckSearch
from drawbridge.report.stuck.find import find_stuck, report_stuck
from drawbridge.report.stuck.found import MOST_PODS, Stuck
from drawbridge.report.stuck.objects import (
    KINDS,
    HangingClaim,
    HangingObjects,
    HangingPod,
    from_values,
)
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "stuck.yaml")
T = TypeVar("T")
NOW = datetime.fromisoformat("2026-11-24T12:00:00Z").timestamp()


def find(case: YamlValue) -> tuple[Stuck, ...]:
    complete = KINDS - {*case.get("unknown", ())}
    return find_stuck(from_values(case["objects"], now=NOW, complete=complete))


@every_row("case", CASES, ids=lambda case: case["name"])
def test_stuck_cases(case: YamlValue) -> None:
    every = find(case)
    assert [f"{each.code} {each.object} {each.held_by}" for each in every] == case["stuck"]
    assert case.get("says", "") in "".join(each.text for each in every)


def test_every_code_has_a_case_and_a_neighbour_that_is_not_stuck() -> None:
    told = {line.split(" ", 1)[0] for case in CASES for line in case["stuck"]}
    assert told == {*codes.CODES}
    assert sum(not case["stuck"] for case in CASES) > len(told)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_finding_names_the_holder_and_a_remedy(case: YamlValue) -> None:
    every = find(case)
    for stuck, finding in zip(every, report_stuck(every), strict=True):
        assert stuck.held_by in finding.message
        assert finding.remedy
        assert finding.object == stuck.object


def test_a_finding_says_since_when_and_which_devices_are_held() -> None:
    case = next(each for each in CASES if "never unprepares" in each["name"])
    (finding,) = report_stuck(find(case))
    assert "since 2026-11-24 11:50:00 UTC" in finding.message
    assert finding.message.endswith("devices d.com/n1/gpu-0")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(["Pod", "ResourceClaim", "Node", "Namespace", "ResourceSlice"]), values)
def test_malformed_objects_are_left_out(kind: str, value: YamlValue) -> None:
    for part in ("metadata", "spec", "status"):
        find_stuck(from_values([{"kind": kind, part: value}]))


def test_nothing_is_stuck_in_nothing() -> None:
    assert find_stuck(HangingObjects(NOW)) == ()


def test_objects_of_files_are_as_old_as_their_latest_time() -> None:
    heartbeat = {"type": "Ready", "lastHeartbeatTime": "2026-11-24T11:00:10Z"}
    node: YamlValue = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": [heartbeat]},
    }
    deleted = {"name": "c", "deletionTimestamp": "2026-11-24T11:00:00Z", "finalizers": ["x.com/y"]}
    claim: YamlValue = {"kind": "ResourceClaim", "metadata": deleted}
    assert find_stuck(from_values([node, claim])) == ()
    heartbeat["lastHeartbeatTime"] = "2026-11-24T11:00:40Z"
    (only,) = find_stuck(from_values([node, claim]))
    assert only.since == deleted["deletionTimestamp"]


def test_slices_of_one_node_tell_of_its_devices_only() -> None:
    selector = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "values": ["n1"]}]}]
    }
    result = {"driver": "d.com", "pool": "n1", "device": "gpu-0"}
    claim: YamlValue = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}},
    }
    complete = KINDS - {"ResourceSlice"}
    for node, number in (("n1", 1), ("n2", 0), ("", 0)):
        objects = from_values([claim], now=NOW, complete=complete, only_node=node)
        assert len(find_stuck(objects)) == number


def as_slice(node: str, device: str, count: int = 1, generation: int = 1) -> YamlValue:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{device}"},
        "spec": {"driver": "d.com", "nodeName": node, "pool": pool, "devices": [{"name": device}]},
    }


def held_on(node: str, devices: int = 1) -> YamlValue:
    fields = [{"key": "metadata.name", "values": [node]}]
    results = [
        {"driver": "d.com", "pool": "n1", "device": f"gpu-{number}"} for number in range(devices)
    ]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
            }
        },
    }


@pytest.mark.parametrize(
    "foreign",
    [
        (),
        (as_slice("n2", "x", 5),),
        (as_slice("n2", "gpu-0"),),
        (as_slice("n2", "gpu-0", 1, 7),),
        (as_slice("n2", "gpu-0", 2),),
    ],
)
def test_slices_of_another_node_in_the_pool_hide_no_lost_device(
    foreign: tuple[YamlValue, ...],
) -> None:
    nodes: list[YamlValue] = [{"kind": "Node", "metadata": {"name": n}} for n in ("n1", "n2")]
    lost = [*nodes, held_on("n1"), as_slice("n1", "gpu-1"), *foreign]
    assert [each.code for each in find_stuck(from_values(lost, now=NOW))] == ["NotPublished"]
    kept = [*nodes, held_on("n1"), as_slice("n1", "gpu-0"), *foreign]
    assert find_stuck(from_values(kept, now=NOW)) == ()


def test_of_many_devices_the_first_are_named() -> None:
    claim = held_on("n1", 32)
    claim["metadata"] |= {"deletionTimestamp": "2026-11-24T11:00:00Z", "finalizers": ["x.com/y"]}
    (stuck,) = find_stuck(from_values([claim], now=NOW))
    assert (len(stuck.devices), stuck.more_devices) == (4, 28)
    assert stuck.text.endswith("d.com/n1/gpu-3 and 28 more devices")


def test_a_time_that_has_no_utc_is_shown_as_it_is() -> None:
    claim = held_on("n1")
    since = "0001-01-01T00:00:00+14:00"
    claim["metadata"] |= {"deletionTimestamp": since, "finalizers": ["x.com/y"]}
    (stuck,) = find_stuck(from_values([claim], now=NOW))
    assert f"since {since}" in stuck.text


class Counted(tuple[T, ...]):  # noqa: SLOT001  # a tuple has no slots for a number
    """Objects that count how often they are read one after another."""

    reads = 0

    def __iter__(self) -> Iterator[T]:
        self.reads += 1
        return super().__iter__()


def test_objects_are_read_a_few_times_whatever_number_of_namespaces_leaves() -> None:
    leaving = {"deletionTimestamp": "2026-11-24T11:00:00Z"}
    namespaces: list[YamlValue] = [
        {"kind": "Namespace", "metadata": {"name": f"n{number}", **leaving}} for number in range(50)
    ]
    claim = held_on("n1", 2)
    claim["metadata"]["namespace"] = "n7"
    objects = from_values([*namespaces, claim], now=NOW, complete=frozenset())
    pods, claims = Counted(objects.pods), Counted(objects.claims)
    (stuck,) = find_stuck(replace(objects, pods=pods, claims=claims))
    assert (stuck.object, stuck.message) == ("Namespace/n7", "under deletion, with 1 claim")
    assert stuck.devices == ("d.com/n1/gpu-0", "d.com/n1/gpu-1")
    assert max(pods.reads, claims.reads) < 10


def test_the_pods_of_one_claim_are_listed_in_linear_time() -> None:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    pod = msgspec.convert({"spec": spec}, HangingPod)
    claim = msgspec.convert({"metadata": {"name": "c"}}, HangingClaim)
    search = StuckSearch(HangingObjects(NOW, (claim,), pods=(pod,) * 50_000))
    began = process_time()
    assert len(search.waiting["default", "c"].first) == MOST_PODS
    # To copy all pods for each of them takes more than 5 seconds.
    assert process_time() - began < 1


def test_each_of_many_pods_that_name_many_claims_is_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = [f"c{number}" for number in range(40)]
    spec = {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}
    created = {"creationTimestamp": "2026-11-24T10:00:00Z"}
    pod = {"kind": "Pod", "metadata": {"name": "p", **created}, "spec": spec}
    written = [{"kind": "ResourceClaim", "metadata": {"name": each, **created}} for each in claims]
    pods = [{**pod, "metadata": {"name": f"p{number}", **created}} for number in range(40)]
    objects = from_values([*written, *pods], now=NOW, complete=frozenset())
    asked: list[str | None] = []
    is_old = StuckSearch.is_old
    monkeypatch.setattr(
        StuckSearch, "is_old", lambda self, text: asked.append(text) or is_old(self, text)
    )
    assert len(find_stuck(objects)) == len(claims)
    assert len(asked) < 10 * (len(pods) + len(claims))


def unprepared(namespace: str, name: str) -> list[YamlValue]:
    """A pod that does not start although it has its device, without UIDs as in written files."""
    times = {"lastTransitionTime": "2026-11-24T10:00:00Z"}
    claim = held_on("n1")
    claim["metadata"] = {"name": name, "namespace": namespace}
    return [
        claim,
        {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": "n1",
                "resourceClaims": [{"name": "c", "resourceClaimName": name}],
            },
            "status": {"conditions": [{"type": "PodScheduled", "status": "True", **times}]},
        },
    ]


def event_about(namespace: str, name: str, message: str) -> YamlValue:
    return {
        "kind": "Event",
        "reason": "FailedPrepareDynamicResources",
        "message": message,
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name},
    }


def test_an_event_of_another_namespace_says_nothing_of_a_pod_with_the_same_name() -> None:
    values = [*unprepared("a", "p"), event_about("b", "p", "of b")]
    node: YamlValue = {"kind": "Node", "metadata": {"name": "n1"}}
    (stuck,) = find_stuck(from_values([node, as_slice("n1", "gpu-0"), *values], now=NOW))
    assert stuck.object == "Pod/a/p"
    assert "of b" not in stuck.message
    values.append(event_about("a", "p", "of a"))
    (stuck,) = find_stuck(from_values([node, as_slice("n1", "gpu-0"), *values], now=NOW))
    assert stuck.message.endswith("of a")


def test_events_are_read_once_for_all_pods() -> None:
    values = [each for number in range(50) for each in unprepared("a", f"p{number}")]
    events = Counted([event_about("a", f"p{number}", f"of {number}") for number in range(50)])
    node: YamlValue = {"kind": "Node", "metadata": {"name": "n1"}}
    objects = from_values([node, as_slice("n1", "gpu-0"), *values], now=NOW)
    stuck = find_stuck(replace(objects, events=events))
    assert len(stuck) == 50
    assert all(each.message.endswith(f"of {each.object[7:]}") for each in stuck)
    assert events.reads == 1
