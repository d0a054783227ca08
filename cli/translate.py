"""`drawbridge translate`: reads manifests, and prints them with resource claims.

Edits the text of the manifests, so that comments and layout stay. Prints an unreadable document
unchanged.
"""

import argparse
import re
from collections.abc import Iterator

from msgspec.structs import replace

from cli.checking.wrong_pods import find_wrong_fields
from cli.input import codes
from cli.input.facts_file import choose_gates
from cli.input.files import INPUT_NAME, read_sources
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, VERSION, add_manifests_option, add_shared_options
from cli.terminal.exit_codes import BAD, DONE, NOTICE, exit_code
from cli.terminal.output import with_progress
from cli.terminal.streams import Streams
from cli.translation import edit_output
from cli.translation.edited_manifests import EditResult
from cli.translation.input import TranslationInput, read_translation_input
from cli.translation.live_workloads import drop_managers_of_unchanged, read_live_workloads
from cli.translation.unchecked_kinds import report_unchecked_kinds
from drawbridge.config.model import Legacy
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.splice import FormerLines
from drawbridge.documents.values import Value
from drawbridge.dra.gates import NEWEST, Gates
from drawbridge.translate.changes.patch import Original
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.legacy.pod_view import view_pod
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.manifests.objects import (
    TranslatedObject,
    report_unreadable,
    translate_object,
)
from drawbridge.translate.manifests.workloads import find_places

# The comment that `helm template` writes above each object.
_SOURCE = re.compile(rb"(?m)^# Source: ([\w.-]+)/")

EXIT_CODES = {
    DONE: "translated, or nothing to translate",
    NOTICE: "with --exit-code: something changes; with --strict: warnings",
    BAD: "errors, or bad input",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests, the cluster and the output."""
    add_manifests_option(parser, required=False)
    add_shared_options(parser, "--namespace", "--cluster", *LIVE, "--facts", "--config", *VERSION)
    edit_output.add_edit_options(parser)
    original = parser.add_mutually_exclusive_group()
    original.add_argument(
        "--no-original",
        action="store_true",
        help="leave out the annotations of Drawbridge; undo then needs the original manifests",
    )
    original.add_argument(
        "--short-original",
        action="store_true",
        help="write the annotation that undo reads in about half of the space",
    )
    parser.add_argument(
        "--readable-names",
        action="store_true",
        help="name templates after their workload, such as train-gpu-41bcef07, for files that you"
        " commit; the controller then neither creates nor deletes them",
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the translation."""
    sources = [*_read_sources(options, streams)]
    if not sources:
        text = "pass manifests with -f, or a cluster with --context and no -f"
        streams.err.write(f"drawbridge translate: error: {text}\n")
        return BAD
    inputs = read_translation_input(options, streams, sources)
    context = inputs.context
    if context is None:
        # Manifests that are printed without their translation reach `kubectl apply`.
        return output.print_unreadable(inputs.findings, options, streams)
    short = Original.SHORT if options.short_original else Original.FULL
    original = Original.NONE if options.no_original else short
    context = replace(
        context,
        original=original,
        readable_names=options.readable_names,
        namespace=options.namespace or inputs.namespace,
    )
    former = FormerLines.DROP if options.no_original else FormerLines.NOTE
    result = EditResult(findings=inputs.findings)

    def edit(document: Document) -> TranslatedObject:
        return _translate_document(document, context)

    for source in with_progress(sources, options, streams):
        if isinstance(source, LocatedFinding):
            result.findings.append(source)
        else:
            result.edit_file(source, edit, former)
    drop_managers_of_unchanged(result)
    result.findings += report_unchecked_kinds(result, context, inputs.unread)
    _judge_translations(inputs, context, result)
    _check_version(options, context, result)
    result.drop_input_templates()
    edit_output.write_output_folder(result, options, streams)
    verbose = options.verbose
    edit_output.print_result(
        result, options, streams, lambda: _describe(result, inputs, context, verbose=verbose)
    )
    changed = options.exit_code and bool(result.changed)
    return exit_code(result.findings, strict=options.strict, changed=changed)


def _read_sources(
    options: argparse.Namespace, streams: Streams
) -> Iterator[Source | LocatedFinding]:
    """Yield the manifests, or without any the workloads of the live cluster that ask for devices.

    Without bare pods, which cannot be changed.
    """
    yield from read_sources(options.filename, streams.stdin)
    if not options.filename and options.context is not None:
        yield from read_live_workloads(options, _asks_devices)


def _asks_devices(value: dict[str, Value]) -> bool:
    pods = [place.pod for place in find_places(value) if not place.is_pod]
    # The configuration is not read yet: it can give any resource the meaning of another one.
    return any(read_pod(pod).source_fields or _has_device_resources(pod) for pod in pods)


def _has_device_resources(pod: Value) -> bool:
    return any(each.resources for each in view_pod(pod, Legacy()).containers)


def _translate_document(document: Document, context: TranslationContext) -> TranslatedObject:
    """Translate an object; report the device requests of other documents."""
    if document.findings:
        requests = report_unreadable(document.refused, document.name)
        return TranslatedObject(findings=tuple(requests))
    result = translate_object(document.value, document.name, context)
    if wrong := tuple(find_wrong_fields(document)):
        # What is told of the same field by a warning is an error here.
        told = {each.path for each in wrong}
        others = (each for each in result.findings if each.path not in told)
        return TranslatedObject(findings=(*wrong, *others))
    rendered = _SOURCE.search(document.raw)
    if rendered is None or not result.edits or document.source.name == INPUT_NAME:
        return result
    chart = rendered[1].decode()
    message = f"the file is rendered from the Helm chart {chart}, which overwrites the translation"
    finding = codes.RENDERED_BY_HELM.at("", message, object=document.name)
    return replace(result, findings=(*result.findings, finding))


def _judge_translations(
    inputs: TranslationInput, context: TranslationContext, result: EditResult
) -> None:
    """Add the verdicts of the judge about the claims of this translation, with a cluster."""
    translated = [
        edited.document for edited in result.objects if edited.changed and edited.result.templates
    ]
    if inputs.cluster is None or not translated:
        return
    from cli.checking.pod_verdicts import judge_translations  # noqa: PLC0415  # loads the CEL engine

    result.findings += judge_translations(translated, context, *inputs.cluster)


def _check_version(
    options: argparse.Namespace, context: TranslationContext, result: EditResult
) -> None:
    """Add what the version or the gates of the options drop, if nothing else is known."""
    if context.facts is not None or not (options.kubernetes_version or options.feature_gates):
        return
    from cli.translation.dropped_fields import report_dropped_fields  # noqa: PLC0415  # loads CEL

    enabled = choose_gates(options, NEWEST)
    if isinstance(enabled, Gates):
        result.findings += report_dropped_fields(result, enabled)


def _describe(
    result: EditResult, inputs: TranslationInput, context: TranslationContext, *, verbose: bool
) -> tuple[list[str], list[str]]:
    """Return the outcomes of the workloads, with their placement if the cluster is known."""
    from cli.translation.outcomes import Outcomes  # noqa: PLC0415  # only a report needs it

    preview = None
    if inputs.cluster is not None:
        from cli.translation.placement_preview import make_preview  # noqa: PLC0415  # loads the CEL engine

        preview = make_preview(*inputs.cluster, context.configuration, context.facts)
    return Outcomes(context, preview).describe(result, verbose=verbose)
