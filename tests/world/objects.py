"""What the world starts with: nodes and their devices, classes, the configuration, the Lease."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.agreement.published_facts import build_data_key
from drawbridge.facts import serialized
from drawbridge.facts.model import GATE_OF_FIELD, Cluster, Facts
from drawbridge.names import POD_WEBHOOK
from tests.cluster.fake.configuration import accept, offer
from tests.cluster.fake.kinds import JSON, Kind
from tests.world.network import SYSTEM

DRIVER, CLASS, TEAM = "d.io", "gpu", "team"
# Another namespace of the team, and the label by which the quota selects its namespaces.
SECOND, CHOOSING = "second", {"team": "red"}
# Another driver of some nodes, whose pools have the names of the nodes as well.
NIC_DRIVER, NIC_CLASS = "n.io", "nic"
# The name of the devices before DRA, and the namespace whose pods are translated.
RESOURCE, MIGRATED = "d.io/gpu", "migrated"
# The label of the namespaces whose pods are translated.
ENFORCED: Mapping[str, str] = {"drawbridge.dev/translate": "enforce"}
TEAM_DEVICES = 2
FENCE = "drawbridge.dev/owned"
# The attribute of constraints and selectors, as constraints name it.
ROOT = "d.io/root"
HOSTNAME = "kubernetes.io/hostname"
# What a fabric reports of a device that must be attached before its pod is bound.
ATTACHED, UNATTACHABLE = "d.io/attached", "d.io/unattachable"
ADDED = "2025-12-31T00:00:00Z"
# Of which claims get shares, and what a device has of it, by three request policies: what is asked
# for is allocated as it is, rounded up to one of some amounts, or to steps.
MEMORY, _VALUE = "memory", {"value": "4"}
AS_ASKED: JSON = _VALUE
BY_VALUES: JSON = {**_VALUE, "requestPolicy": {"default": "4", "validValues": ["1", "2", "4"]}}
_STEPS = {"min": "2", "step": "2"}
BY_STEPS: JSON = {**_VALUE, "requestPolicy": {"default": "2", "validRange": _STEPS}}
# What our controller finds, so that a restored storage has no other facts.
GATES = (
    *("admin_access", "consumable_capacity", "derived_attributes", "device_binding_conditions"),
    *("device_taints", "extended_resource", "partitionable_devices", "prioritized_list"),
    *("resource_claim_device_status", "scheduler_filter_timeout"),
)
_UNOWNED = ("pods", "nodes", "leases", "podgroups", "resourceclaims", "resourceslices", "events")
_CONFIGURATION = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
decisions: {{nativeExtendedNames: translate}}
ownedPools:
  - driver: d.io
    nodeSelector: {{matchLabels: {{pool: bridge}}}}
    fence: {fence}
  - driver: n.io
    nodeSelector: {{matchLabels: {{pool: bridge}}}}
    fence: {fence}
{entry}bridge: {{forcedDeletionSeconds: {hold}}}
preemption: {{delaySeconds: {delay}}}
quotas:
  - name: team
    {of}
    total: {{gpu: {{devices: 2{memory}}}}}
"""


_ENTRY = """\
  - driver: {driver}
    nodeSelector: {{matchLabels: {{{label}: {name}}}}}
    fence: {fence}
"""


class Chosen(NamedTuple):
    """What an administrator chooses in the configuration of a run."""

    owns_changing: bool = False  # by its name
    hold_seconds: int = 30  # of a pod that vanished


