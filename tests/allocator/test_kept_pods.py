"""What the cache of pods keeps of one: what the allocator reads of it, and nothing else."""

from allocator.state.caches import without_unused_parts
from drawbridge.ledger.pods import Pod, PodSpec
from drawbridge.names import CHECKPOINTS_ANNOTATION
from tests.allocator.clusters import pod
from tests.tables import every_row

METADATA = {
    "labels": {"app": "a"},
    "annotations": {CHECKPOINTS_ANNOTATION: "10m", "other": "text"},
    "ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": True}],
    "finalizers": ["example.com/f"],
}
SPEC = {
    "schedulerName": "drawbridge",
    "priority": 5,
    "preemptionPolicy": "Never",
    "nodeSelector": {"zone": "a"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "schedulingGroup": {"podGroupName": "g"},
    "workloadRef": {"name": "w", "podGroup": "g"},
    "schedulingGates": [{"name": "one"}, {"name": "two"}],
    "terminationGracePeriodSeconds": 7,
}
WITH_CLAIMS = {
    "scheduler_name",
    "priority",
    "resource_claims",
    "scheduling_group",
    "workload_ref",
    "scheduling_gates",
    "termination_grace_period_seconds",
}
WHILE_IT_WAITS = {"preemption_policy", "node_selector", "affinity", "tolerations"}


PARTS = {"labels", "annotations", "owner_references"}


def read(*claims: str, node: str = "") -> Pod:
    """Return a pod with these claims and all that can be kept of it."""
    return pod("p", *claims, node=node, spec=SPEC, **METADATA)


@every_row(
    "whole,spec,metadata",
    [
        (read(), set(), set()),
        (read("c", node="n1"), WITH_CLAIMS | {"node_name"}, PARTS),
        (read("c"), WITH_CLAIMS | WHILE_IT_WAITS, PARTS),
    ],
    ids=["without claims", "with a node", "while it waits"],
)
def test_the_cache_keeps_of_a_pod(whole: Pod, spec: set[str], metadata: set[str]) -> None:
    kept = without_unused_parts(whole)
    of_spec = {name for name in PodSpec.__struct_fields__ if getattr(kept.spec, name)}
    assert of_spec - {"resources"} == spec
    assert {name for name in (*PARTS, "finalizers") if getattr(kept.metadata, name)} == metadata
    for name in spec - {"scheduling_gates"}:
        assert getattr(kept.spec, name) == getattr(whole.spec, name)
    assert kept.spec.scheduling_gates == (whole.spec.scheduling_gates[:1] if spec else ())
    assert "other" not in kept.metadata.annotations
