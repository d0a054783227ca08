"""Writes an audit as one HTML page: without scripts and external files, to read and to print."""

from collections.abc import Iterator, Sequence
from typing import Final

from drawbridge.audit.model import (
    FATE_WORDS,
    Audit,
    Fate,
    FitSummary,
    MigrationStep,
    NamespaceAudit,
    NodeGroup,
    Summary,
    WorkloadAudit,
)
from drawbridge.audit.written_as_text import (
    describe_capacities,
    describe_change,
    describe_expected,
    describe_pods,
    summarize,
    write_fit,
)
from drawbridge.dra.counted import count_noun
from drawbridge.report.markup import bar, document, key, listed, preformatted, table, text

# In the order of the bar.
_MEANINGS: Final = {
    Fate.TRANSLATED: "They have claims already.",
    Fate.TO_TRANSLATE: "Claims replace the requests when the pods are created again.",
    Fate.BY_CLASS: "The manifests stay as they are; a DeviceClass serves the name.",
    Fate.OWN_CLAIMS: "They were written with claims.",
    Fate.STAYS: "They need their device plugin; the reason is listed with each.",
    Fate.REFUSED: "No node can serve them, now or after the migration, or an annotation is wrong.",
}


def write_html(audit: Audit, above: str = "") -> Iterator[str]:
    """Yield the parts of the page; `above` is markup before its heading."""
    yield from document("Audit of device requests", _write_body(audit, above))


def _write_body(audit: Audit, above: str) -> Iterator[str]:
    yield f"<header>\n{above}<h1>What would happen to this cluster</h1>\n"
    yield f"<p>Kubernetes {text(audit.version)}, {count_noun(audit.summary.nodes, 'node')}. "
    yield f"{text(summarize(audit))}.</p>\n</header>\n<main>\n"
    yield from _write_summary(audit.summary)
    if audit.stuck:
        rows = [tuple(map(text, (each.object, each.text, each.remedy))) for each in audit.stuck]
        yield '<section aria-labelledby="stuck">\n<h2 id="stuck">What is stuck</h2>\n'
        header = ("Object", "Since when, and who holds it", "What to do")
        yield f"{table('Objects that do not go on', header, rows)}</section>\n"
    if audit.fit is not None:
        yield from _write_fit(audit.fit)
    if audit.node_groups:
        yield from _write_groups(audit.node_groups)
    if audit.steps:
        yield '<section aria-labelledby="steps">\n<h2 id="steps">Steps</h2>\n<ol>\n'
        for step in audit.steps:
            yield from _write_step(step)
        yield "</ol>\n</section>\n"
    yield from _write_namespaces(audit.namespaces)
    if audit.notes:
        yield '<section aria-labelledby="notes">\n<h2 id="notes">What to know</h2>\n'
        yield f"{listed(audit.notes)}</section>\n"
    yield "</main>\n"


# --- the answer ----------------------------------------------------------------------------------


def _write_summary(summary: Summary) -> Iterator[str]:
    counts = [(fate, summary.fates.get(fate, 0)) for fate in _MEANINGS if summary.fates.get(fate)]
    yield '<section aria-labelledby="answer">\n<h2 id="answer">Who can go</h2>\n'
    if counts:
        yield f"{bar([(fate.value, number) for fate, number in counts])}\n"
    rows = [
        (
            key(fate.value) + text(FATE_WORDS[fate]),
            f"{number:,}",
            text(_MEANINGS[fate]),
        )
        for fate, number in counts
    ]
    yield table("Workloads by what becomes of them", ("Outcome", "Workloads", "Meaning"), rows)
    if summary.units:
        plain = [(text(name), f"{number:,}") for name, number in summary.units.items()]
        yield "<h3>Held from device plugins now</h3>\n"
        yield table("Units by resource name", ("Resource name", "Units"), plain)
    yield "</section>\n"


def _write_fit(fit: FitSummary) -> Iterator[str]:
    first, *others = write_fit(fit)
    yield '<section aria-labelledby="fit">\n<h2 id="fit">Does everything still fit?</h2>\n'
    yield f"<p>{text(first)}</p>\n{listed([line.strip() for line in others])}</section>\n"


# --- node groups and steps -----------------------------------------------------------------------


def _write_groups(groups: Sequence[NodeGroup]) -> Iterator[str]:
    rows = [
        (
            text(group.name),
            f"{len(group.nodes):,}",
            text(" and ".join(group.plugins) or group.driver or group.state.value),
            text(describe_capacities(group.before)),
            text(group.driver),
            text(describe_capacities(group.after, asked=True)),
        )
        for group in groups
    ]
    header = ("Nodes", "Number", "Served by", "Held of offered, now", "Driver", "After")
    yield '<section aria-labelledby="groups">\n<h2 id="groups">Node groups</h2>\n'
    yield table("Demand and capacity, before and after", header, rows)
    yield listed([f"{group.name}: {note}" for group in groups for note in group.notes])
    yield "</section>\n"


def _write_step(step: MigrationStep) -> Iterator[str]:
    yield f"<li><h3>{text(step.title)}</h3>\n<p>{text(step.why)}</p>\n"
    if step.commands:
        typed = preformatted(step.commands)
        label = text(f"Commands: {step.title}")
        yield f'<pre tabindex="0" role="region" aria-label="{label}">{typed}</pre>\n'
    yield listed(step.notes)
    if step.undo:
        label = text(f"Undo: {step.title}")
        typed = preformatted(step.undo)
        yield "<details><summary>Undo</summary>\n"
        yield f'<pre tabindex="0" role="region" aria-label="{label}">{typed}</pre></details>\n'
    if step.story:
        yield f"<details><summary>Rehearsed</summary>\n{listed(step.story)}</details>\n"
    if step.expected is not None:
        yield f'<p class="expected">Then: {text(describe_expected(step.expected))}.</p>\n'
    yield "</li>\n"


# --- namespaces ----------------------------------------------------------------------------------


def _write_namespaces(namespaces: Sequence[NamespaceAudit]) -> Iterator[str]:
    yield '<section aria-labelledby="namespaces">\n<h2 id="namespaces">Namespaces</h2>\n'
    if not namespaces:
        yield "<p>No pod or workload asks for devices.</p>\n"
    for namespace in namespaces:
        yield f"<h3>{text(namespace.namespace)} (mode {namespace.mode})</h3>\n"
        if namespace.workloads:
            yield table(
                f"Workloads of {namespace.namespace}",
                ("Workload", "Outcome", "Pods", "Served now by", "Asks, and becomes"),
                [_workload_row(each) for each in namespace.workloads],
                [each.fate.value for each in namespace.workloads],
            )
        more = [f"{count_noun(namespace.workloads_not_shown, 'more workload')} not shown."]
        refused = (f"Refused now: {k}: {text}" for k, text in namespace.refusals.items())
        quotas = (f"Quota {text}" for text in namespace.quotas)
        yield listed([*(more if namespace.workloads_not_shown else ()), *refused, *quotas])
    yield "</section>\n"


def _workload_row(entry: WorkloadAudit) -> tuple[str, ...]:
    return (
        text(entry.owner),
        text(FATE_WORDS[entry.fate]),
        text(describe_pods(entry)),
        text(entry.served_by),
        text(describe_change(entry)),
    )
