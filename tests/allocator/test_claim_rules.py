"""The rules of claims decide which nodes fit, and which of them is better."""

import pytest

from drawbridge.names import RULES_ANNOTATION
from tests.allocator.clusters import Cluster, allocation_on, claim, codes, gpu_slice, rules


@pytest.mark.parametrize(("policy", "best"), [("packed", "n2"), ("spread", "n1")])
def test_the_strategy_of_a_claim_wins_over_the_default(policy: str, best: str) -> None:
    default = "spread" if policy == "packed" else "packed"
    cluster = Cluster(strategy=default, n1=4, n2=4)
    cluster.add_claim(claim("held", allocation=allocation_on("n2", 0), pods=["x"]))
    annotation = rules(strategy={"nodes": policy})
    assert cluster.prefilter("p", claim("c", annotations=annotation)).fit[0].node == best


def test_a_node_on_which_a_preferred_rule_holds_is_better() -> None:
    near_each_other = gpu_slice("n2", 2, attributes={"d.io/root": {"string": "a"}})
    cluster = Cluster(near_each_other, n1=2, n2=2)
    near = {"requests": ["r"], "attributes": ["d.io/root"], "required": False}
    reply = cluster.prefilter("p", claim("c", 2, annotations=rules(near=[near])))
    assert [(each.node, each.score) for each in reply.fit] == [("n2", 100), ("n1", 0)]


def test_the_required_rules_of_a_claim_are_obeyed() -> None:
    cluster = Cluster(n1=2)
    for required, expected in ((True, ["RuleUnmet"]), (False, [])):
        near = {"requests": ["r"], "attributes": ["d.io/root"], "required": required}
        name = f"required-{required}"
        reply = cluster.prefilter(name, claim(name, annotations=rules(near=[near])))
        assert codes(reply) == expected
        assert bool(reply.fit) is not required


def test_a_pod_is_told_that_its_rules_cannot_be_read() -> None:
    no_devices_yet = Cluster()
    reply = no_devices_yet.prefilter("q", claim("d", annotations={RULES_ANNOTATION: "{"}))
    assert (codes(reply), list(reply.fit)) == (["ClaimRefused"], [])
    assert "metadata.annotations[drawbridge.dev/rules]: invalid JSON" in reply.message
