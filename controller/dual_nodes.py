"""Nodes where a plugin and slices offer the same devices: labelled, so that claims keep off them.

Which nodes these are is found where facts are gathered. What a plugin gave away stays given when it
goes, so a label goes only after the last pod that may hold such a device; of pods nothing else is
read. Writes one label and no other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controller.protocols import About, Kept, Object, Store, Told, Watched, refused
from controller.reconcile import apart
from controller.watched_objects import Named
from dra.finding import Finding
from dra.names import DUAL_LABEL as LABEL
from facts.families import families, serves
from facts.served_names import Twice
from registration.controller_codes import DUAL_HELD, DUAL_NODES
from translate.pods import Given

DUTY: Final = "dual"
_SHOWN: Final = 10


def labels(nodes: Iterable[Kept[Named]], twice: Iterable[Twice]) -> dict[str, str | None]:
    """What the label has to become, by node; nodes where it is right are left out."""
    wanted = {each.node for each in twice}
    changes: dict[str, str | None] = {}
    for each in nodes:
        value = (each.value.metadata.labels or {}).get(LABEL)
        right = "true" if each.name in wanted else None
        if value != right:
            changes[each.name] = right
    return changes


def told(twice: Iterable[Twice]) -> Finding | None:
    """Name the nodes, some of them, and what lies idle there."""
    found = sorted(twice)
    if not found:
        return None
    nodes = [each.node for each in found]
    names = sorted({name for each in found for name in each.names})
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    devices = sum(each.devices for each in found)
    return DUAL_NODES.at(
        "status.allocatable",
        f"{', '.join(nodes[:_SHOWN])}{more} advertise {', '.join(names)} beside slices with the "
        f"same devices: {devices} devices of DRA stay idle on {len(nodes)} nodes",
    )


class Stores(NamedTuple):
    """Nodes are written, pods are read."""

    nodes: Store
    pods: Store


class DualDuty:
    """Keeps the label right; tells when the nodes are others than before."""

    name = DUTY

    def __init__(  # noqa: PLR0913  # what is watched, written and known
        self,
        nodes: Watched[Named],
        stores: Stores,
        *,
        twice: Callable[[], tuple[Twice, ...] | None],
        given: Callable[[], Given | None],
        told: Told,
        about: About,
    ) -> None:
        self._nodes = nodes
        self._stores = stores
        self._twice = twice
        self._given = given
        self._told = told
        self._about = about
        self._said: frozenset[Finding] = frozenset()

    async def step(self) -> None:
        """Label what has to be; before anything was gathered nothing is known, and nothing done."""
        twice, given = self._twice(), self._given()
        if twice is None or given is None:
            return
        found = told(twice)
        findings = {found} if found else set()
        self._told.level(DUTY, "nodes", len(twice))
        self._told.level(DUTY, "idle devices", sum(each.devices for each in twice))

        async def keep(change: tuple[str, str | None]) -> None:
            name, value = change
            held = await self._held(name, given) if value is None else None
            if held is not None:
                findings.add(held)
            else:
                await self._label(name, value)

        try:
            await apart(sorted(labels(self._nodes.all(), twice).items()), keep)
        finally:
            self._tell(findings)

    def _tell(self, findings: set[Finding]) -> None:
        for finding in sorted(findings - self._said, key=lambda each: each.message):
            self._told.say(finding, self._about, "LabelNodes")
        self._said = frozenset(findings)

    async def _label(self, name: str, value: str | None) -> None:
        try:
            await self._stores.nodes.merge(name, {"metadata": {"labels": {LABEL: value}}})
        except Exception as error:
            if not refused(error, 404):  # the node is gone, and with it its label
                raise
            return
        self._told.count(DUTY, "labelled" if value else "unlabelled")

    async def _held(self, node: str, given: Given) -> Finding | None:
        """Say why a label has to stay, although a plugin and slices are no longer both there."""
        kept = self._nodes.get(node)
        status = _status(msgspec.json.decode(kept.raw)) if kept else {}
        if _some(status.get("allocatable"), given):
            return None  # the plugin stays, and the slices are what is gone
        pods = await self._stores.pods.list(fields=f"spec.nodeName={node}")
        asked = [names for pod in pods if (names := _of_plugins(pod, given))]
        if asked:
            whole = ", ".join(sorted(set[str]().union(*asked)))
            return DUAL_HELD.at(
                "status.allocatable",
                f"{node} advertises no device of slices any more, but {len(asked)} pods there "
                f"still hold what a plugin gave them for {whole}; translated pods keep off",
            )
        if coming := _some(status.get("capacity"), given):
            # A plugin that restarts leaves the capacity for minutes, and comes back.
            message = f"{node} has {', '.join(coming)} in its capacity: a plugin may come back"
            return DUAL_HELD.at("status.capacity", message)
        return None


def _some(amounts: Mapping[str, Any] | None, given: Given) -> list[str]:
    """The names of devices of which there are some."""
    return sorted(
        n for n, much in (amounts or {}).items() if f"{much}" != "0" and _served(n, given)
    )


def _status(value: Object) -> Mapping[str, Any]:
    return value.get("status") or {}


def _of_plugins(pod: Object, given: Given) -> set[str]:
    """The names by which a pod may hold devices that a plugin gave it."""
    status = _status(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        return set()
    special = status.get("extendedResourceClaimStatus") or {}
    # What the scheduler turned into a claim no plugin was asked for.
    claimed = {each.get("resourceName") for each in special.get("requestMappings") or ()}
    return {name for name in _asked(pod) if name not in claimed and _served(name, given)}


def _asked(pod: Object) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        yield from resources.get("limits") or {}
        yield from resources.get("requests") or {}


def _served(name: str, given: Given) -> bool:
    """Whether devices that slices publish may be handed out by this name."""
    if "/" not in name:
        return False
    known = families(given.configuration).values()
    mapped = given.facts.classes if given.facts else ()
    return any(serves(each, name) for each in known) or any(c.extended == name for c in mapped)