class Shape(NamedTuple):
    """The devices of a node, each with the units that it takes of the counters of the node.

    A counter set has so many `units_of_set`; the devices take units in order, and begin again.
    With `slices`, the pool has several, each with a part of the devices. A fabric attaches some of
    the devices. Those that are `shared` have a memory of which claims get shares; of some others,
    `whole` is the memory. `roots` are the values of an attribute that some devices have in common.
    `nics` are those of the other driver.
    """

    devices: Mapping[str, int]
    units: int = 0
    slices: int = 1
    units_of_set: int = 1
    attached: frozenset[str] = frozenset()
    shared: Mapping[str, JSON] = {}
    whole: Mapping[str, int] = {}
    roots: Mapping[str, str] = {}
    nics: frozenset[str] = frozenset()

    def driver_of(self, name: str) -> str:
        """Return the driver of a device."""
        return NIC_DRIVER if name in self.nics else DRIVER

    @property
    def memory(self) -> Mapping[str, int]:
        """The memory of each device that publishes one."""
        return {name: int(each["value"]) for name, each in self.shared.items()} | {**self.whole}

    def without_shares(self) -> "Shape":
        """Return the same devices, each of which is given as a whole."""
        return self._replace(shared={}, whole=self.memory)

    def size(self, name: str) -> int:
        """Return the memory of a device that is shared; 1 of one that is given as a whole."""
        return int(self.shared[name]["value"]) if name in self.shared else 1

    def give(self, held: Mapping[str, int], name: str, asked: int) -> int:
        """Return what a request gets of a device beside what is held; 0 if it does not fit."""
        taken = sum(self.devices.get(device, 0) for device in held)
        needed = 0 if name in held else self.devices[name]
        fits = taken + needed <= self.units
        shared, whole = self.shared.get(name), self.whole.get(name, 0)
        return give(shared, held.get(name, 0), asked, whole) if fits else 0

    def charge(self, name: str, amount: int) -> int:
        """Return the memory that a quota counts for an amount of a device, or a whole one."""
        return amount if name in self.shared else self.whole.get(name, 0)


def give(capacity: JSON | None, held: int, asked: int, whole: int = 0) -> int:
    """Return what a request gets of a device beside what is held of it; 0 if it does not fit.

    That is an amount of its capacity, or a device that is not shared, with its `whole` memory.
    """
    if capacity is None:
        return 0 if held or asked > whole else 1
    amount = consume(capacity, asked)
    return amount if held + amount <= int(capacity["value"]) else 0


