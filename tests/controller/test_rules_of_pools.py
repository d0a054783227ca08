"""The DeviceTaintRules of owned pools: they only spare other schedulers the attempt."""

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from controller.fair_queue import FairQueue
from controller.fence_rules import MAX_RULES, RULE_SECONDS
from drawbridge.agreement.device_fence import make_rule, rule_name
from drawbridge.api_error import ApiError
from drawbridge.dra.inventory import PoolID
from tests.cluster.memory_store import START
from tests.controller.test_fence_rules import DRIVER, ENTRY, POLICY, Scene, make_fenced


def test_rules_are_made_again_and_those_of_others_stay() -> None:
    scene = make_fenced("a", "b")
    a, b = (rule_name(PoolID(DRIVER, each)) for each in ("a", "b"))
    scene.rules.remove(a)
    changed = dict(scene.rules.objects["", b])
    changed["spec"] = {**changed["spec"], "deviceSelector": {"driver": DRIVER, "pool": "x"}}
    scene.rules.put(changed)
    theirs = {**make_rule(PoolID(DRIVER, "theirs")), "metadata": {"name": "theirs"}}
    scene.rules.put(theirs)
    scene.reconcile(RULE_SECONDS - 1)
    assert scene.ruled == ["theirs", "x"]
    scene.reconcile(1)
    assert scene.ruled == ["a", "b", "theirs"]


def test_rules_are_written_in_parts_so_that_the_policy_is_read_in_between() -> None:
    scene = Scene(ENTRY)
    names = [f"{number:03}" for number in range(2 * MAX_RULES + 2)]
    for end in (MAX_RULES + 1, len(names)):
        for name in names[end - MAX_RULES - 1 : end]:
            scene.node(name)
        assert scene.reconcile(1) is True
        assert scene.pools == names[:end]
        assert len(scene.ruled) == end - 1
        scene.reconcile(1)
        assert scene.ruled == names[:end]
    scene.rules.requests.clear()
    scene.reconcile(1)
    assert not scene.rules.requests


def test_the_rule_of_a_node_does_not_wait_for_those_of_another_one() -> None:
    """A node that is taken over publishes many pools under short names."""
    scene = Scene(ENTRY)
    scene.reconcile()
    for number in range(MAX_RULES + 10):
        scene.node("many", pool=f"p{number}")
    scene.node("b")
    scene.reconcile(1)
    assert len(scene.ruled) == MAX_RULES
    assert "b" in scene.ruled


def test_a_run_looks_only_for_the_rules_that_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []
    drain = FairQueue.drain

    def count(queue: FairQueue) -> Iterator[tuple[str, str]]:
        for key in drain(queue):
            turns.append(key)
            yield key

    monkeypatch.setattr(FairQueue, "drain", count)
    scene = Scene(ENTRY)
    for number in range(3 * MAX_RULES):
        scene.node(f"{number:03}")
    scene.reconcile()
    assert len(scene.ruled) == MAX_RULES
    assert len(turns) == MAX_RULES


def test_the_oldest_rules_go_first() -> None:
    """Else one waits for ever while others come and go."""
    scene = Scene(ENTRY)
    labels = make_rule(PoolID(DRIVER, "gone"))["metadata"]["labels"]
    for number in range(MAX_RULES + 1):
        new = {"metadata": {"name": f"a{number}", "labels": labels}}
        scene.rules.put(new, START + dt.timedelta(1))
    scene.rules.put({"metadata": {"name": "old", "labels": labels}})
    scene.reconcile()
    assert len(scene.rules.objects) == 2
    assert ("", "old") not in scene.rules.objects


def test_the_rules_of_published_pools_stay_while_there_is_no_policy() -> None:
    """The administrator replaces it, perhaps."""
    scene = make_fenced("a", "b")
    scene.policies.remove(POLICY)
    scene.slices.remove(f"b-{DRIVER}")
    assert scene.reconcile(RULE_SECONDS) is False
    assert scene.ruled == ["a"]


RULE_CONFLICTS = {"create": ApiError(409, "AlreadyExists"), "delete": ApiError(409, "Conflict")}


