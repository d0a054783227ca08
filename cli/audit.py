"""`drawbridge audit`: what was translated, left and refused, by namespace and owner.

Decides again about the pods that exist, and reads the events of owners whose pods are refused. So
it needs no record of its own: restarts, dry runs and the number of replicas do not change it.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from cli.input.audited_namespaces import FAILED_CREATE, AuditedNamespace, read_namespaces
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.cluster_options import (
    add_config_option,
    add_facts_option,
    add_files_option,
    add_live_options,
    add_version_options,
)
from cli.terminal.durations import parse_duration, parse_time
from cli.terminal.exit_codes import BAD, DONE, exit_code
from cli.terminal.streams import Streams
from cli.translation.input import read_translation_input
from drawbridge.agreement.scope import Mode, PodMetadata, find_root_owner, is_included
from drawbridge.config.placement import decide_placement
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Severity
from drawbridge.names import (
    ADMIN_ACCESS_LABEL,
    GUARD_WEBHOOK,
    ORIGINAL_ANNOTATION,
    POD_WEBHOOK,
)
from drawbridge.report.codes import NOT_TRANSLATED
from drawbridge.report.explain import time_of_event
from drawbridge.report.tables import align_columns, escape_unprintable
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.legacy.pod_view import as_mapping
from drawbridge.translate.pods import TranslationContext
from drawbridge.translate.work_budget import WorkBudget
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.pods import decide
from webhook.admission.replies import AuditRecord, PodVerdict, compose_audit, decide_verdict

NAME = "audit"
EXIT_CODES = {DONE: "printed", BAD: "the cluster or the configuration cannot be read, or bad input"}
# Owners of one namespace in the output; the counts have all.
_MAX_OWNERS: Final = 20
_NOTE: Final = (
    "Note: this counts pods that exist, and owners whose pods are refused. Pods that are gone, or"
    " were refused without an owner, are in the log and the metrics of the webhook only."
)
_REFUSED: Final = re.compile(
    rf'admission webhook "(?:{re.escape(POD_WEBHOOK)}|{re.escape(GUARD_WEBHOOK)})" denied the'
    r" request: (.*)",
    re.DOTALL,
)
_CODE: Final = re.compile(r"(?:^|; )([A-Z][A-Za-z]+): ")


class OwnerAudit(msgspec.Struct, frozen=True):
    """What became of the pods of one owner: their number, one of them, and the newest time."""

    owner: str
    verdict: PodVerdict
    pods: int
    changes: tuple[str, ...]
    codes: tuple[str, ...]
    last: str


class NamespaceAudit(msgspec.Struct, frozen=True):
    """The counts of a namespace, and its first owners.

    `refused` counts pods in report mode, which exist, and owners whose pods do not.
    """

    namespace: str
    mode: Mode
    translated: int
    left: int
    refused: int
    owners: tuple[OwnerAudit, ...]
    owners_not_shown: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the period and the output."""
    parser.add_argument(
        "only",
        metavar="NAMESPACE",
        nargs="?",
        help="only this namespace (default: all in mode enforce or report)",
    )
    parser.add_argument(
        "--since",
        metavar="DURATION",
        type=parse_duration,
        help="only pods that were created, and refusals, in so long, for example 1h (default: all"
        " that exist)",
    )
    add_files_option(parser)
    add_live_options(parser)
    add_facts_option(parser)
    add_config_option(parser)
    add_version_options(parser)
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the counts of each namespace, and its owners."""
    if not options.cluster and options.context is None:
        options.context = ""
    inputs = read_translation_input(options, streams, ())
    context = inputs.context
    audits: list[NamespaceAudit] = []
    findings = [each for each in inputs.findings if context is None]
    start = None
    if options.since is not None:
        start = datetime.now(UTC) - timedelta(seconds=options.since)
    if context is not None:
        summaries = ClaimSummaries()

        def consume(namespace: AuditedNamespace) -> None:
            placement = decide_placement(namespace.labels, context.configuration)
            audits.append(_audit(namespace, context.placed(placement), summaries, start))

        try:
            read_namespaces(options, streams, context.configuration.scope, findings, consume)
        except ClusterReadError as error:
            findings.append(error.located)
    if exit_code(findings) == BAD:
        return output.print_unreadable(findings, options.output, streams)
    output.print_findings(findings, streams.err)
    if options.output == "text":
        lines = _format(audits, options.only or "")
        streams.out.writelines(f"{escape_unprintable(line)}\n" for line in lines)
    else:
        data = {"namespaces": msgspec.to_builtins(audits)}
        output.print_value(data, options.output, streams.out)
    return DONE


# --- one namespace -------------------------------------------------------------------------------


def _audit(
    namespace: AuditedNamespace,
    context: TranslationContext,
    summaries: ClaimSummaries,
    start: datetime | None,
) -> NamespaceAudit:
    counts, owners = Counter[PodVerdict](), dict[tuple[str, PodVerdict], OwnerAudit]()
    decided = _audit_pods(namespace, context, summaries, start)
    for entry in (*decided, *_find_refusals(namespace, start)):
        # Of an owner whose pods do not exist, the attempts are not counted as pods.
        counts[entry.verdict] += 1
        key = entry.owner, entry.verdict
        before = owners.get(key)
        owners[key] = entry if before is None else _add(before, entry)
    shown = sorted(owners.values(), key=lambda each: (each.verdict, -each.pods, each.owner))
    return NamespaceAudit(
        namespace.name,
        namespace.mode,
        counts[PodVerdict.TRANSLATED],
        counts[PodVerdict.LEFT],
        counts[PodVerdict.REFUSED],
        tuple(shown[:_MAX_OWNERS]),
        max(0, len(shown) - _MAX_OWNERS),
    )


def _add(first: OwnerAudit, second: OwnerAudit) -> OwnerAudit:
    codes = tuple(dict.fromkeys((*first.codes, *second.codes)))
    newest = max(first.last, second.last)
    return msgspec.structs.replace(first, pods=first.pods + second.pods, codes=codes, last=newest)


def _audit_pods(
    namespace: AuditedNamespace,
    context: TranslationContext,
    summaries: ClaimSummaries,
    start: datetime | None,
) -> Iterator[OwnerAudit]:
    for pod in namespace.pods:
        created = get_value(pod, ("metadata", "creationTimestamp"))
        if not _is_recent(created, start):
            continue
        decided = _decide(pod, namespace, context, summaries)
        if decided is not None:
            record, codes = decided
            yield OwnerAudit(
                record.owner, record.verdict, 1, record.changes, codes, f"{created or ''}"
            )


def _decide(
    pod: Value,
    namespace: AuditedNamespace,
    context: TranslationContext,
    summaries: ClaimSummaries,
) -> tuple[AuditRecord, tuple[str, ...]] | None:
    """Decide about a pod as admission would now, from what it asked for when it was created."""
    marked = get_value(pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)) is not None
    original = restore_original(pod, WorkBudget(pod)) if marked else None
    metadata = _read_metadata(pod)
    if not marked and not is_included(namespace.name, metadata, context.configuration.scope):
        return None
    asked = as_mapping(pod if original is None else original)
    spec = {k: v for k, v in as_mapping(asked.get("spec")).items() if k != "nodeName"}
    created: Value = {"metadata": asked.get("metadata"), "spec": spec}
    access = namespace.labels.get(ADMIN_ACCESS_LABEL) == "true"
    decision = decide(created, namespace.name, context, summaries, admin_access=access)
    verdict = decide_verdict(decision, denied=decision.is_denied)
    # Of a translated pod, kubectl has shown the warnings only.
    is_brief = marked or verdict is PodVerdict.TRANSLATED
    findings = (e for e in decision.findings if e.severity is not Severity.INFO or not is_brief)
    codes = tuple(dict.fromkeys(each.code for each in findings))
    if marked:
        # What admission would do now may differ from what it did.
        verdict, codes = PodVerdict.TRANSLATED, codes if decision.edits else ()
    elif namespace.mode is Mode.ENFORCE and verdict in (PodVerdict.TRANSLATED, PodVerdict.REFUSED):
        # It was created before the namespace was opted in, or while no webhook was called.
        verdict, codes = PodVerdict.LEFT, (NOT_TRANSLATED.name,)
    owner = find_root_owner(namespace.name, metadata).partition("/")[2]
    record = compose_audit(decision, verdict, namespace.mode, owner)
    return None if record is None else (record, codes)


def _read_metadata(pod: Value) -> PodMetadata:
    try:
        return msgspec.convert(get_value(pod, ("metadata",)), PodMetadata)
    except msgspec.ValidationError:
        return PodMetadata()


def _find_refusals(namespace: AuditedNamespace, start: datetime | None) -> Iterator[OwnerAudit]:
    """Yield the owners whose pods Drawbridge denies, with the number of attempts."""
    for value in namespace.events:
        event = as_mapping(value)
        note = event.get("note") or event.get("message")
        denied = _REFUSED.search(note) if isinstance(note, str) else None
        last = time_of_event(value)
        if event.get("reason") != FAILED_CREATE or denied is None or not _is_recent(last, start):
            continue
        subject = as_mapping(event.get("regarding") or event.get("involvedObject"))
        series = as_mapping(event.get("series"))
        attempts = series.get("count") or event.get("deprecatedCount") or event.get("count")
        yield OwnerAudit(
            f"{subject.get('kind')}/{subject.get('name')}",
            PodVerdict.REFUSED,
            attempts if isinstance(attempts, int) else 1,
            (denied[1],),
            tuple(dict.fromkeys(_CODE.findall(denied[1]))),
            last,
        )


def _is_recent(text: Value, start: datetime | None) -> bool:
    time = parse_time(text)
    return start is None or (time is not None and time >= start)


# --- text output ---------------------------------------------------------------------------------


def _format(audits: Sequence[NamespaceAudit], namespace: str) -> Iterator[str]:
    if not audits:
        named = f"namespace {namespace} does not exist, or is not"
        yield f"{named if namespace else 'no namespace is'} in mode enforce or report"
        return
    rows = [("NAMESPACE", "MODE", *(each.upper() for each in PodVerdict))]
    rows += [
        (each.namespace, each.mode, *(f"{count:,}" for count in _counts(each).values()))
        for each in audits
    ]
    yield from align_columns(rows)
    for audit in audits:
        if audit.owners:
            yield ""
            yield f"{audit.namespace}:"
            yield from (f"  {line}" for line in align_columns([*_owner_rows(audit)]))
        if audit.owners_not_shown:
            yield f"  and {count_noun(audit.owners_not_shown, 'more owner')}"
    yield ""
    yield _NOTE


def _counts(audit: NamespaceAudit) -> Mapping[PodVerdict, int]:
    return {
        PodVerdict.TRANSLATED: audit.translated,
        PodVerdict.LEFT: audit.left,
        PodVerdict.REFUSED: audit.refused,
    }


def _owner_rows(audit: NamespaceAudit) -> Iterator[tuple[str, ...]]:
    for owner in audit.owners:
        is_report = audit.mode is Mode.REPORT and owner.verdict is not PodVerdict.LEFT
        would = "would be " if is_report else ""
        codes = f" [{', '.join(owner.codes)}]" if owner.codes else ""
        yield (
            f"{would}{owner.verdict}",
            owner.owner,
            f"{owner.pods:,}",
            f"{', '.join(owner.changes)}{codes}",
        )
