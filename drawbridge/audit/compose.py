"""Composes the audit of a cluster from what was read."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.agreement.scope import Mode
from drawbridge.audit.afterwards import find_capacities_after
from drawbridge.audit.allocated import AllocatedClaims
from drawbridge.audit.demand import find_sizes, times
from drawbridge.audit.fit import FindDevices, RunningPods, summarize_fit, translate_running
from drawbridge.audit.migration import Rehearsed, make_plan
from drawbridge.audit.model import (
    Audit,
    Fate,
    GroupCapacity,
    NamespaceAudit,
    NodeGroup,
    NodeState,
    Summary,
    WorkloadAudit,
)
from drawbridge.audit.node_groups import Group, group_nodes
from drawbridge.audit.objects import AuditedObjects, Decide, text_at
from drawbridge.audit.outcomes import Decider
from drawbridge.audit.outlived import note_outlived
from drawbridge.audit.predicted import Prediction, count_gpus, find_most, predict, single_profile
from drawbridge.audit.rehearsed_cluster import read_cluster
from drawbridge.audit.servers import find_plugins
from drawbridge.audit.templates import Templates
from drawbridge.audit.unread import note_unread
from drawbridge.audit.workloads import (
    CLAIMS,
    NOBODY,
    Where,
    add_owners,
    by_namespace,
    collect_pods,
    find_lacking,
    find_refusals,
    has_claims,
    order,
)
from drawbridge.brief import Brief
from drawbridge.config.model import Configuration
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.dra.gates import Gates
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.judge.slices.published_twice import find_published_twice
from drawbridge.ledger.still_fits import StillFits
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA
from drawbridge.translate.changes.queues import (
    Mappings,
    describe_mappings,
    find_collisions,
    is_managed,
    merge_mappings,
)
from drawbridge.translate.manifests.quotas import report_quotas

_MAX_SHOWN: Final = 500  # workloads of one namespace
_MAX_NAMES: Final = 5
_SLACK: Final = 1e-6
_SIMULATED: Final = (
    "The steps are rehearsed with devices, CPU, memory, node selectors, taints, local volumes,"
    " budgets, quotas, Jobs, rollouts, required anti-affinity and topology spread; affinity to"
    " other pods, other volumes and preemption are not."
)
_OTHER_KINDS: Final = (
    "Of kinds of workloads that it does not know, the audit sees the pods only, and takes it that"
    " somebody creates these again."
)


class Future(NamedTuple):
    """The cluster after the migration, as it is expected, and its facts; and those of now."""

    prediction: Prediction
    facts: Facts
    facts_now: Facts


def foresee(objects: AuditedObjects, configuration: Configuration, gates: Gates) -> Future:
    """Return what the cluster publishes after the migration."""
    prediction = predict(objects, configuration, class_names=gates.extended_resource)
    after = FactsInput(prediction.slices, prediction.classes, prediction.nodes, objects.networks)
    now = FactsInput(objects.slices, objects.classes, objects.nodes, objects.networks)
    facts, facts_now = (gather_facts(each, configuration, gates).facts for each in (after, now))
    return Future(prediction, facts, facts_now)


class AskFit(NamedTuple):
    """What the solver is asked: whether running pods still fit, and which nodes have devices.

    With the running pods come the nodes that keep their plugin. `rehearsing` is told how many of
    how many nodes have been moved in the rehearsal.
    """

    still_fits: Callable[[RunningPods, Collection[str]], StillFits]
    find_devices: FindDevices
    rehearsing: Callable[[int, int], None] = lambda _, __: None


class DecisionsByFacts(NamedTuple):
    """What admission decides with the facts of now, and with those after the migration."""

    now: Decide
    after: Decide
    brief: Brief = Brief()  # ends what takes long about one pod


def compose_audit(  # noqa: PLR0913  # what decides, and what was read
    objects: AuditedObjects,
    future: Future,
    decide: DecisionsByFacts,
    configuration: Configuration,
    gates: Gates,
    *,
    ask_fit: AskFit | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Audit:
    """Return the audit; without `ask_fit`, of a part of the cluster without groups and plan.

    `progress` is called with the number of pods that are decided.
    """
    plugins = find_plugins(objects.pods, objects.workloads, objects.nodes)
    groups = group_nodes(objects, plugins, future.prediction, configuration, gates)
    of_nodes = {node.name: group.name for group in groups for node in group.nodes}
    where = Where({each.name: each for each in objects.nodes}, of_nodes, plugins)
    sizes, most = find_sizes(future.facts), find_most(objects.nodes, objects.annotations)
    templates = Templates(objects.workloads)
    decider = Decider(*decide, configuration, future.facts, sizes, objects, most, templates)
    extended = {e.spec.extended_resource_name or "" for e in future.prediction.classes}
    charged = extended if gates.extended_resource else frozenset[str]()
    namespaces = tuple(_audit_namespaces(objects, decider, where, charged, progress))
    every = [entry for each in namespaces for entry in each.workloads]
    shown = tuple(_shorten(_count_fates(each, is_part=ask_fit is None)) for each in namespaces)
    part = Audit(gates.version, _summarize(shown, every, objects), shown, stuck=objects.stuck)
    if ask_fit is None:
        return part
    running = translate_running(decider)
    allocated = AllocatedClaims(objects, sizes)
    held = allocated.count_by_group(of_nodes, decider.find_claimed)
    start = read_cluster(groups, decider, allocated, ask_fit.find_devices)
    plan = make_plan(namespaces, groups, decider, start, rehearsing=ask_fit.rehearsing)
    return replace(
        part,
        node_groups=tuple(
            _describe(each, every, objects, held.get(each.name, {}), plan) for each in groups
        ),
        steps=plan.steps,
        notes=(
            *note_outlived(objects, configuration),
            *map(_write_out, find_published_twice(objects.slices)),
            *_notes(objects, future.prediction, every, plan.kept),
            *plan.notes,
            *_note_queues(objects, decider.mappings),
        ),
        fit=summarize_fit(ask_fit.still_fits(running, plan.kept), running, plan.kept),
    )


def _write_out(finding: Finding) -> str:
    message = finding.message
    return f"{message[0].upper()}{message[1:]}. {finding.remedy}"


def _note_queues(objects: AuditedObjects, mappings: Sequence[Mappings]) -> Iterator[str]:
    """Say what Kueue needs to charge the claims of the pods and jobs that it manages."""
    merged = merge_mappings(mappings)
    if merged and any(map(is_managed, (*objects.pods, *objects.workloads))):
        yield (
            "Kueue admits pods with these claims only with the DeviceClasses in `resources` of its "
            f"configuration: {describe_mappings(merged)}"
        )
        for class_, names in find_collisions(mappings).items():
            listed = list_some(names, _MAX_NAMES, "name")
            yield (
                f"DeviceClass {class_} replaces several names: {listed}. A mapping has one of them,"
                " so jobs that request another one have a second quota for the same devices until"
                " their manifests are translated."
            )


# --- namespaces ----------------------------------------------------------------------------------


def _audit_namespaces(
    objects: AuditedObjects,
    decider: Decider,
    where: Where,
    charged: Collection[str],
    progress: Callable[[int], None],
) -> Iterator[NamespaceAudit]:
    """Yield the namespaces that ask for devices, or that are opted in."""
    pods, workloads = by_namespace(objects.pods), by_namespace(objects.workloads)
    events, quotas = by_namespace(objects.events), by_namespace(objects.quotas)
    done = 0
    for name in sorted({*(each.name for each in objects.namespaces), *pods, *workloads}):
        namespace = objects.find_namespace(name)
        collected = collect_pods(pods.get(name, ()), namespace, decider, where)
        entries = order(add_owners(collected, workloads.get(name, ()), namespace, decider))
        done += len(pods.get(name, ()))
        progress(done)
        told = events.get(name, ())
        is_known = told and not (objects.of_a_time or objects.missing)
        mine = workloads.get(name, ()), pods.get(name, ())
        refusals = find_refusals(told, find_lacking(*mine) if is_known else None)
        if not (entries or refusals or namespace.mode is not Mode.OFF):
            continue
        counts = Counter[Fate]()
        for entry in entries:
            counts[entry.fate] += entry.pods
        yield NamespaceAudit(
            name,
            namespace.mode,
            {fate: counts[fate] for fate in Fate},
            tuple(entries),
            refusals=refusals,
            quotas=tuple(_list_quotas(quotas.get(name, ()), charged)),
        )


def _is_mirror(quota: Value) -> bool:
    labels = {key: text_at(quota, "metadata", "labels", key) for key in MANAGED_BY}
    return labels == MANAGED_BY and text_at(quota, "metadata", "name") == MIRRORED_QUOTA


def _list_quotas(quotas: Iterable[Value], charged: Collection[str]) -> Iterator[str]:
    """Describe quotas on legacy names; claims of classes count to the names in `charged`."""
    quotas = [*quotas]
    mirrored = any(map(_is_mirror, quotas))
    for quota in quotas:
        for finding in report_quotas(quota):
            name = finding.message.partition(" ")[0]
            more = "; the controller mirrors it to claims" if mirrored else ""
            told = f"{finding.message}{more}"
            if name.removeprefix("requests.") in charged and name.startswith("requests."):
                told = f"{name} counts translated pods, too: a DeviceClass has the name"
            yield f"{text_at(quota, 'metadata', 'name')}: {told}"


def _count_fates(namespace: NamespaceAudit, *, is_part: bool) -> NamespaceAudit:
    """Count the owners: in the whole cluster, what has finished asks for nothing.

    In a part it was asked in the time that `--since` names.
    """
    entries = [each for each in namespace.workloads if is_part or not each.is_over]
    counted = Counter(fate for _, fate in {(each.owner, each.fate) for each in entries})
    owners = len({each.owner for each in entries})
    return replace(namespace, owners=owners, fates={fate: counted[fate] for fate in Fate})


def _shorten(namespace: NamespaceAudit) -> NamespaceAudit:
    """Bound what one namespace adds to the output; the counts have everything."""
    more = len(namespace.workloads) - _MAX_SHOWN
    if more <= 0:
        return namespace
    return replace(namespace, workloads=namespace.workloads[:_MAX_SHOWN], workloads_not_shown=more)


def _summarize(
    namespaces: Iterable[NamespaceAudit], entries: Sequence[WorkloadAudit], objects: AuditedObjects
) -> Summary:
    fates, units, workloads = Counter[Fate](), Counter[str](), 0
    for namespace in namespaces:
        fates.update(namespace.fates)
        workloads += namespace.owners
    for entry in entries:
        if entry.served_by not in (CLAIMS, NOBODY):
            units.update(times(entry.demand, entry.running).units)
    return Summary(
        len(objects.nodes),
        workloads,
        sum(each.pods for each in entries),
        {fate: fates[fate] for fate in Fate},
        dict(sorted(units.items())),
    )


# --- node groups ---------------------------------------------------------------------------------


def _describe(
    group: Group,
    entries: Iterable[WorkloadAudit],
    objects: AuditedObjects,
    held: Mapping[str, float],
    plan: Rehearsed,
) -> NodeGroup:
    here = [(each, each.nodes[group.name]) for each in entries if group.name in each.nodes]
    number = len(group.nodes)
    now_units = Counter[str]()
    for entry, running in here:
        if not has_claims(entry):
            now_units.update(times(entry.demand, running).units)
    before = [
        GroupCapacity(name, count * number, now_units.get(name, 0))
        for name, count in group.units.items()
    ]
    before += _capacities(group.now.classes, held, number)
    after = find_capacities_after(group, plan.start, plan.kept) if group.driver else before
    return NodeGroup(
        group.name,
        tuple(sorted(each.name for each in group.nodes)),
        group.selector,
        _find_state(group),
        tuple(each.text for each in group.plugins),
        _find_driver(group, plan.kept),
        tuple(before),
        tuple(after),
        sum(each.unschedulable for each in group.nodes),
        sum(not each.ready for each in group.nodes),
        tuple(_note_group(group, after, objects)),
    )


def _capacities(
    offered: Mapping[str, int], held: Mapping[str, float], number: int
) -> list[GroupCapacity]:
    names = sorted({*offered, *held})
    return [
        GroupCapacity(name, offered.get(name, 0) * number, round(held.get(name, 0), 3))
        for name in names
        if offered.get(name) or held.get(name)
    ]


def _find_driver(group: Group, kept: Collection[str]) -> str:
    """Return the driver that nodes of a group have then; empty if all keep their plugin alone."""
    moves = any(each.name not in kept for each in group.nodes)
    return (group.driver if moves else "") or ", ".join(sorted(group.now.drivers))


def _find_state(group: Group) -> NodeState:
    if group.now.dual:
        return NodeState.BOTH
    if group.units and group.now.classes:
        return NodeState.MIXED
    if group.units:
        return NodeState.PLUGIN
    return NodeState.DRIVER if group.now.classes else NodeState.NONE


def _note_group(
    group: Group, after: Iterable[GroupCapacity], objects: AuditedObjects
) -> Iterator[str]:
    both = [each.text for each in group.plugins if each.serves(group.replaced)]
    if len(both) > 1:
        yield f"{' and '.join(both)} can give the same device to two pods."
    if profile := single_profile(group.nodes[0]):
        yield (
            f"nvidia.com/gpu counts partitions {profile} there, and a claim for it asks for a whole"
            " GPU: pods that need these nodes must ask for class mig.nvidia.com."
        )
    if group.now.dual:
        names = ", ".join(sorted(group.now.dual))
        yield f"A plugin ({names}) and a driver offer the same devices; translated pods avoid them."
    for use in after:
        if use.name not in group.units and use.held > use.offered + _SLACK:
            yield (
                f"The pods that run there need {use.held:g} devices of class {use.name}, and"
                f" {use.offered:g} are expected: some need another node."
            )
    if group.units or group.now.classes:
        return
    if group.is_broken:
        names, serving = ", ".join(sorted(group.lost)), [e.text for e in group.plugins]
        yield (
            f"The nodes offer 0 of {names}, so no devices are expected there. Repair"
            f" {' and '.join(serving) or 'the device plugin'}, and audit again."
        )
    elif group.expects and not group.driver:
        gpus = count_gpus(group.nodes[0], objects.annotations.get(group.nodes[0].name, {}))
        number = f"{gpus} GPUs each" if gpus else "GPUs"
        yield f"Labels say that the nodes have {number}, but no plugin and no driver offers them."


# --- notes ---------------------------------------------------------------------------------------


def _notes(
    objects: AuditedObjects,
    prediction: Prediction,
    entries: Iterable[WorkloadAudit],
    kept: Collection[str],
) -> Iterator[str]:
    if counts := Counter(n for node, n in prediction.drivers.items() if node not in kept):
        listed = ", ".join(f"{name} on {count_noun(n, 'node')}" for name, n in counts.items())
        yield (
            f"Expected drivers: {listed}. Their devices are read from the labels and annotations of"
            " the nodes."
        )
    if prediction.new_classes:
        listed = ", ".join(prediction.new_classes)
        yield f"Expected DeviceClasses, as the charts of the drivers install them: {listed}."
    if prediction.kept:
        listed = ", ".join(sorted(prediction.kept))
        yield (
            f"The plan does not move {listed} where a node has or gets another driver: it labels "
            "each node with one driver. Replace these plugins yourself, on drained nodes."
        )
    if prediction.unknown:
        listed = ", ".join(sorted(prediction.unknown))
        yield f"No driver is known for {listed}. Name it in `targets` of the Configuration."
    yield from (f"Not read: {each}." for each in objects.missing)
    if objects.unread:
        yield f"Not counted: {count_noun(objects.unread, 'object')} that could not be read."
    if finished := sum(each.finished for each in entries):
        yield f"No devices are held by {count_noun(finished, 'finished pod')}."
    yield from note_unread(objects)
    yield _SIMULATED
    yield _OTHER_KINDS
