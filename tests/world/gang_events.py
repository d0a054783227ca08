"""What a script lets happen to gangs: they come in each form, change, and go with their objects.

A gang of Coscheduling can have its minimum in a label or in a PodGroup. The members of a PodGroup
of Kubernetes have claims of their own, or share one that is reserved for the PodGroup, beside which
one of them, or each, can have its own. In Kubernetes 1.35 they name a Workload in its place, which
can have several replicas.
"""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tests.cluster.fake.kinds import JSON, named
from tests.world.events import GRACE_SECONDS, choose_space, create_claim, create_pod, event
from tests.world.gangs import (
    COSCHEDULING,
    GROUP,
    GROUP_LABEL,
    MIN_LABEL,
    TEMPLATE,
    WORKLOAD,
    gang_of,
)
from tests.world.machines import draw_seconds
from tests.world.objects import CLASS

if TYPE_CHECKING:
    from tests.world.world import World

# What of it counts as a fault.
FAULT_NAMES = ("delete gang",)
# The API server gives this to each PodGroup of Kubernetes.
FINALIZER = "scheduling.k8s.io/podgroup-protection"
_LABELS, _COSCHEDULING, _OWN, _NAMED, _MADE, _WORKLOAD = range(6)
# By how often gangs have these forms.
_FORMS = (_LABELS, _LABELS, _LABELS, _COSCHEDULING, _OWN, _NAMED, _MADE, _MADE)
# Which claim members share: that with the name of the gang, or one that is made of a template.
_ENTRIES = {
    _NAMED: ("resourceClaimName", ""),
    _MADE: ("resourceClaimTemplateName", TEMPLATE),
}


class _NewGang(NamedTuple):
    """A gang that is being created."""

    form: int
    space: str
    name: str
    size: int
    priority: int
    drawn: int
    replica: str = ""  # of a Workload that exists

    @property
    def with_own(self) -> int:
        """How many of the members that share a claim have one of their own as well."""
        return (0, 0, 1, self.size)[self.drawn // 512 % 4]

    def make_object(self) -> JSON | None:
        """Return the object of the gang, if it has one."""
        if self.form == _LABELS or self.replica:
            return None
        metadata: JSON = {"name": self.name, "namespace": self.space}
        if self.form == _COSCHEDULING:
            kind, spec = COSCHEDULING, JSON(minMember=self.size)
        elif self.form == _WORKLOAD:
            policy = {"gang": {"minCount": self.size}}
            kind, spec = WORKLOAD, JSON(podGroups=[{"name": "workers", "policy": policy}])
        else:
            kind, spec = GROUP, JSON(schedulingPolicy={"gang": {"minCount": self.size}})
            metadata["finalizers"] = [FINALIZER]
        if self.form in _ENTRIES:
            spec["resourceClaims"] = [self._entry()]
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata} | {
            "spec": spec
        }

    def create_shared(self, world: "World") -> None:
        """Create the claim that members share, or its template."""
        if self.form == _NAMED:
            create_claim(world, self.name, None, self.drawn, space=self.space)
        if self.form == _MADE:
            world.server.put(_make_template(self.space))

    def create_member(self, world: "World", number: int = 0) -> str:
        """Create a member; return its name. It has a claim of its own, or shares one, or both."""
        labels, spec = dict[str, str](), JSON()
        if self.form in (_LABELS, _COSCHEDULING):
            least = {MIN_LABEL: f"{self.size}"} if self.form == _LABELS else {}
            labels = {GROUP_LABEL: self.name} | least
        elif self.form == _WORKLOAD:
            spec["workloadRef"] = {"name": self.name, "podGroup": "workers"}
            if self.replica:
                spec["workloadRef"]["podGroupReplicaKey"] = self.replica
        else:
            spec["schedulingGroup"] = {"podGroupName": self.name}
        shared = [self._entry()] if self.form in _ENTRIES else []
        own = [world.next_name("c")] if number < self.with_own or not shared else []
        about = {"space": self.space, "priority": self.priority, "labels": labels}
        pod = create_pod(world, own, shared=shared, **about, more=spec)
        for claim in own:
            create_claim(world, claim, pod, self.drawn)
        return str(pod["metadata"]["name"])

    def _entry(self) -> JSON:
        """Return the entry of the shared claim, which a PodGroup has as well."""
        key, of_all = _ENTRIES[self.form]
        return {"name": "shared", key: of_all or self.name}


@event(3.5)
def create_gang(world: "World", drawn: int) -> str:
    """Create two or three pods that run together or not at all, often one after the other."""
    return _create_gang(world, drawn, 2 + drawn % 2)


@event(2)
def create_important_gang(world: "World", drawn: int) -> str:
    """Create a gang of two that may preempt others, but not the most important pods."""
    return _create_gang(world, drawn, 2, priority=50)


