"""Scenarios: a rolling update brings pairs whose halves are of two releases.

As the Deployment of the manifests does, it stops a pair only when a new one is ready.
"""

import contextlib
from collections.abc import Iterator
from functools import partial

from e2e.bridge.other_release import Heard, OtherRelease
from e2e.bridge.pair import Pair
from e2e.bridge.placement import GPU, LEAD_SECONDS, BridgeStage, bridge_scenario
from e2e.controlplane.processes import Process
from e2e.scenarios.bridge_failures import add_template

# What a half refuses, and what it accepts.
REFUSED = {
    "an old plugin": Heard(by_allocator="1.1"),
    "an old allocator": Heard(by_plugin="1.1"),
    "a plugin of a later release": Heard(by_allocator="1.5"),
    "an allocator of another major version": Heard(by_plugin="2.0"),
}
ACCEPTED = {
    "a plugin of the release before": Heard(by_allocator="1.2"),
    "an allocator of the release before": Heard(by_plugin="1.2"),
}
# The kubelet starts an ended scheduler again.
RESTARTS = 2
STARTED_SECONDS = 60.0


@contextlib.contextmanager
def new_pair(stage: BridgeStage, name: str, heard: Heard) -> Iterator[Pair]:
    """Start another pair beside the others, which run again at the end."""
    placement = stage.placement
    relay = placement.plane.sockets / name / "plugin.sock"
    pair, before = placement.make_pair(name, relay), placement.pairs
    placement.pairs = [*before, pair]
    try:
        with OtherRelease(relay, pair.socket, heard):
            pair.start()
            try:
                yield pair
            finally:
                pair.stop()
    finally:
        placement.pairs = before
        placement.start()


def roll_out(stage: BridgeStage, new: Pair) -> bool:
    """Replace the pairs that run as soon as the new one is ready; return whether it was."""
    for _ in range(RESTARTS):
        settled = partial(_settled, new, new.running_scheduler())
        stage.wait("the new pair is ready, or its scheduler ends", settled, STARTED_SECONDS)
        if new.ready():
            for pair in stage.placement.pairs:
                if pair is not new:
                    pair.stop()
            return True
        new.start()
    return False


def _settled(new: Pair, scheduler: Process) -> bool:
    return new.ready() or scheduler.child.poll() is not None


@bridge_scenario("full")
def a_pair_of_two_releases_never_replaces_one_that_works(stage: BridgeStage) -> None:
    """Whichever half refuses the other: the new pair is not ready, and says why; pods are bound."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    add_template(stage)
    stage.leader()
    for number, (name, heard) in enumerate(REFUSED.items()):
        with new_pair(stage, f"refused-{number}", heard) as pair:
            replaced = roll_out(stage, pair)
            stage.run_pod(f"pod-{number}", templates={"gpu": "gpu"})
            assert not replaced, f"{name}: the pairs that work were replaced"
            _check_message(pair, heard)


def _check_message(pair: Pair, heard: Heard) -> None:
    """Check that the half that refuses the other names both versions."""
    readyz = pair.allocator.request("health", "/readyz").text
    log = pair.running_scheduler().log.read_text("utf-8", "replace")
    if heard.by_allocator:
        assert f"sends '{heard.by_allocator}'" in readyz, readyz
        assert pair.allocator.messages("plugin refused")
    else:
        assert "no scheduler plugin that accepts protocol" in readyz, readyz
        assert f'speaks protocol \\"{heard.by_plugin}\\"' in log, log[-2000:]


@bridge_scenario("full")
def pairs_of_neighbouring_releases_replace_each_other(stage: BridgeStage) -> None:
    """A pair whose halves accept each other is ready, and binds pods when it is the only one."""
    stage.node("a", "dgx-a100", {GPU: "full"})
    add_template(stage)
    stage.leader()
    for number, (name, heard) in enumerate(ACCEPTED.items()):
        with new_pair(stage, f"accepted-{number}", heard) as pair:
            assert roll_out(stage, pair), name
            stage.wait("the new pair leads", lambda: stage.leader() is pair, LEAD_SECONDS)
            stage.run_pod(f"pod-{number}", templates={"gpu": "gpu"})
