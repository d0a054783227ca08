"""The write path with crashes, stops, lost and late requests, and changes of the leader.

Each seed is another story. No device ever has two owners. When the faults end, nothing is left
behind, and all pods that fit are bound.
"""

import asyncio
import random
from dataclasses import replace

import pytest

from drawbridge.names import ALLOCATION_ANNOTATION
from tests.allocator.simulated_api import (
    Faults,
    SimulatedApi,
    devices_of,
    run_virtually,
)
from tests.allocator.simulated_pair import SimulatedPair
from tests.thorough import drawn

NODES = {"n1": 4, "n2": 4}
HOSTS = ("host-a", "host-b")
FAULTS = Faults(refused=0.02, overloaded=0.02, lost=0.06, repeated=0.05, slow=0.05, retried=0.05)
STEPS = drawn(100, thorough=250)


class Story:
    """Two pairs, and everything that can go wrong around them.

    In a calm story one pair leads all the time, and nobody deletes the pods that it holds.
    """

    def __init__(self, seed: int, steps: int = STEPS, *, is_calm: bool = False) -> None:
        self.steps = steps
        self.is_calm = is_calm
        self.random = random.Random(seed)  # repeatable
        faults = replace(FAULTS, retried=0) if is_calm else FAULTS
        self.api = SimulatedApi(self.random, faults)
        self.pairs: dict[str, SimulatedPair] = {}
        self.number = 0

    async def run(self) -> None:
        """Run the story, then let everything settle, and check what is left."""
        for host in HOSTS:
            self.start(host)
        steps = (self.create, self.delete, self.touch, self.lead, self.kill, self.stop)
        weights = (10, 8, 3, 0, 0, 2) if self.is_calm else (10, 8, 3, 1, 1, 2)
        await self.lead()
        if self.is_calm:
            self.api.leader = HOSTS[0]
        for _ in range(self.steps):
            (step,) = self.random.choices(steps, weights)
            await step()
            self.api.collect()
            await asyncio.sleep(self.random.expovariate(1 if self.is_calm else 8))
        await self.settle()
        for pair in self.pairs.values():
            await pair.kill()
        await asyncio.sleep(10)  # what is on its way arrives

    def start(self, host: str) -> None:
        """Start the process of a host."""
        self.pairs[host] = SimulatedPair(self.api, host, NODES)
        self.pairs[host].start()

    # --- what happens ---

    async def create(self) -> None:
        """Create a pod: with a claim of its own, two of them, or one that others share."""
        self.number += 1
        uid = f"p{self.number}"
        names = self.random.choice(
            ((f"of-{uid}",), (f"of-{uid}", f"more-{uid}"), (f"shared-{self.number // 6}",))
        )
        self.api.add_pod(uid, *names)

    async def lead(self) -> None:
        """Let another host lead, or nobody, or the same one again."""
        self.api.terms += 1
        self.api.leader = self.random.choice((*HOSTS, *HOSTS, *HOSTS, ""))

    async def kill(self) -> None:
        """Kill a process, and start it again."""
        host = self.random.choice(HOSTS)
        await self.pairs[host].kill()
        self.start(host)

    async def stop(self) -> None:
        """Stop a process for a while, in the middle of whatever it does."""
        pair = self.pairs[self.random.choice(HOSTS)]
        pair.runs.clear()
        asyncio.get_running_loop().call_later(self.random.uniform(0, 3), pair.runs.set)

    async def delete(self) -> None:
        """Delete a pod, or the claim of a deleted pod; a claim can come again by its name."""
        alive = [
            each.uid
            for each in self.api.pods.values()
            if not each.deleted and (each.node or not self.is_calm)
        ]
        if alive:
            self.api.delete_pod(self.random.choice(alive))
        used = {n for each in self.api.pods.values() if not each.deleted for n in each.claims}
        unused = sorted(self.api.claims.keys() - used)
        if unused and self.random.random() < 0.5:
            self.api.delete_claim(self.random.choice(unused))

    async def touch(self) -> None:
        """Change an annotation of a claim, or forge the mark of one."""
        if self.api.claims:
            name = self.random.choice(sorted(self.api.claims))
            key = self.random.choice(("note", ALLOCATION_ANNOTATION))
            self.api.touch(name, {key: self.random.choice(("{}", "x"))})
            for pod in self.api.pods.values():
                pod.version += name in pod.claims  # its status changes as well

    # --- the end ---

    async def settle(self) -> None:
        """Let one pair lead without faults, until every pod that fits is bound."""
        self.api.faults = Faults()
        for pair in self.pairs.values():
            pair.runs.set()
        self.api.leader, self.api.terms = "host-a", self.api.terms + 1
        for _ in range(600):
            await asyncio.sleep(1)
            self.api.collect()
            if not self.left():
                return
        self.api.violations += self.left()

    def left(self) -> list[str]:
        """Return what has not settled."""
        claims, pair = self.api.claims.values(), self.pairs["host-a"]
        marked = [
            f"mark of {claim.metadata.name}"
            for claim in claims
            if claim.status.allocation is None
            and ALLOCATION_ANNOTATION in claim.metadata.annotations
        ]
        held = {device for each in claims for device in devices_of(each)}
        recorded = {(each.pool.name, each.name) for each in pair.state.ledger.devices()}
        waiting = [each for each in self.api.pods.values() if not each.node and not each.deleted]
        free = sum(NODES.values()) - len(held)
        left = [*marked, *(["devices differ"] if held != recorded else [])]
        left += ["a move that cannot happen"] * pair.state.records.unexpected
        if waiting and free >= max(len(NODES), len(waiting[0].claims)) + 2:
            left.append(f"{waiting[0].uid} waits, {free} devices are free")
        return left


@pytest.mark.parametrize("seed", range(drawn(2, thorough=40)))
def test_no_device_has_two_owners_and_nothing_is_left_behind(seed: int) -> None:
    story = Story(seed)
    run_virtually(story.run)
    assert not story.api.violations
    assert story.api.evicted


@pytest.mark.parametrize("seed", range(drawn(1, thorough=20)))
def test_a_held_pod_keeps_its_devices_up_to_the_limit(seed: int) -> None:
    story = Story(seed, steps=100, is_calm=True)
    run_virtually(story.run)
    assert not story.api.violations
    assert story.api.long_holds


def test_a_story_depends_on_nothing_but_its_seed() -> None:
    histories = []
    for _ in range(2):
        story = Story(1, steps=60)
        run_virtually(story.run)
        written = (after.metadata for _, after in story.api.history if after)
        histories.append([(metadata.name, metadata.resource_version) for metadata in written])
    assert len(histories[0]) > 60
    assert histories[0] == histories[1]