def consume(capacity: JSON, asked: int) -> int:
    """Return what a request consumes of a capacity; 0 if its policy refuses the request."""
    policy: JSON = capacity.get("requestPolicy") or {}
    if not asked:
        return int(policy.get("default", capacity["value"]))
    if values := policy.get("validValues"):
        return next((value for value in map(int, values) if value >= asked), 0)
    if limits := policy.get("validRange"):
        low, step = int(limits["min"]), int(limits["step"])
        return low + max(0, -(-(asked - low) // step)) * step
    return asked


# Two pools have a device and its two halves: of one counter set, in two slices, and of two sets.
# Most of what is given as a whole has a memory as well.
# One pool has a plain device and one that a fabric attaches. Three pools have a device with shares:
# one that is attached, one that takes from a counter set, and one whose node changes its owner. Two
# devices of one root fit together on the third node, and of different roots on the others. Three
# nodes have devices of another driver.
NODES = {
    "n1": Shape(
        {"whole": 2, "half-0": 1, "half-1": 1},
        units=2,
        slices=2,
        units_of_set=2,
        whole={"whole": 4, "half-0": 2, "half-1": 2},
        roots={"whole": "a", "half-0": "a", "half-1": "b"},
    ),
    "n2": Shape(
        {"gpu-0": 0, "gpu-1": 0, "nic-0": 0},
        attached=frozenset({"gpu-1"}),
        shared={"gpu-1": AS_ASKED},
        roots={"gpu-0": "a", "gpu-1": "b", "nic-0": "a"},
        nics=frozenset({"nic-0"}),
    ),
    "n3": Shape(
        {"whole": 2, "half-0": 1, "half-1": 1, "nic-0": 0, "nic-1": 0},
        units=2,
        shared={"half-1": BY_VALUES},
        whole={"whole": 3},
        roots={"whole": "a", "half-0": "b", "half-1": "b", "nic-0": "b", "nic-1": "c"},
        nics=frozenset({"nic-0", "nic-1"}),
    ),
}
# Nodes that others use: one that becomes owned and is given back, and one with a broken device that
# takes the only unit of a counter.
CHANGING, BROKEN = "n4", "n5"
# Its devices are those of a device plugin, until a driver takes its place, and later again.
SWAPPED = "n6"
# Nodes that an autoscaler adds for pods that wait, and removes when nobody uses them.
SCALED: Mapping[str, Shape] = {
    "n7": Shape({"gpu-0": 0, "gpu-1": 0}, roots={"gpu-0": "a", "gpu-1": "b"})
}
# The taint of a node that is shut down for good, as far as anybody knows.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# The taint of a node whose kubelet has just registered it: the API server adds it, and the node
# lifecycle controller removes it when the network of the node is ready.
NOT_READY = "node.kubernetes.io/not-ready"
NATIVE = {
    CHANGING: Shape(
        {"gpu-0": 0, "gpu-1": 0, "nic-0": 0},
        shared={"gpu-1": BY_STEPS},
        roots={"gpu-0": "a", "gpu-1": "a", "nic-0": "a"},
        nics=frozenset({"nic-0"}),
    ),
    BROKEN: Shape({"broken": 1, "good": 1}, units=1),
    SWAPPED: Shape({"gpu-0": 0, "gpu-1": 0}, roots={"gpu-0": "b"}),
}
BROKEN_TAINTS: Mapping[str, JSON] = {"broken": {"key": "d.io/broken", "effect": "NoSchedule"}}
ALL_NODES = NODES | NATIVE | {**SCALED}


def make_node(name: str, *, is_owned: bool = True) -> JSON:
    """Return a node as its kubelet registers it, not ready, and with the fence if it is owned."""
    labels = {"pool": "bridge" if is_owned else "native", HOSTNAME: name}
    metadata: JSON = {"name": name, "labels": labels}
    taints: list[JSON] = [{"key": NOT_READY, "effect": "NoSchedule"}]
    spec = {"taints": taints}
    node: JSON = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    if is_owned:
        taints.append({"key": FENCE, "effect": "NoSchedule", "timeAdded": ADDED})
        metadata["annotations"] = {"drawbridge.dev/fence-settled": ADDED}
    return node


def make_slices(
    name: str,
    shape: Shape,
    generation: int,
    left_out: str = "",
    taints: Mapping[str, JSON] = {},
) -> list[JSON]:
    """Return the slices of a node, without one device, and with taints of devices.

    What is left has room in one slice if there are several.
    """
    devices, nics, unit = list[JSON](), list[JSON](), 0
    for device, units in shape.devices.items():
        value: JSON = {"name": device}
        if device in shape.roots:
            # In its own domain, a driver leaves the domain out.
            name_of_root = ROOT if device in shape.nics else "root"
            value["attributes"] = {name_of_root: {"string": shape.roots[device]}}
        if device in taints:
            value["taints"] = [taints[device]]
        if device in shape.attached:
            value |= {"bindingConditions": [ATTACHED], "bindingFailureConditions": [UNATTACHABLE]}
        if device in shape.shared:
            value |= {"allowMultipleAllocations": True, "capacity": {MEMORY: shape.shared[device]}}
        elif device in shape.whole:
            value["capacity"] = {MEMORY: {"value": f"{shape.whole[device]}"}}
        if units:
            taken = ((unit + number) % shape.units for number in range(units))
            sets = Counter(each // shape.units_of_set for each in taken)
            value["consumesCounters"] = [
                {"counterSet": f"set-{number}", "counters": {"units": {"value": f"{count}"}}}
                for number, count in sets.items()
            ]
        unit += units
        if device != left_out:
            (nics if device in shape.nics else devices).append(value)
    count = 1 if left_out else shape.slices
    parts: list[JSON] = [{"devices": devices[number::count]} for number in range(count)]
    if shape.units:
        names = [f"set-{number}" for number in range(shape.units // shape.units_of_set)]
        counters = {"units": {"value": f"{shape.units_of_set}"}}
        parts.append({"sharedCounters": [{"name": name, "counters": counters} for name in names]})
    slices = [*_make_pool(name, DRIVER, generation, parts)]
    return [*slices, *_make_pool(name, NIC_DRIVER, generation, [{"devices": nics}])]


def _make_pool(name: str, driver: str, generation: int, parts: Sequence[JSON]) -> Iterator[JSON]:
    pool = {"name": name, "generation": generation, "resourceSliceCount": len(parts)}
    for number, part in enumerate(parts):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver[0]}{number}"},
            "spec": {"driver": driver, "nodeName": name, "pool": pool, **part},
        }


def compose_configuration(
    chosen: Chosen,
    *,
    fences_devices: bool,
    delay: int,
    team_memory: int | None = None,
    selects: str = "",
) -> str:
    """Return the text of a configuration. A pod waits for the delay before it evicts others.

    The quota of the team limits its devices, and their memory if that is given. It names one
    namespace, or `selects` some by a label, for each `namespace` or for all of the `selection`.
    """
    by_label = f"namespaceSelector: {{matchLabels: {{team: {CHOOSING['team']}}}}}"
    fence = "rules" if fences_devices else "taint"
    entry = "".join(
        _ENTRY.format(driver=driver, label=HOSTNAME, name=CHANGING, fence=fence)
        for driver in (DRIVER, NIC_DRIVER)
    )
    return _CONFIGURATION.format(
        fence=fence,
        entry=entry if chosen.owns_changing else "",
        hold=chosen.hold_seconds,
        delay=delay,
        of=f"{by_label}\n    per: {selects}" if selects else f"namespaces: [{TEAM}]",
        memory="" if team_memory is None else f", {MEMORY}: {team_memory}",
    )


def make_system(configuration: str, version: str) -> Iterator[JSON]:
    """Yield what an administrator and our controller have written, with this configuration."""
    cluster = Cluster(version=version, gates=GATES, keeps=tuple(sorted(GATE_OF_FIELD)))
    facts = Facts(cluster=cluster)
    digest = serialized.facts_hash(facts)
    data = {build_data_key(digest): serialized.encode_facts(facts).decode(), "current": digest}
    system = {"namespace": SYSTEM}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "drawbridge-facts", **system},
        "data": data,
    }
    yield offer(configuration)
    yield accept(configuration)
    lease = {"name": "drawbridge-scheduler", **system}
    yield {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease, "spec": {}}
    for name, driver in ((CLASS, DRIVER), (NIC_CLASS, NIC_DRIVER)):
        selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
        resource = {"extendedResourceName": RESOURCE} if name == CLASS else {}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": selectors, **resource},
        }
    yield make_migrated(MIGRATED)
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "drawbridge"},
        "webhooks": [{"name": POD_WEBHOOK, "clientConfig": {}}],
    }


def make_migrated(space: str) -> JSON:
    """Return a namespace whose pods are translated."""
    metadata = {"name": space, "labels": {**ENFORCED}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def is_migrated(space: str) -> bool:
    """Whether the pods of a namespace are translated."""
    return space.startswith(MIGRATED)


def is_over(pod: JSON) -> bool:
    """Whether a pod has succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_open(node: JSON) -> bool:
    """Whether a scheduler lets pods start on a node."""
    taints = node["spec"].get("taints") or ()
    is_closed = any(taint["key"] in (OUT_OF_SERVICE, NOT_READY) for taint in taints)
    return not node["spec"].get("unschedulable") and not is_closed


def has_fence(node: JSON) -> bool:
    """Whether a node has the taint that keeps other schedulers from it."""
    return any(taint["key"] == FENCE for taint in node["spec"].get("taints") or ())


def has_owners(kind: Kind) -> bool:
    """Whether somebody reads who owns the fields of a kind; it takes a tenth of a run."""
    return kind.plural not in _UNOWNED
