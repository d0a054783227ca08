"""Pools that are not wanted any more: the policy first says that they leave."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from controller.fence_rules import KEEP_SECONDS, SECONDS_PER_CHANGES
from controller.giving_back import LEASE_SECONDS, GivingBack
from controller.owned_nodes import MAX_CHANGES
from drawbridge.agreement.device_fence import write_pools
from drawbridge.api_error import ApiError
from drawbridge.dra.inventory import PoolID
from drawbridge.names import LEAVING_POOLS_ANNOTATION
from tests.agreement.bridge_configuration import configured
from tests.controller.test_fence_rules import DRIVER, ENTRY, POLICY, Scene, make_fenced


def test_the_policy_says_that_a_pool_leaves_before_it_names_it_no_more() -> None:
    """An allocator can see slices of which this process does not hear."""
    scene = make_fenced("a", "b")
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    assert scene.leaving == []
    scene.reconcile(KEEP_SECONDS)
    assert (scene.pools, scene.leaving) == (["a", "b"], ["a"])
    scene.reconcile(1)
    assert scene.reconciler.policy_version == scene.version_of_policy
    scene.reconcile(LEASE_SECONDS - 1)
    assert (scene.pools, scene.leaving) == (["a", "b"], ["a"])
    scene.reconcile(1)
    assert (scene.pools, scene.leaving) == (["b"], [])


def test_a_pool_that_returns_leaves_no_more_and_waits_anew_when_it_goes_again() -> None:
    scene = make_fenced("a")
    scene.withdraw("a")
    scene.node("a")
    scene.reconcile(LEASE_SECONDS)
    assert (scene.pools, scene.leaving) == (["a"], [])
    scene.withdraw("a")
    assert (scene.pools, scene.leaving) == (["a"], ["a"])


def test_a_pool_stays_while_nobody_can_say_that_it_needs_the_fence_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = make_fenced("a", "b")
    scene.withdraw("a")

    async def fail(_: GivingBack, pools: Collection[PoolID]) -> Collection[PoolID]:
        raise ApiError(504, "Timeout", f"no response for {pools}")

    with monkeypatch.context() as patched:
        patched.setattr(GivingBack, "find_ended", fail)
        scene.reconcile(LEASE_SECONDS)
        assert (scene.pools, scene.leaving) == (["a", "b"], ["a"])
        scene.node("c")
        scene.reconcile(1)
        assert scene.pools == ["a", "b", "c"]  # what is wanted does not wait
    scene.reconcile(LEASE_SECONDS)
    scene.reconcile(LEASE_SECONDS)
    assert scene.pools == ["b", "c"]


def test_a_pool_that_somebody_lets_stay_leaves_anew() -> None:
    scene = make_fenced("a")
    scene.withdraw("a")
    live = scene.policies.objects["", POLICY]
    scene.policies.put({**live, "metadata": {"name": POLICY}})
    scene.reconcile(LEASE_SECONDS)
    assert (scene.pools, scene.leaving) == (["a"], ["a"])
    scene.reconcile(1)
    scene.reconcile(LEASE_SECONDS)
    assert scene.pools == []


def test_a_write_that_arrives_late_undoes_no_newer_one() -> None:
    """An API server executes a request up to a minute later."""
    scene = make_fenced("a")
    scene.withdraw("a")
    late: list[dict[str, Any]] = []

    def wait(_verb: str, value: dict[str, Any]) -> None:
        late.append(value)
        raise ApiError(0, "", "no response in time")

    scene.policies.before_write = wait
    with pytest.raises(ApiError):
        scene.reconcile(LEASE_SECONDS)
    scene.policies.before_write = lambda _verb, _value: None
    scene.node("a")
    scene.reconcile(1)
    with pytest.raises(ApiError) as caught:
        asyncio.run(scene.policies.merge(POLICY, late[0]))
    assert caught.value.conflict
    assert (scene.pools, scene.leaving) == (["a"], [])


def test_a_policy_that_changes_during_a_run_closes_no_node() -> None:
    scene = make_fenced("a")

    def change(_verb: str, _value: dict[str, Any]) -> None:
        scene.policies.before_write = lambda _verb, _value: None
        live = scene.policies.objects["", POLICY]
        scene.policies.put({**live, "status": {"observedGeneration": 2}})

    scene.policies.before_write = change
    scene.node("b")
    with pytest.raises(ApiError):
        scene.reconcile(1)
    assert (scene.reconciler.holds("a"), scene.pools) == (True, ["a"])
    assert scene.reconcile(1) is True
    assert scene.pools == ["a", "b"]


def test_a_pool_leaves_although_other_processes_lead_again_and_again() -> None:
    """The policy says what leaves, also to the next leader."""
    scene = make_fenced("a")
    scene.slices.remove(f"a-{DRIVER}")
    for _ in range(2):
        scene.start()
        for _ in range(15):
            scene.reconcile(2)
    assert scene.pools == []


def test_a_pool_that_another_leader_lets_stay_leaves_anew_in_the_next_term() -> None:
    scene = make_fenced("a")
    scene.withdraw("a")
    scene.start()
    scene.node("a")
    scene.reconcile(1)
    assert (scene.pools, scene.leaving) == (["a"], [])
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    scene.reconcile(KEEP_SECONDS)
    assert (scene.pools, scene.leaving) == (["a"], ["a"])
    scene.start()
    for seconds, pools in ((0, ["a"]), (LEASE_SECONDS - 1, ["a"]), (1, [])):
        scene.reconcile(seconds)
        assert scene.pools == pools


def test_a_pool_that_is_not_wanted_is_kept_for_its_time_in_each_term() -> None:
    scene = make_fenced("a")
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    scene.start()
    scene.reconcile(KEEP_SECONDS)
    assert scene.leaving == []
    scene.reconcile(KEEP_SECONDS)
    assert scene.leaving == ["a"]


def test_a_wanted_pool_of_which_somebody_says_that_it_leaves_stays() -> None:
    """Until the annotation is gone, allocators do not use it."""
    scene = make_fenced("a")
    live = scene.policies.objects["", POLICY]
    annotations = {LEAVING_POOLS_ANNOTATION: write_pools([PoolID(DRIVER, "a")])}
    scene.policies.put({**live, "metadata": {"name": POLICY, "annotations": annotations}})
    assert scene.leaving == ["a"]
    scene.reconcile(LEASE_SECONDS)
    assert (scene.pools, scene.leaving) == (["a"], [])


def test_a_pool_of_which_somebody_says_that_it_leaves_waits_for_the_allocators() -> None:
    scene = make_fenced("a")
    scene.slices.remove(f"a-{DRIVER}")
    live = scene.policies.objects["", POLICY]
    annotations = {LEAVING_POOLS_ANNOTATION: write_pools([PoolID(DRIVER, "a")])}
    scene.policies.put({**live, "metadata": {"name": POLICY, "annotations": annotations}})
    scene.reconcile()
    scene.reconcile(LEASE_SECONDS - 1)
    assert (scene.pools, scene.leaving) == (["a"], ["a"])
    scene.reconcile(1)
    assert scene.pools == []


def test_nothing_is_remembered_of_a_pool_that_the_policy_names_no_more() -> None:
    scene = make_fenced("a")
    live = scene.policies.objects["", POLICY]
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    scene.let_go()
    scene.reconcile()
    assert scene.pools == []
    scene.policies.put({**live, "metadata": {"name": POLICY}})
    scene.reconcile(KEEP_SECONDS)
    assert (scene.pools, scene.leaving) == (["a"], [])


def test_the_pools_of_many_nodes_stay_until_all_can_have_their_taint() -> None:
    scene = Scene(ENTRY)
    names = [f"{number:03}" for number in range(2 * MAX_CHANGES)]
    for name in names:
        scene.node(name)
    scene.reconcile()
    scene.is_served = False
    scene.reconcile()
    longer = 2 * SECONDS_PER_CHANGES
    scene.reconcile(KEEP_SECONDS + longer - 1)
    assert scene.leaving == []
    scene.reconcile(1)
    assert scene.leaving == names


def test_many_pools_of_one_node_keep_no_others() -> None:
    scene = Scene(ENTRY)
    names = [f"{number:03}" for number in range(MAX_CHANGES)]
    for name in names:
        scene.node("many", pool=name)
    scene.reconcile()
    scene.is_served = False
    scene.reconcile()
    scene.reconcile(KEEP_SECONDS)
    assert scene.leaving == names


def test_pools_go_although_other_nodes_change_all_the_time() -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    assert scene.reconcile() is True
    scene.slices.remove(f"a-{DRIVER}")
    scene.nodes.remove("a")
    for _ in range(10):
        scene.node("b")
        assert scene.reconcile(5) is True
    assert scene.pools == ["b"]


def test_what_another_leader_has_named_leaves_after_the_entry_in_the_next_term() -> None:
    scene = Scene()
    scene.reconcile()
    first, nothing = scene.reconciler, scene.configuration
    scene.configuration = configured(ENTRY)
    scene.start()
    scene.node("a")
    scene.reconcile()
    assert (scene.pools, scene.ruled) == (["a"], ["a"])
    scene.configuration, scene.reconciler = nothing, first
    scene.start()
    scene.reconcile()
    scene.let_go()
    assert (scene.pools, scene.ruled) == ([], [])