@pytest.mark.parametrize("verb", RULE_CONFLICTS)
def test_a_rule_that_another_client_writes_at_the_same_time_closes_no_node(verb: str) -> None:
    """Rules only spare other schedulers the attempt, and a later run sees what there is."""
    scene = Scene(ENTRY)
    scene.node("a")
    scene.rules.put(make_rule(PoolID(DRIVER, "gone")))

    def fail(written: str, _value: dict[str, Any]) -> None:
        if written == verb:
            raise RULE_CONFLICTS[verb]

    scene.rules.before_write = fail
    assert scene.reconcile() is True
    assert not scene.messages
    scene.rules.before_write = lambda _verb, _value: None
    assert scene.reconcile(RULE_SECONDS) is True
    assert scene.ruled == ["a"]


def run(scene: Scene) -> None:
    with contextlib.suppress(ApiError):
        scene.reconcile(RULE_SECONDS)


@pytest.mark.parametrize("code", [0, 401, 403, 429, 500, 503])
def test_a_rule_that_cannot_be_deleted_neither_closes_nodes_nor_keeps_rules_away(code: int) -> None:
    """The policy is the fence."""
    scene = Scene(ENTRY)
    for name in ("gone", "old"):
        scene.rules.put(make_rule(PoolID(DRIVER, name)))

    def fail(verb: str, value: dict[str, Any]) -> None:
        if verb == "delete" and value["metadata"]["name"] == rule_name(PoolID(DRIVER, "gone")):
            raise ApiError(code, "Denied", "the policy of others")

    scene.rules.before_write = fail
    scene.node("a")
    for _ in range(4):
        run(scene)
        assert scene.reconciler.holds("a") is True
    assert scene.ruled == ["a", "gone"]
    said = f"a DeviceTaintRule cannot be written: {code} Denied: the policy of others"
    assert scene.messages == ([said] if code == 403 else [])
    with pytest.raises(ApiError):
        scene.reconcile()
    scene.rules.before_write = lambda _verb, _value: None
    scene.reconcile()
    assert scene.ruled == ["a"]


@pytest.mark.parametrize("verb", RULE_CONFLICTS)
def test_rules_that_are_refused_come_behind_the_others(verb: str) -> None:
    scene = Scene(ENTRY)
    names = [f"{number:03}" for number in range(MAX_RULES + 1)]
    refused = {rule_name(PoolID(DRIVER, name)) for name in names[:MAX_RULES]}

    def fail(written: str, value: dict[str, Any]) -> None:
        if written == verb and value["metadata"]["name"] in refused:
            raise ApiError(403, "Forbidden", value["metadata"]["name"])

    scene.rules.before_write = fail
    for name in names:
        if verb == "create":
            scene.node(name)
        else:
            scene.rules.put(make_rule(PoolID(DRIVER, name)))
    for _ in range(2):
        run(scene)
    assert scene.ruled == (names[-1:] if verb == "create" else names[:-1])
    assert len(scene.messages) == 1
    scene.rules.before_write = lambda _verb, _value: None
    run(scene)
    run(scene)
    assert scene.ruled == (names if verb == "create" else [])
    assert len(scene.messages) == 1


def test_a_rule_with_the_name_of_ours_is_replaced_if_it_selects_something_else() -> None:
    """Without the label, nothing but its name tells."""
    scene = make_fenced("a")
    ((_, name),) = scene.rules.objects
    scene.rules.put({"metadata": {"name": name}, "spec": {"deviceSelector": {"pool": "x"}}})
    scene.reconcile(RULE_SECONDS)
    assert scene.ruled == ["a"]


def test_a_rule_without_its_label_is_still_ours() -> None:
    scene = make_fenced("a")
    ((_, name), rule) = next(iter(scene.rules.objects.items()))
    scene.rules.put({**rule, "metadata": {"name": name}})
    assert scene.reconcile(RULE_SECONDS) is True
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    scene.let_go()
    assert scene.ruled == []


def test_rules_do_not_pile_up_while_pools_come_and_go() -> None:
    """A driver publishes its pool under another name again and again."""
    scene = Scene(ENTRY)
    for number in range(20):
        scene.node("a", pool=f"pool-{number:02}")
        scene.reconcile(5)
        scene.slices.remove(f"pool-{number:02}-{DRIVER}")
    last = [f"pool-{number:02}" for number in range(11, 20)]
    assert scene.pools == scene.ruled == last


def test_a_rule_that_somebody_stripped_goes_with_its_pool() -> None:
    scene = make_fenced("a")
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    ((_, name),) = scene.rules.objects
    scene.rules.put({"metadata": {"name": name}, "spec": {"deviceSelector": None}})
    scene.let_go()
    assert not scene.rules.objects
