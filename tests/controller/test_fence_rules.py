"""The fence around the devices of owned pools, as the controller keeps it."""

import asyncio
from typing import Any

import msgspec
import pytest

from controller.fence_rules import (
    KEEP_SECONDS,
    RULE_SECONDS,
    FenceRuleReconciler,
    FenceSources,
    FenceStores,
)
from controller.giving_back import LEASE_SECONDS
from controller.protocols import ObjectStore
from controller.watched_objects import WatchedNode
from drawbridge.agreement.device_fence import (
    BINDING_SPEC,
    FencePart,
    make_rule,
    policy_spec,
    read_leaving,
    read_pools,
)
from drawbridge.api_error import ApiError
from drawbridge.config.model import Configuration
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import slice_reader
from tests.agreement.bridge_configuration import configured
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter, given_back

DRIVER, NAMESPACE = "gpu.example.com", "own"
OPEN = {"pool": "open"}
ENTRY = {"driver": DRIVER, "nodeSelector": {"matchLabels": OPEN}, "fence": "rules"}
START = 1_795_168_800.0
POLICY = "drawbridge-owned-devices"


class Scene:
    """A reconciler over nodes with a pool each."""

    def __init__(self, *entries: dict[str, Any], is_served: bool = True) -> None:
        self.slices = MemoryStore[Any](None, decode=slice_reader().read)
        self.nodes, self.reporter = MemoryStore(WatchedNode), FakeReporter()
        stores = [MemoryStore[Any](dict[str, Any]) for _ in range(3)]
        self.policies, self.bindings, self.rules = stores
        self.time, self.is_served, self.told = 0.0, is_served, 0
        self.configuration = configured(*entries) if entries else Configuration()
        self.find_error: ApiError | None = None
        self.start()
        self.install()

    def start(self) -> None:
        """Let a process lead that remembers nothing of those before."""
        self.reconciler = FenceRuleReconciler(
            FenceSources(self.slices, self.nodes),
            FenceStores(self.policies, self.bindings, self.find_rules),
            namespace=NAMESPACE,
            configuration=lambda: self.configuration,
            reporter=self.reporter,
            giving_back=given_back(lambda: self.time),
            now=lambda: START + self.time,
        )
        self.reconciler.listener = self.listen

    def install(self) -> None:
        """Create the policy and its binding."""
        self.policies.put({"metadata": {"name": POLICY}, "spec": policy_spec([], NAMESPACE)})
        self.bindings.put({"metadata": {"name": POLICY}, "spec": dict(BINDING_SPEC)})

    def listen(self) -> None:
        """Count how often others have to decide anew."""
        self.told += 1

    async def find_rules(self) -> ObjectStore | None:
        """Return the rules if they are served."""
        if self.find_error is not None:
            raise self.find_error
        return self.rules if self.is_served else None

    def node(
        self, name: str, labels: dict[str, str] = OPEN, driver: str = DRIVER, pool: str = ""
    ) -> None:
        """Add a node with a pool, which has its name by default."""
        self.nodes.put({"metadata": {"name": name, "labels": labels}})
        of_pool = {"name": pool or name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": name, "pool": of_pool, "devices": []}
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        self.slices.put({**head, "metadata": {"name": f"{pool or name}-{driver}"}, "spec": spec})

    def withdraw(self, pool: str) -> None:
        """Withdraw a pool until the policy says that it leaves."""
        self.slices.remove(f"{pool}-{DRIVER}")
        for seconds in (0, KEEP_SECONDS, 1):
            self.reconcile(seconds)

    def let_go(self) -> None:
        """Let everything go that is not wanted any more."""
        for seconds in (KEEP_SECONDS, 1, LEASE_SECONDS):
            self.reconcile(seconds)

    def reconcile(self, seconds: float = 0.0) -> bool | None:
        """Run the reconciler once after some time, and return whether the fence holds."""
        self.time += seconds
        asyncio.run(self.reconciler.reconcile())
        return self.reconciler.holds("a")

    @property
    def pools(self) -> list[str]:
        """The pools that the policy names."""
        live = self.policies.objects.get(("", POLICY), {})
        return sorted(each.name for each in read_pools(live.get("spec")))

    @property
    def version_of_policy(self) -> str:
        """The version of the policy."""
        return str(self.policies.objects["", POLICY]["metadata"]["resourceVersion"])

    @property
    def leaving(self) -> list[str]:
        """The pools of which an annotation says that they leave."""
        part = msgspec.convert(self.policies.objects["", POLICY], FencePart)
        return sorted(each.name for each in read_leaving(part))

    @property
    def ruled(self) -> list[str]:
        """The pools of the rules."""
        rules = self.rules.objects.values()
        return sorted(each["spec"]["deviceSelector"]["pool"] for each in rules)

    @property
    def messages(self) -> list[str]:
        """What was reported."""
        return [each.message for each in self.reporter.findings]


def make_fenced(*nodes: str) -> Scene:
    """Return a scene whose policy names the pools of these nodes."""
    scene = Scene(ENTRY)
    for name in nodes:
        scene.node(name)
    scene.reconcile()
    return scene


def test_the_pools_of_open_nodes_are_named_and_get_a_rule() -> None:
    scene = Scene(ENTRY, {"driver": DRIVER, "nodeSelector": {"matchLabels": {"pool": "closed"}}})
    for name in ("a", "b"):
        scene.node(name)
    scene.node("closed", {"pool": "closed"})
    scene.node("theirs", {})
    scene.node("other", OPEN, "other.example.com")
    assert scene.reconciler.holds("a") is None
    assert scene.reconcile() is True
    assert scene.pools == scene.ruled == ["a", "b"]
    live = scene.policies.objects["", POLICY]
    pools = {PoolID(DRIVER, each) for each in scene.pools}
    assert live["spec"] == policy_spec(pools, NAMESPACE)
    assert scene.told == 1
    assert not scene.messages
    scene.policies.requests.clear()
    scene.reconcile(5)
    assert [verb for verb, _ in scene.policies.requests] == ["read"]


def test_a_pool_that_comes_later_is_added() -> None:
    scene = make_fenced("a")
    scene.node("b")
    scene.reconcile(5)
    assert scene.pools == scene.ruled == ["a", "b"]
    assert scene.told == 1


def test_a_policy_that_was_applied_again_gets_its_pools_again() -> None:
    scene = make_fenced("a")
    scene.install()
    assert scene.reconcile() is True
    assert scene.pools == ["a"]


def test_a_pool_is_named_before_it_has_a_rule() -> None:
    """Others are then refused what they select until the rule is there."""
    scene = Scene(ENTRY)
    scene.node("a")

    def fail(_verb: str, _value: dict[str, Any]) -> None:
        raise ApiError(403, "Forbidden")

    scene.rules.before_write = fail
    with pytest.raises(ApiError):
        scene.reconcile()
    assert scene.pools == ["a"]
    assert scene.reconciler.holds("a") is True


PROBLEMS: dict[str, str] = {
    "policy": "ValidatingAdmissionPolicy drawbridge-owned-devices does not exist",
    "binding": "ValidatingAdmissionPolicyBinding drawbridge-owned-devices does not exist",
    "changed": "differs from examples/owned-devices-policy.yaml",
    "rules": "the API server does not serve DeviceTaintRules",
}


def damage(scene: Scene, problem: str) -> None:
    if problem == "policy":
        scene.policies.remove(POLICY)
    elif problem == "binding":
        scene.bindings.remove(POLICY)
    elif problem == "changed":
        weaker = {**policy_spec([], NAMESPACE), "failurePolicy": "Ignore"}
        scene.policies.put({"metadata": {"name": POLICY}, "spec": weaker})
    else:
        scene.is_served = False


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_nodes_need_their_taint_where_the_fence_is_not_possible(problem: str) -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    damage(scene, problem)
    assert scene.reconcile() is False
    assert scene.pools == []
    assert scene.ruled == []
    assert scene.told == 1
    assert scene.reconcile(5) is False
    (message,) = scene.messages
    assert message.startswith("ownedPools[0] sets fence: rules, but ")
    assert PROBLEMS[problem] in message
    assert message.endswith("; the nodes have the taint drawbridge.dev/owned:NoSchedule")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_fence_that_ends_keeps_its_pools_until_the_taint_has_settled(problem: str) -> None:
    scene = make_fenced("a")
    damage(scene, problem)
    assert scene.reconcile(1) is False
    scene.reconcile(KEEP_SECONDS - 1)
    assert scene.pools == (["a"] if problem in {"binding", "rules"} else [])
    assert scene.ruled == ["a"]
    scene.let_go()
    assert scene.pools == ([] if problem != "binding" else ["a"])
    assert scene.ruled == ["a"]


def test_a_fence_that_is_back_starts_anew() -> None:
    scene = make_fenced("a")
    scene.policies.remove(POLICY)
    scene.reconcile()
    scene.reconcile(KEEP_SECONDS)
    scene.install()
    assert scene.reconcile() is True
    assert scene.pools == scene.ruled == ["a"]
    assert [scene.told, len(scene.messages)] == [3, 1]


def test_without_such_an_entry_what_is_left_is_removed_once() -> None:
    scene = make_fenced("a")
    scene.configuration = configured({**ENTRY, "fence": "taint"})
    assert scene.reconcile() is False
    assert scene.ruled == ["a"]
    scene.let_go()
    assert (scene.pools, scene.ruled, scene.leaving) == ([], [], [])
    scene.reconcile()
    scene.policies.requests.clear()
    scene.reconcile()
    assert not scene.policies.requests
    assert not scene.messages


def test_a_start_without_such_an_entry_removes_rules_that_were_left() -> None:
    """They were not served when their pools ended."""
    scene = Scene({**ENTRY, "fence": "taint"})
    scene.rules.put(make_rule(PoolID(DRIVER, "gone")))
    assert scene.reconcile() is False
    assert scene.ruled == []


def test_a_pool_that_goes_takes_its_rule_along_later() -> None:
    scene = make_fenced("a", "b")
    scene.slices.remove(f"a-{DRIVER}")
    assert scene.reconcile(RULE_SECONDS) is True
    assert scene.ruled == ["a", "b"]
    scene.let_go()
    assert scene.pools == scene.ruled == ["b"]


def test_a_pool_that_returns_in_time_stays() -> None:
    scene = make_fenced("a")
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile()
    scene.reconcile(KEEP_SECONDS - 1)
    scene.node("a")
    scene.reconcile()
    scene.slices.remove(f"a-{DRIVER}")
    scene.reconcile(1)
    assert scene.pools == ["a"]


def test_a_node_alone_with_too_many_pools_gets_its_taint() -> None:
    """It is taken over, perhaps. Its pools leave those of the other nodes alone."""
    scene = Scene(ENTRY)
    scene.node("a")
    assert scene.reconcile() is True
    for number in range(20):
        scene.node("many", pool=f"{number:0250}")
    scene.reconcile(5)
    assert [scene.reconciler.holds(each) for each in ("a", "many")] == [True, False]
    assert scene.pools == ["a"]
    assert scene.told == 2
    scene.reconcile(5)
    (message,) = scene.messages
    assert message == (
        "ownedPools[0] sets fence: rules, but the policy has no room for the pools of many: a"
        " node has 4000 characters with those that leave, and all have 90000, or 100000 with those"
        " that leave; there is the taint"
        " drawbridge.dev/owned:NoSchedule"
    )
    for number in range(20):
        scene.slices.remove(f"{number:0250}-{DRIVER}")
    scene.node("many")
    scene.reconcile(5)
    assert scene.reconciler.holds("many") is True
    assert scene.pools == ["a", "many"]
    assert scene.told == 3


def test_an_api_server_that_does_not_answer_changes_nothing() -> None:
    scene = make_fenced("a")
    scene.find_error = ApiError(503, "ServiceUnavailable")
    with pytest.raises(ApiError):
        scene.reconcile(1)
    assert scene.reconciler.holds("a") is True
    assert not scene.messages


def test_a_missing_right_is_a_problem() -> None:
    scene = Scene(ENTRY)
    scene.node("a")
    scene.find_error = ApiError(403, "Forbidden")
    with pytest.raises(ApiError):
        scene.reconcile()
    assert scene.reconciler.holds("a") is False
    assert "Forbidden" in scene.messages[0]


def test_a_right_that_goes_before_the_pools_have_left_is_a_failure() -> None:
    """The policy still keeps others from these pools."""
    scene = Scene(ENTRY)
    scene.node("a")
    scene.reconcile()
    scene.configuration = Configuration()
    scene.find_error = ApiError(403, "Forbidden")
    for _ in range(2):
        with pytest.raises(ApiError):
            scene.reconcile()
    assert scene.reconciler.holds("a") is False
    scene.find_error = None
    scene.reconcile()
    scene.let_go()
    assert not scene.pools


def test_a_missing_right_is_no_failure_where_nobody_asks_for_the_fence() -> None:
    scene = Scene()
    scene.find_error = ApiError(403, "Forbidden")
    assert scene.reconcile() is False
    scene.find_error = ApiError(503, "ServiceUnavailable")  # is asked once only
    assert scene.reconcile(60) is False
    assert not scene.messages
