"""Writes an audit as text: for a terminal, in tables."""

from collections.abc import Iterable, Iterator, Sequence

from drawbridge.audit.model import (
    FATE_WORDS,
    Audit,
    Expected,
    Fate,
    FitSummary,
    GroupCapacity,
    MigrationStep,
    NamespaceAudit,
    NodeGroup,
    WorkloadAudit,
    count_fate,
)
from drawbridge.audit.workloads import NOBODY
from drawbridge.dra.counted import count_noun
from drawbridge.report.stuck.found import format_stuck
from drawbridge.report.tables import align_columns

_SHOWN = 20  # workloads of a namespace


def write_text(
    audit: Audit, only: str = "", *, verbose: bool = False, rehearse: bool = False
) -> Iterator[str]:
    """Yield the lines: counts, namespaces, node groups, what is stuck, steps and notes.

    With `verbose`, all workloads of a namespace; otherwise the first ones. With `rehearse`, what
    each step does to whom.
    """
    if not audit.namespaces:
        where = f"namespace {only}" if only else "the cluster"
        yield f"no pod or workload of {where} asks for devices"
    else:
        yield from _write_namespaces(audit.namespaces, None if verbose else _SHOWN)
    if audit.node_groups:
        yield ""
        yield from align_columns([_GROUP_HEADER, *map(_group_row, audit.node_groups)])
        for group in audit.node_groups:
            for note in group.notes:
                yield f"  {group.name}: {note}"
    if audit.stuck:
        yield ""
        yield f"Stuck: {count_noun(len(audit.stuck), 'object')}"
        yield from (f"  {line}" for line in format_stuck(audit.stuck, None if verbose else _SHOWN))
    if audit.fit is not None:
        yield ""
        yield from write_fit(audit.fit)
    for number, step in enumerate(audit.steps, 1):
        yield ""
        yield from _write_step(number, step, rehearse=rehearse)
    if audit.notes:
        yield ""
        yield from (f"Note: {note}" for note in audit.notes)


def summarize(audit: Audit) -> str:
    """Return the answer in one line."""
    summary = audit.summary
    counts = (count_fate(fate, n) for fate, n in summary.fates.items() if n)
    listed = ", ".join(counts)
    asked = f"{count_noun(summary.workloads, 'workload')} with {count_noun(summary.pods, 'pod')}"
    return f"{asked}: {listed}" if listed else asked


# --- namespaces ----------------------------------------------------------------------------------


def _write_namespaces(namespaces: Sequence[NamespaceAudit], most: int | None) -> Iterator[str]:
    shown = [fate for fate in Fate if any(each.fates.get(fate) for each in namespaces)]
    header = ("NAMESPACE", "MODE", "PODS", "WORKLOADS", *(FATE_WORDS[e].upper() for e in shown))
    rows = [
        (each.namespace, each.mode, *(f"{number:,}" for number in _count(each, shown)))
        for each in namespaces
    ]
    yield from align_columns([header, *rows])
    for namespace in namespaces:
        if namespace.workloads or namespace.refusals or namespace.quotas:
            yield ""
            yield f"{namespace.namespace}:"
            yield from (f"  {line}" for line in _write_namespace(namespace, most))


def _count(namespace: NamespaceAudit, shown: Iterable[Fate]) -> Iterator[int]:
    """Yield the pods, the workloads, and these by what becomes of them."""
    yield sum(namespace.pods.values())
    yield namespace.owners
    yield from (namespace.fates.get(fate, 0) for fate in shown)


def _write_namespace(namespace: NamespaceAudit, most: int | None) -> Iterator[str]:
    shown = namespace.workloads[:most]
    for entry, line in zip(shown, align_columns([*map(_workload_row, shown)]), strict=True):
        yield line
        yield f"    {describe_change(entry)}"
    more = len(namespace.workloads) - len(shown) + namespace.workloads_not_shown
    if more > 0:
        yield f"and {count_noun(more, 'more workload')}"
    for owner, text in namespace.refusals.items():
        yield f"refused now: {owner}: {text}"
    yield from (f"quota {text}" for text in namespace.quotas)


def _workload_row(entry: WorkloadAudit) -> tuple[str, ...]:
    served = "" if entry.served_by == NOBODY else f"now: {entry.served_by}"
    return FATE_WORDS[entry.fate], entry.owner, describe_pods(entry), served


