"""Writes an audit as one HTML page: without scripts and external files, for reading and printing.

Everything is escaped: tenants write names, amounts and reasons.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
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
from drawbridge.audit.workloads import NOBODY
from drawbridge.audit.written_as_text import (
    describe_capacities,
    describe_change,
    describe_expected,
    describe_pods,
    summarize,
    write_fit,
)
from drawbridge.dra.counted import count_noun

_STYLE: Final = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  max-width: 75rem; padding: 1rem 1.5rem 3rem; }
h1 { font-size: 1.7rem; margin: .5rem 0; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; border-bottom: 2px solid #1f4e79; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: #444; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border: 1px solid #c4c4c4;
  overflow-wrap: break-word; }
thead th { background: #e9f0f7; white-space: nowrap; }
tbody th, td { max-width: 28rem; }
td.number { text-align: right; white-space: nowrap; }
tr.refused th, tr.stays th { background: #fdecea; }
.scroll { overflow-x: auto; }
.bar { display: flex; height: 1.4rem; border: 1px solid #555; margin: .8rem 0; }
.bar span { display: block; }
.key { display: inline-block; width: .9rem; height: .9rem; border: 1px solid #555;
  margin-right: .4rem; vertical-align: -.1rem; }
pre { background: #f4f4f4; border: 1px solid #c4c4c4; padding: .6rem; overflow-x: auto;
  font-size: .85rem; }
ol > li { margin-bottom: 1.4rem; }
.expected { font-weight: 600; }
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: .2rem .35rem; }
  tr, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  thead { display: table-header-group; }
  .bar span, .key, thead th, tr th { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
}
@page { margin: 15mm; }
"""
_COLOURS: Final = {
    Fate.TRANSLATED: "#1b7837",
    Fate.TO_TRANSLATE: "#7fbf7b",
    Fate.BY_CLASS: "#d9f0d3",
    Fate.OWN_CLAIMS: "#c7d5e8",
    Fate.STAYS: "#e6a93c",
    Fate.REFUSED: "#b2182b",
}
_MEANINGS: Final = {
    Fate.TRANSLATED: "They have claims already.",
    Fate.TO_TRANSLATE: "Claims replace the requests when the pods are created again.",
    Fate.BY_CLASS: "The manifests stay as they are; a DeviceClass serves the name.",
    Fate.OWN_CLAIMS: "They were written with claims.",
    Fate.STAYS: "They need their device plugin; the reason is listed with each.",
    Fate.REFUSED: "No node can serve them, with or without the migration.",
}


def write_html(audit: Audit) -> Iterator[str]:
    """Yield the parts of the page."""
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>Audit of device requests</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield "<header>\n<h1>What would happen to this cluster</h1>\n"
    yield f"<p>Kubernetes {escape(audit.version)}, {count_noun(audit.summary.nodes, 'node')}. "
    yield f"{escape(summarize(audit))}.</p>\n</header>\n<main>\n"
    yield from _write_summary(audit.summary)
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
        yield f"{_list(audit.notes)}</section>\n"
    yield "</main>\n</body>\n</html>\n"


# --- the answer ----------------------------------------------------------------------------------


def _write_summary(summary: Summary) -> Iterator[str]:
    counts = [(fate, summary.fates.get(fate, 0)) for fate in _COLOURS if summary.fates.get(fate)]
    total = sum(number for _, number in counts)
    yield '<section aria-labelledby="answer">\n<h2 id="answer">Who can go</h2>\n'
    if total:
        yield '<div class="bar" aria-hidden="true">'
        for fate, number in counts:
            width = f"{number / total:.2%}"
            yield f'<span style="width:{width};background:{_COLOURS[fate]}"></span>'
        yield "</div>\n"
    rows = [
        (
            _key(fate) + escape(FATE_WORDS[fate]),
            f"{number:,}",
            escape(_MEANINGS[fate]),
        )
        for fate, number in counts
    ]
    yield _table("Workloads by what becomes of them", ("Outcome", "Workloads", "Meaning"), rows)
    if summary.units:
        plain = [(escape(name), f"{number:,}") for name, number in summary.units.items()]
        yield "<h3>Held from device plugins now</h3>\n"
        yield _table("Units by resource name", ("Resource name", "Units"), plain)
    yield "</section>\n"


