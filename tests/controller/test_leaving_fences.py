"""Taints that are not needed any more, because a policy is the fence: the node first says so."""

from controller.giving_back import LEASE_SECONDS
from drawbridge.agreement.owned_pools import LEAVING, SETTLE_SECONDS
from tests.controller.test_owned_nodes import ENTRY, FENCE, OWNED, Scene


def make_settled(*nodes: str) -> Scene:
    """Return a scene at the end of the time for which the policy has been the fence of nodes."""
    scene = Scene({**ENTRY, "fence": "rules"})
    for name in nodes:
        scene.node(name, OWNED, [FENCE])
    scene.rules_hold = True
    scene.reconcile()
    scene.time = SETTLE_SECONDS
    return scene


def test_a_node_says_that_its_fence_leaves_before_its_taint_goes() -> None:
    """An allocator can use pools behind the taint of which the controller has not heard."""
    scene = make_settled("b")
    assert scene.reconcile() == {"b": [FENCE]}
    assert scene.said("b") == LEAVING
    for seconds in (0, LEASE_SECONDS - 1):
        scene.time = SETTLE_SECONDS + seconds
        assert scene.reconcile() == {"b": [FENCE]}
    scene.time = SETTLE_SECONDS + LEASE_SECONDS
    assert scene.reconcile() == {"b": None}
    assert scene.said("b") is None


def test_a_fence_that_is_needed_again_leaves_no_more() -> None:
    scene = make_settled("b")
    scene.reconcile()
    scene.reconcile()
    scene.rules_hold = False
    scene.time += LEASE_SECONDS
    assert scene.reconcile() == {"b": [FENCE]}
    assert scene.said("b") == FENCE["timeAdded"]
    scene.rules_hold = True
    scene.reconcile()
    scene.time += SETTLE_SECONDS
    scene.reconcile()
    assert (scene.reconcile(), scene.said("b")) == ({"b": [FENCE]}, LEAVING)


def test_a_taint_stays_if_the_policy_is_found_gone_while_others_are_written() -> None:
    scene = make_settled("a", "b")
    scene.reconcile()
    scene.reconcile()
    scene.time += LEASE_SECONDS

    def lose_policy(*_: object) -> None:
        scene.rules_hold = False

    scene.nodes.before_write = lose_policy
    assert scene.reconcile() == {"a": None, "b": [FENCE]}


def test_a_fence_that_another_leader_lets_stay_leaves_anew_in_the_next_term() -> None:
    """Allocators that have heard of that alone go on behind the taint."""
    scene = make_settled("b")
    scene.reconcile()
    scene.reconcile()
    assert scene.said("b") == LEAVING
    scene.time += LEASE_SECONDS
    scene.start()
    assert scene.reconcile() == {"b": [FENCE]}
    scene.time += LEASE_SECONDS
    assert scene.reconcile() == {"b": None}


def test_the_settle_time_of_a_fence_that_is_not_needed_begins_with_the_term() -> None:
    scene = make_settled("b")
    scene.start()
    scene.reconcile()
    assert scene.said("b") != LEAVING
    scene.time += SETTLE_SECONDS
    scene.reconcile()
    assert scene.said("b") == LEAVING


def test_the_taint_of_a_node_without_a_fence_goes_at_once_after_the_settle_time() -> None:
    scene = Scene({**ENTRY, "unfenced": True})
    scene.node("b", OWNED, [FENCE])
    scene.reconcile()
    scene.time = SETTLE_SECONDS
    assert scene.reconcile() == {"b": None}
