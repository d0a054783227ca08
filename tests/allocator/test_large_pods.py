"""What the allocator reads of pods that are too large to be read whole at once."""

import json
from typing import Any

import pytest

from allocator.state.caches import without_unused_parts
from allocator.state.large_pods import MAX_WHOLE, PodReader
from allocator.state.node_amounts import summarized_requests
from drawbridge.ledger.node_resources import CPU, requested_amounts
from drawbridge.ledger.plugin_holders import find_held_names
from drawbridge.ledger.pods import Pod, pod_reader
from tests.tables import every_row

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
ZEROS = ("0", 0, "0.0", "0m", "-0", ".0")
FILLING = {"image": "i" * MAX_WHOLE}


def _container(requests: dict[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    return {"name": "c", "resources": {"requests": requests}, **fields}


def _read(reader: Any, spec: dict[str, Any], status: dict[str, Any]) -> Pod:  # noqa: ANN401  # a reader
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    read = reader.read(json.dumps({**value, "status": status}).encode())
    assert isinstance(read, Pod)
    return read


@every_row(
    ("spec", "status", "names"),
    [
        ({"containers": [_container({GPU: "1", "cpu": "3"})]}, {}, {GPU}),
        ({"containers": [{"resources": {"limits": {GPU: 2}}}]}, {}, {GPU}),
        ({"initContainers": [_container({NIC: "1"})], "containers": []}, {}, {NIC}),
        ({"containers": [_container({GPU: "0", NIC: "1k"})]}, {}, {NIC}),
        ({"containers": [_container({GPU: zero}) for zero in ZEROS]}, {}, set()),
        ({"containers": [_container({GPU: "0.5"}), _container({NIC: "00.1"})]}, {}, {GPU, NIC}),
        ({"containers": [_container({GPU: "1"})], "nodeName": ""}, {}, set()),
        ({"containers": [_container({GPU: "1"})]}, {"phase": "Succeeded"}, set()),
        (
            {"containers": [_container({GPU: "1", NIC: "1"})]},
            {"extendedResourceClaimStatus": {"requestMappings": [{"resourceName": NIC}]}},
            {GPU},
        ),
        ({"containers": [], "resources": {"requests": {"cpu": "1"}}}, None, set()),
    ],
    ids=str,
)  # fmt: skip
def test_a_large_pod_holds_the_names_of_a_small_one(
    spec: dict[str, Any], status: dict[str, Any], names: set[str]
) -> None:
    spec = {"nodeName": "n1", **spec}
    small = _read(pod_reader(), spec, status or {})
    assert find_held_names(small) == names
    large = _read(PodReader(), {**spec, "ephemeralContainers": [FILLING]}, status or {})
    assert find_held_names(large) == find_held_names(without_unused_parts(large)) == names


def test_of_a_large_pod_only_what_it_requests_is_left_out() -> None:
    spec = {
        "containers": [_container({"cpu": "3"}, **FILLING)],
        "overhead": {"cpu": "1"},
        "resourceClaims": [{"name": "c", "resourceClaimName": "d"}],
        "tolerations": [{"key": "k"}],
        "priority": 7,
    }
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    status = {"conditions": conditions, "containerStatuses": [{"name": "c"}]}
    whole, large = (_read(reader, spec, status) for reader in (pod_reader(), PodReader()))
    assert (requested_amounts(whole)[CPU], requested_amounts(large).get(CPU)) == (4000, None)
    for field in ("resource_claims", "tolerations", "priority"):
        assert getattr(large.spec, field) == getattr(whole.spec, field)
    assert large.metadata == whole.metadata
    assert large.status.conditions == whole.status.conditions
    assert not large.spec.containers
    assert not large.status.container_statuses


def test_more_names_than_any_node_has_are_not_all_kept() -> None:
    requests = {f"example.com/{number}": "1" for number in range(5_000)}
    large = _read(PodReader(), {"nodeName": "n1", "containers": [_container(requests)]}, {})
    assert 0 < len(find_held_names(large)) < 1_000


@pytest.mark.parametrize("text", [b"{", b'{"spec": 1}', b'{"status": []}'])
def test_a_large_text_that_is_no_pod_is_no_pod(text: bytes) -> None:
    read = PodReader().read(text.replace(b"{", b"{" + b" " * MAX_WHOLE, 1))
    assert not isinstance(read, Pod)


def test_what_pods_share_stays_small() -> None:
    names = [f"example.com/{number}" for number in range(50)]
    spec = {"nodeName": "n1", "containers": [_container(dict.fromkeys(names, "1"))]}
    first, second = (summarized_requests(_read(pod_reader(), spec, {})) for _ in range(2))
    assert first == second
    assert first is not second
    few = {"nodeName": "n1", "containers": [_container({GPU: "1"})]}
    first, second = (summarized_requests(_read(pod_reader(), few, {})) for _ in range(2))
    assert first is second