def _create_gang(world: "World", drawn: int, size: int, priority: int = 0) -> str:
    """Create the pods, and the object of the gang before or after them."""
    form, space = _FORMS[drawn // 16 % len(_FORMS)], choose_space(world, drawn // 2)
    gang = _NewGang(form, space, world.next_name("gang"), size, priority, drawn)
    if world.conditions.group_kind is WORKLOAD and form not in (_LABELS, _COSCHEDULING):
        gang = _of_workload(world, gang)
    later, group = asyncio.get_running_loop().call_later, gang.make_object()
    pause = 0.0 if drawn // 8 % 2 else draw_seconds(drawn, 2) / 2
    late = draw_seconds(drawn // 3, 6) if drawn // 128 % 2 else 0.0
    if group is not None:
        later(late, world.server.put, group)
    gang.create_shared(world)
    made = [gang.create_member(world)]
    for number in range(1, size):
        if pause:
            later(pause * number, gang.create_member, world, number)
        else:
            made.append(gang.create_member(world, number))
    about = f", its {group['apiVersion']} after {late:.1f} s" if group else ""
    return f"{gang.name} with {', '.join(made)} of {size}, each {pause:.1f} s later{about}"


def _of_workload(world: "World", gang: _NewGang) -> _NewGang:
    """Return a gang that names a Workload, often as another replica of one that exists."""
    gang = gang._replace(form=_WORKLOAD)
    world.network.count("gang of a Workload")
    spaces = (each["metadata"] for each in world.all(WORKLOAD.long_name))
    names = [each["name"] for each in spaces if each["namespace"] == gang.space]
    if not names or gang.drawn // 64 % 2:
        return gang
    return gang._replace(name=names[gang.drawn // 32 % len(names)], replica=gang.name)


def _make_template(space: str) -> JSON:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE, "namespace": space},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _choose_group(world: "World", drawn: int) -> JSON | None:
    """Return the object of a gang."""
    kinds = (world.conditions.group_kind, COSCHEDULING)
    groups = [each for kind in kinds for each in world.all(kind.long_name)]
    return groups[drawn % len(groups)] if groups else None


@event(0.8)
def resize_gang(world: "World", drawn: int) -> str:
    """Change how many members must run together, which Kubernetes 1.37 allows as well."""
    group = _choose_group(world, drawn // 3)
    if group is None or "podGroups" in group["spec"]:
        return ""  # a Workload does not change
    least, spec = 1 + drawn % 3, group["spec"]
    if "minMember" in spec:
        spec = {**spec, "minMember": least}
    else:
        spec = {**spec, "schedulingPolicy": {"gang": {"minCount": least}}}
    world.server.put({**group, "spec": spec})
    return f"{group['metadata']['name']} needs {least}"


@event(0.5)
def delete_group(world: "World", drawn: int) -> str:
    """Delete the object of a gang while its members run or wait."""
    group = _choose_group(world, drawn)
    if group is None:
        return ""
    _delete_object(world, group)
    return f"{group['metadata']['name']}"


def _delete_object(world: "World", group: JSON) -> None:
    kinds = {"schedulingPolicy": GROUP, "podGroups": WORKLOAD}
    kind = next((kinds[key] for key in group["spec"] if key in kinds), COSCHEDULING)
    world.network.store.delete(kind, group)


@event(1.5)
def delete_gang(world: "World", drawn: int) -> str:
    """Delete a gang, one that runs first, as who made it does, and sometimes with force."""
    members = [pod for pod in world.all("pods") if gang_of(pod)]
    chosen = [pod for pod in members if "nodeName" in pod["spec"]] or members
    if not chosen:
        return ""
    gang, has_force = gang_of(chosen[drawn // 2 % len(chosen)]), bool(drawn % 2)
    assert gang is not None
    members = [pod for pod in members if gang_of(pod) == gang]
    for pod in members:
        world.network.store.delete(named("pods"), pod, 0 if has_force else GRACE_SECONDS)
    if group := world.network.store.find(*gang.place):
        world.network.store.delete(gang.kind, group)
    return f"{gang.name} with {len(members)} members{', with force' if has_force else ''}"


@event(1)
def replace_member(world: "World", drawn: int) -> str:
    """Create another member of a gang, like one that is there."""
    members = [pod for pod in world.all("pods") if gang_of(pod)]
    if not members:
        return ""
    pod = members[drawn % len(members)]
    spec, space = pod["spec"], pod["metadata"]["namespace"]
    entries = spec["resourceClaims"]
    shared = [entry for entry in entries if entry["name"] == "shared"]
    own = [world.next_name("c") for _ in entries[len(shared) :]]
    made = create_pod(
        world,
        own,
        shared=shared,
        space=space,
        labels=pod["metadata"].get("labels"),
        priority=spec["priority"],
        more={key: spec[key] for key in ("schedulingGroup", "workloadRef") if key in spec},
    )
    for claim in own:
        create_claim(world, claim, made, drawn)
    return f"{made['metadata']['name']} like {pod['metadata']['name']}"
