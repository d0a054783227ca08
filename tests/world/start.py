"""What a world begins with: the objects that exist already, and the models that run."""

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from tests.cluster.fake.kinds import JSON
from tests.world.budgets import DisruptionController, make_budgets
from tests.world.configurations import compose
from tests.world.controllers import Autoscaler, GroupProtection, PodController
from tests.world.fence import make_fence
from tests.world.gates import Queue
from tests.world.mirrors import make_mirrored
from tests.world.namespaces import make_namespaces
from tests.world.objects import Chosen, make_system
from tests.world.quotas import make_quota

if TYPE_CHECKING:
    from tests.world.world import World


def list_objects(world: "World") -> Iterator[JSON]:
    """Yield what administrators and our controller have written."""
    conditions = world.conditions
    yield from make_system(compose(conditions, Chosen()), world.server.version)
    yield make_quota()
    yield from make_namespaces() if conditions.selects else ()
    yield from make_mirrored(refuses=conditions.refuses_mirror) if conditions.has_mirror else ()
    yield from make_budgets() if conditions.has_budgets else ()
    yield from make_fence() if conditions.fences_devices else ()


def list_models(world: "World") -> Iterator[Coroutine[Any, Any, None]]:
    """Yield what runs until the end, but for our schedulers with their allocators."""
    network = world.network
    yield from (machine.kubelet.run() for machine in world.machines.values())
    models = (world.claims, world.quotas, PodController(network), GroupProtection(network))
    yield from (model.run() for model in models)
    yield from (model.run() for model in (world.fabric, world.rivals))
    if world.conditions.is_crowded:
        yield world.large.run()
    if world.conditions.selects:
        yield world.spaces.run()
    if world.conditions.has_mirror:
        yield world.quotas.mirrored.run()
    if world.conditions.has_budgets:
        yield DisruptionController(network).run()
    if world.conditions.gated:
        yield Queue(network).run()
    autoscaler = Autoscaler(network, world.machines.values())
    others = (world.stock, world.controllers, world.webhook, autoscaler)
    yield from (each.run() for each in others)
