"""Which nodes count as opened after somebody has removed the policy that guards their devices."""

import random

import pytest

from drawbridge.agreement.device_fence import policy_spec
from drawbridge.dra.inventory import PoolID
from drawbridge.names import FENCE_POLICY
from tests.cluster.fake.kinds import named
from tests.cluster.fake.store import Store
from tests.virtual_time import run_virtually
from tests.world.control import Controllers
from tests.world.fence import DeviceFence, make_fence
from tests.world.network import SYSTEM, Network
from tests.world.objects import DRIVER, make_node
from tests.world.opened_fences import OpenedFences

NODE, NODES = "n1", named("nodes")
POLICY, BINDING = map(named, ("validatingadmissionpolicies", "validatingadmissionpolicybindings"))


class Controller(Controllers):
    """One that has found the policy gone, or not yet."""

    trusts = True

    def trusts_policy(self, _: str) -> bool:
        """Return whether it has not."""
        return self.trusts


class Cluster:
    """A node with its taint, and a policy that names its pool."""

    def __init__(self, *, trusts: bool) -> None:
        self._store = Store(drawn=random.Random(1))
        network = Network(random.Random(1), self._store)
        controller = Controller(network)
        controller.trusts = trusts
        self.opened = OpenedFences(network, DeviceFence(network), controller)
        self._node = self._store.create(NODES, make_node(NODE), "kubelet")
        for kind, value in zip((POLICY, BINDING), make_fence(), strict=True):
            self._store.create(kind, value, "person")
        self.name_pools(NODE)
        self._store.listeners.append(self.opened.follow)

    def name_pools(self, *nodes: str) -> None:
        """Let the policy name the pools of these nodes."""
        stored = self._store.find(POLICY, "", FENCE_POLICY)
        assert stored is not None
        spec = policy_spec([PoolID(DRIVER, each) for each in nodes], SYSTEM)
        self._store.update(POLICY, stored, {**stored, "spec": spec}, "controller")

    def open_policy(self) -> None:
        """Let the policy name no pool, as somebody does who installs it again."""
        guarded = self.opened.list_guarded()
        self.name_pools()
        self.opened.note_opened([NODE], guarded)

    def remove_taint(self) -> None:
        """Remove the taint of the node."""
        spec = {**self._node["spec"], "taints": []}
        self._node = self._store.update(NODES, self._node, {**self._node, "spec": spec}, "us")


@pytest.mark.parametrize(
    ("trusts", "is_named_again", "is_opened"),
    [(True, False, True), (False, False, False), (True, True, False)],
)
def test_a_taint_that_goes_before_our_controller_finds_the_policy_gone_opens_its_node(
    *, trusts: bool, is_named_again: bool, is_opened: bool
) -> None:
    async def main() -> None:
        cluster = Cluster(trusts=trusts)
        cluster.open_policy()
        assert not cluster.opened.is_open(NODE)
        if is_named_again:
            cluster.name_pools(NODE)
            cluster.name_pools()
        cluster.remove_taint()
        assert not cluster.opened.has_fence(NODE)
        assert cluster.opened.is_open(NODE) is is_opened

    run_virtually(main)
