"""Mutating webhooks of others that act after ours, and what the API server does then.

They remove our annotations, put back the request of a container that a claim has replaced, or add a
container with a request of its own. The API server calls our webhook again, if it has called it
before; some of the others act once more after that. At the end, the guard looks at the pod. Who
creates a pod that is refused tries again, and the others do not change it each time.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from drawbridge.names import ORIGINAL_ANNOTATION
from tests.cluster.fake.kinds import JSON, copied
from tests.world.admission import Webhook
from tests.world.events import create_plain, event
from tests.world.network import Network
from tests.world.nodes import count_legacy
from tests.world.objects import MIGRATED, RESOURCE

if TYPE_CHECKING:
    from tests.world.world import World

_OURS: Final = "drawbridge.dev/"
_SIDE: Final = "side"


def strip_annotations(pod: JSON) -> None:
    """Remove our annotations."""
    annotations = pod["metadata"].get("annotations") or {}
    pod["metadata"]["annotations"] = {
        name: value for name, value in annotations.items() if not name.startswith(_OURS)
    }


def _put_back(pod: JSON) -> None:
    """Request what the first container has requested, as who writes whole containers does."""
    _request(pod["spec"]["containers"][0], "1")


def _request_more(pod: JSON) -> None:
    """Request other devices for it."""
    _request(pod["spec"]["containers"][0], "2")


def _add_container(pod: JSON) -> None:
    """Add a container that requests a device, unless it is there."""
    containers = pod["spec"]["containers"]
    if all(each["name"] != _SIDE for each in containers):
        containers.append({"name": _SIDE})
        _request(containers[-1], "1")


def _request(container: JSON, amount: str) -> None:
    resources = container.setdefault("resources", {})
    resources["limits"] = {**(resources.get("limits") or {}), RESOURCE: amount}


_CHANGES: Final[Mapping[str, Callable[[JSON], None]]] = {
    "removes our annotations": strip_annotations,
    "puts a request back": _put_back,
    "requests more": _request_more,
    "adds a container": _add_container,
}


class OtherWebhooks:
    """Changes a part of the pods that are created; until the faults have ended."""

    def __init__(self, network: Network, webhook: Webhook, part: float) -> None:
        self._network, self._webhook, self.part = network, webhook, part
        self._drawn = random.Random(network.random.getrandbits(32) if part else 0)
        # Pods of which a container has a claim and a request for the same devices.
        self.doubled: list[str] = []

    async def admit(self, pod: JSON) -> JSON:
        """Return a pod as it is stored; raises RefusedPodError."""
        is_sent = bool(count_legacy(pod))
        admitted = await self._webhook.admit(pod) if is_sent else pod
        if not self.part or self._drawn.random() >= self.part:
            return admitted
        name, acts_again = self._drawn.choice([*_CHANGES]), self._drawn.random() < 0.3
        self._network.count(f"webhook of others that {name}")
        changed = self._change(admitted, name)
        if is_sent and changed != admitted:
            changed = await self._webhook.admit(changed)
            if acts_again:
                changed = self._change(changed, name)
        is_guarded = await self._webhook.guard(changed)
        if _has_both(changed):
            self._network.count("pod with a claim and a request that the guard lets in")
            if not acts_again:
                self.doubled.append(pod["metadata"]["name"])
        elif not is_sent and count_legacy(changed):
            self._network.count(f"request that is added later, guarded: {is_guarded}")
        return changed

    def _change(self, pod: JSON, name: str) -> JSON:
        changed = copied(pod)
        _CHANGES[name](changed)
        return changed


def _has_both(pod: JSON) -> bool:
    """Whether a container has a claim of a translation and a request that the translation knows."""
    parts = [each.get("resources") or {} for each in pod["spec"]["containers"]]
    return any(each.get("claims") and RESOURCE in (each.get("limits") or {}) for each in parts)


@event(2)
def create_bare(world: "World", _drawn: int) -> str:
    """Create a pod without a request where pods are translated; others can add one."""
    if not world.conditions.changed_by_others:
        return ""
    return create_plain(world, MIGRATED, {"name": "main"})


@event(1)
def strip_pod(world: "World", drawn: int) -> str:
    """Remove our annotations from a pod that waits, while nobody answers for the API server."""
    chosen = [
        pod
        for pod in world.all("pods")
        if ORIGINAL_ANNOTATION in (pod["metadata"].get("annotations") or {})
    ]
    if not chosen:
        return ""
    pod = copied(chosen[drawn % len(chosen)])
    strip_annotations(pod)
    world.server.put(pod)
    return f"{pod['metadata']['name']}"


def a_container_gets_its_devices_once(world: "World") -> Iterator[str]:
    """No pod is stored with a claim and a request for the same devices of a container."""
    for name in world.admitted.others.doubled:
        yield f"{name} has a claim and a request"