def _key(fate: Fate) -> str:
    return f'<span class="key" style="background:{_COLOURS[fate]}" aria-hidden="true"></span>'


def _write_fit(fit: FitSummary) -> Iterator[str]:
    first, *others = write_fit(fit)
    yield '<section aria-labelledby="fit">\n<h2 id="fit">Does everything still fit?</h2>\n'
    yield f"<p>{escape(first)}</p>\n{_list([line.strip() for line in others])}</section>\n"


# --- node groups and steps -----------------------------------------------------------------------


def _write_groups(groups: Sequence[NodeGroup]) -> Iterator[str]:
    rows = [
        (
            escape(group.name),
            f"{len(group.nodes):,}",
            escape(" and ".join(group.plugins) or group.driver or group.state.value),
            escape(describe_capacities(group.before)),
            escape(group.driver),
            escape(describe_capacities(group.after)),
        )
        for group in groups
    ]
    header = ("Nodes", "Number", "Served by", "Held of offered, now", "Driver", "After")
    yield '<section aria-labelledby="groups">\n<h2 id="groups">Node groups</h2>\n'
    yield _table("Demand and capacity, before and after", header, rows)
    yield _list([f"{group.name}: {note}" for group in groups for note in group.notes])
    yield "</section>\n"


def _write_step(step: MigrationStep) -> Iterator[str]:
    yield f"<li><h3>{escape(step.title)}</h3>\n<p>{escape(step.why)}</p>\n"
    if step.commands:
        typed = escape("\n".join(step.commands))
        label = escape(f"Commands: {step.title}", quote=True)
        yield f'<pre tabindex="0" role="region" aria-label="{label}">{typed}</pre>\n'
    yield _list(step.notes)
    if step.expected is not None:
        yield f'<p class="expected">Then: {escape(describe_expected(step.expected))}.</p>\n'
    yield "</li>\n"


# --- namespaces ----------------------------------------------------------------------------------


def _write_namespaces(namespaces: Sequence[NamespaceAudit]) -> Iterator[str]:
    yield '<section aria-labelledby="namespaces">\n<h2 id="namespaces">Namespaces</h2>\n'
    if not namespaces:
        yield "<p>No pod or workload asks for devices.</p>\n"
    for namespace in namespaces:
        yield f"<h3>{escape(namespace.namespace)} (mode {namespace.mode})</h3>\n"
        if namespace.workloads:
            yield _table(
                f"Workloads of {escape(namespace.namespace)}",
                ("Workload", "Outcome", "Pods", "Served now by", "Asks, and becomes"),
                [_workload_row(each) for each in namespace.workloads],
                [each.fate.value for each in namespace.workloads],
            )
        more = [f"{count_noun(namespace.workloads_not_shown, 'more workload')} not shown."]
        refused = (f"Refused now: {k}: {text}" for k, text in namespace.refusals.items())
        quotas = (f"Quota {text}" for text in namespace.quotas)
        yield _list([*(more if namespace.workloads_not_shown else ()), *refused, *quotas])
    yield "</section>\n"


def _workload_row(entry: WorkloadAudit) -> tuple[str, ...]:
    return (
        escape(entry.owner),
        escape(FATE_WORDS[entry.fate]),
        escape(describe_pods(entry)),
        escape("nobody" if entry.served_by == NOBODY else entry.served_by),
        escape(describe_change(entry)),
    )


# --- parts ---------------------------------------------------------------------------------------


def _table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    kinds: Sequence[str] = (),
) -> str:
    """Return a table of escaped cells; the first cell of a row is its header."""
    heads = "".join(f'<th scope="col">{each}</th>' for each in header)
    lines = []
    for number, (first, *cells) in enumerate(rows):
        kind = f' class="{escape(kinds[number])}"' if kinds else ""
        others = "".join(f"<td{_number(each)}>{each}</td>" for each in cells)
        lines.append(f'<tr{kind}><th scope="row">{first}</th>{others}</tr>\n')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
        f"{''.join(lines)}</tbody>\n</table>\n</div>\n"
    )


def _number(cell: str) -> str:
    return ' class="number"' if cell.replace(",", "").isdecimal() else ""


def _list(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return f"<ul>\n{''.join(f'<li>{escape(each)}</li>' for each in texts)}\n</ul>\n"