def describe_change(entry: WorkloadAudit) -> str:
    """Return what an entry asks, what it becomes, and the codes of what a person should know."""
    is_kept = entry.fate in (Fate.STAYS, Fate.REFUSED)
    became = "; ".join(entry.reasons if is_kept else entry.becomes)
    codes = f" [{', '.join(entry.codes)}]" if entry.codes and not is_kept else ""
    return f"{', '.join(entry.asks)}{f' -> {became}' if became else ''}{codes}"


def describe_pods(entry: WorkloadAudit) -> str:
    """Return the pods of an entry: how many there are, and how many are wanted."""
    ended = f", {entry.finished:,} finished" if entry.finished else ""
    if entry.wanted is None or entry.wanted == entry.pods:
        return f"{count_noun(entry.pods, 'pod')}{ended}"
    return f"{entry.pods:,} of {entry.wanted:,} pods{ended}"


# --- node groups ---------------------------------------------------------------------------------

_GROUP_HEADER = ("NODES", "NUMBER", "DEVICES BY", "NOW (HELD OF OFFERED)", "AFTER")


def _group_row(group: NodeGroup) -> tuple[str, ...]:
    served = " and ".join(dict.fromkeys(group.plugins)) or group.state.value
    driver = f" -> {group.driver}" if group.driver and group.state.value != "driver" else ""
    apart = [f"{group.cordoned:,} cordoned"] if group.cordoned else []
    apart += [f"{group.not_ready:,} not ready"] if group.not_ready else []
    number = f"{len(group.nodes):,}" + (f" ({', '.join(apart)})" if apart else "")
    return (
        group.name,
        number,
        f"{served if group.state.value != 'driver' else group.driver}{driver}",
        describe_capacities(group.before),
        describe_capacities(group.after, asked=True),
    )


def describe_capacities(capacities: Iterable[GroupCapacity], *, asked: bool = False) -> str:
    """Return how much of what a group offers is held, or `asked` for by the pods that run there."""
    more = "asked of" if asked else "of"
    return ", ".join(
        f"{each.name} {each.held:g} {more if each.held > each.offered else 'of'} {each.offered:g}"
        for each in capacities
    )


# --- whether everything fits ---------------------------------------------------------------------


def write_fit(fit: FitSummary) -> Iterator[str]:
    """Yield whether all running pods fit after the migration, and the first that do not."""
    pods = count_noun(fit.pods, "running pod")
    without = f" ({fit.without_devices:,} without devices)" if fit.without_devices else ""
    yield (
        f"After the migration, {fit.in_place:,} of {pods}{without} fit on the node where they run,"
        f" and {fit.packed:,} on all nodes, packed anew."
    )
    for each in fit.not_packed[:_SHOWN]:
        yield f"  no room for {each.pod}, now on {each.node}: {each.why}"
    moved = {each.pod for each in fit.not_packed}
    for each in [e for e in fit.not_in_place if e.pod not in moved][:_SHOWN]:
        yield f"  {each.pod} must leave {each.node}: {each.why}"


# --- steps ---------------------------------------------------------------------------------------


def _write_step(number: int, step: MigrationStep, *, rehearse: bool) -> Iterator[str]:
    yield f"Step {number}: {step.title}"
    yield f"  {step.why}"
    yield from (f"  {note}" for note in step.notes)
    yield from (f"    {command}" for command in step.commands)
    if step.checks and step.checks[-1] in step.commands:
        yield "  Go on when the commands have ended: those with `until` wait."
    if step.undo:
        yield "  Undo:"
        yield from (f"    {command}" for command in step.undo)
    if rehearse and step.story:
        yield "  Rehearsed:"
        yield from (f"    {line}" for line in step.story)
    if step.expected is not None:
        yield f"  Then: {describe_expected(step.expected)}."


def describe_expected(expected: Expected) -> str:
    """Return what a step leaves, in words."""
    parts = [
        f"{count_noun(expected.on_drivers, 'pod')} with devices of drivers",
        f"{expected.on_plugins:,} with those of plugins",
    ]
    if expected.either:
        parts.append(f"{expected.either:,} with either, as the scheduler chooses")
    if expected.waiting:
        parts.append(f"{expected.waiting:,} waiting")
    nodes = (
        f"{count_noun(expected.driver_nodes, 'node')} with drivers,"
        f" {expected.plugin_nodes:,} with plugins"
    )
    return f"{', '.join(parts)}; {nodes}"
