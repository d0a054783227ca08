"""The fence around devices after changes by anybody and failures of any request.

Whatever happened before, it becomes what the published pools need, a while after that has ended.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fence_rules import KEEP_SECONDS, LOSS_SECONDS
from drawbridge.api_error import ApiError
from tests.agreement.bridge_configuration import configured
from tests.cluster.memory_store import MemoryStore
from tests.controller.test_fence_rules import DRIVER, ENTRY, Scene

ERRORS = ((409, "AlreadyExists"), (409, "Conflict"), (403, "Forbidden"), (404, "NotFound"))
# The last ones are cases without a response, and of an API server that cannot answer.
FAILURES = (None, None, None, None, *ERRORS, (422, "Invalid"), (500, "InternalError"), (0, ""))


def add_many(scene: Scene, number: int) -> None:
    """Add pools to a node with names as long as the API server accepts."""
    for each in range(20 * number, 20 * number + 20):
        scene.node(f"n{number % 7}", pool=f"{each:0250}")


def remove_first(store: MemoryStore[Any], most: int = 1) -> None:
    for _, name in [*store.objects][:most]:
        store.remove(name)


def strip_rule(scene: Scene) -> None:
    """Take from a rule all by which it is known but its name."""
    for _, name in [*scene.rules.objects][:1]:
        scene.rules.put({"metadata": {"name": name}, "spec": {"deviceSelector": None}})


def ask_for(scene: Scene, fence: str) -> None:
    scene.configuration = configured({**ENTRY, "fence": fence})


def stop_rules(scene: Scene) -> None:
    scene.is_served = not scene.is_served


# What a driver, an administrator or a tool does.
ACTIONS: dict[str, Callable[[Scene, int], None]] = {
    "add a node": lambda scene, number: scene.node(f"n{number % 7}"),
    "add a pool": lambda scene, number: scene.node(f"n{number % 7}", pool=f"p{number}"),
    "add a long name": lambda scene, number: scene.node(f"n{number % 7}", pool=f"{number:0250}"),
    "add many pools": add_many,
    "remove a pool": lambda scene, _: remove_first(scene.slices),
    "remove pools": lambda scene, _: remove_first(scene.slices, 100),
    "remove a node": lambda scene, _: remove_first(scene.nodes),
    "remove the policy": lambda scene, _: remove_first(scene.policies),
    "remove the binding": lambda scene, _: remove_first(scene.bindings),
    "install": lambda scene, _: scene.install(),
    "stop serving rules": lambda scene, _: stop_rules(scene),
    "strip a rule": lambda scene, _: strip_rule(scene),
    "ask for the taint": lambda scene, _: ask_for(scene, "taint"),
    "ask for rules": lambda scene, _: ask_for(scene, "rules"),
}


def reconcile(scene: Scene, seconds: float) -> None:
    try:
        scene.reconcile(seconds)
    except ApiError:
        return


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*ACTIONS]), st.integers(0, 60)), max_size=20),
    st.lists(st.sampled_from(FAILURES), min_size=1, max_size=20),
)
def test_the_fence_becomes_what_is_wanted(
    actions: list[tuple[str, int]], failures: list[tuple[int, str] | None]
) -> None:
    scene = Scene(ENTRY)
    fails, requests = [True], iter(range(10**6))

    def answer(_verb: str, value: dict[str, Any]) -> None:
        failure = failures[next(requests) % len(failures)] if fails[0] else None
        variables = (value.get("spec") or {}).get("variables") or ()
        if failure is None and any(len(each["expression"]) > 100_000 for each in variables):
            failure = (422, "Invalid")
        if failure is not None:
            raise ApiError(*failure)

    scene.policies.before_write = scene.rules.before_write = answer
    for action, number in actions:
        ACTIONS[action](scene, number)
        reconcile(scene, 1 + number % 20)
    fails[0], scene.is_served, scene.configuration = False, True, configured(ENTRY)
    scene.install()
    for seconds in (1, KEEP_SECONDS, LOSS_SECONDS, *[5] * 20):
        reconcile(scene, seconds)
    published = {each.value.pool: each.value.node_name for each in scene.slices.all()}
    sizes: dict[str, int] = {}
    for pool, node in published.items():
        sizes[node] = sizes.get(node, 1) + len(f'"{DRIVER}/{pool}",')
    few = {node for node, size in sizes.items() if size <= 4_000 and scene.nodes.get(node)}
    assert scene.pools == scene.ruled == sorted(p for p, node in published.items() if node in few)
    for node in filter(scene.nodes.get, sizes):
        assert scene.reconciler.holds(node) is (node in few)
