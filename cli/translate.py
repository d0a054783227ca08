"""`drawbridge translate`: reads manifests, and prints them with resource claims.

Edits the text of the manifests, so that comments and layout stay. Prints an unreadable document
unchanged.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from cli import output
from cli.cluster_objects import ClusterObjects
from cli.cluster_options import (
    add_config_option,
    add_facts_option,
    add_files_option,
    add_live_options,
    add_manifests_option,
    add_version_options,
)
from cli.effective_configuration import read_effective_configuration
from cli.exit_codes import BAD, DONE, NOTICE, exit_code
from cli.facts_file import read_facts, read_gates
from cli.input_files import read_sources
from cli.live_cluster import ClusterReadError
from cli.manifest_text import describe_changes, join_documents, print_each, write_bytes
from cli.namespace_labels import find_admin_access, read_admin_access
from cli.streams import Streams
from config.model import Configuration
from config.policy import apply_policies
from documents.document import Document, LayoutCache, LocatedFinding, Source
from documents.patch import Edit, apply_edits
from documents.paths import get_value
from documents.read import read_objects as objects_in
from documents.splice import apply_to_text, rewrite_file
from documents.values import Value
from dra import gates
from dra.counted import count_noun
from facts.model import Facts, NetworkFacts
from facts.networks import KIND as NETWORK_KIND
from facts.networks import read_network
from translate.changes.template import ClaimTemplate, has_same_content
from translate.legacy.networks import add_networks
from translate.manifests.codes import TEMPLATE_DIFFERS
from translate.manifests.objects import (
    TranslatedObject,
    report_unreadable,
    translate_object,
)
from translate.pods import TranslationContext, make_context

NAME = "translate"
HELP = "translate device-plugin requests in manifests into resource claims"

EXIT_CODES = {
    DONE: "translated, or nothing to translate",
    NOTICE: "with --exit-code: something changes; with --strict: warnings",
    BAD: "errors, or bad input",
}
_TEMPLATE: Final = "ResourceClaimTemplate"


@dataclass(frozen=True)
class _File:
    """An input file, and its text after the edits."""

    source: Source
    text: bytes


@dataclass
class _Result:
    """The result for all files.

    `objects` has one value for each input document; a List is one. `changed` counts documents, and
    `translated` counts `read` objects, which include the items of Lists.
    """

    files: list[_File] = field(default_factory=list)
    objects: list[Value] = field(default_factory=list)
    templates: dict[tuple[object, object], Mapping[str, Value]] = field(default_factory=dict)
    input_templates: dict[tuple[object, object], Document] = field(default_factory=dict)
    findings: list[LocatedFinding] = field(default_factory=list)
    made: list[Document] = field(default_factory=list)
    cluster: tuple[ClusterObjects, gates.Gates] | None = None
    admin_access: dict[str, bool] = field(default_factory=dict)  # of the cluster's namespaces
    changed: int = 0
    translated: int = 0
    read: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests, the cluster and the output format."""
    add_manifests_option(parser)
    add_files_option(parser)
    add_live_options(parser)
    add_facts_option(parser)
    add_config_option(parser)
    add_version_options(parser)
    add_edit_options(parser)


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a command that edits manifests."""
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with code 1 if something changes"
    )
    output.add_strict_option(parser)
    output.add_detail_options(parser)
    output.add_format_option(parser, "yaml", "json", "diff", "report")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the translation."""
    result = _Result()
    sources = list(read_sources(options.filename, streams.stdin))
    context = _read_context(options, streams, result, _find_networks(sources))
    if context is not None:
        # The manifests may change the labels of the cluster.
        labelled = {**result.admin_access, **find_admin_access(sources)}
        context = replace(context, admin_access=labelled)
    for source in sources:
        if isinstance(source, LocatedFinding):
            result.findings.append(source)
        else:
            _translate_file(source, context, result)
    _judge_translations(context, result)
    _drop_input_templates(result)
    _print(options, result, streams)
    changed = options.exit_code and bool(result.changed)
    return exit_code(result.findings, strict=options.strict, changed=changed)


def _judge_translations(context: TranslationContext | None, result: _Result) -> None:
    """Add the verdicts of the judge about the claims of this translation, with a cluster."""
    if context is None or result.cluster is None or not result.made:
        return
    from cli.pod_verdicts import judge_translations  # noqa: PLC0415  # loads the CEL engine

    result.findings += judge_translations(result.made, context, *result.cluster)


def _read_context(
    options: argparse.Namespace,
    streams: Streams,
    result: _Result,
    networks: Sequence[NetworkFacts],
) -> TranslationContext | None:
    """Read the configuration and the facts; None after an error, and then nothing is translated."""
    configuration, findings = read_effective_configuration(
        options, streams, asks_cluster=_asks_cluster(options)
    )
    result.findings += findings
    if configuration is None:
        return None
    facts = _read_facts(options, streams, configuration, result)
    if isinstance(facts, tuple):
        result.findings += facts
        return None
    return make_context(add_networks(configuration, networks), facts)


def _asks_cluster(options: argparse.Namespace) -> bool:
    return options.context is not None or bool(options.kubeconfig and not options.cluster)


def _read_facts(
    options: argparse.Namespace, streams: Streams, configuration: Configuration, result: _Result
) -> Facts | tuple[LocatedFinding, ...] | None:
    """Return the facts if the options name a source of them, or findings about errors."""
    facts: Facts | None = None
    if options.cluster or _asks_cluster(options):
        gathered = _gather_facts(options, streams, configuration, result)
        if not isinstance(gathered, Facts):
            return gathered
        facts = gathered
    if options.facts:
        from_file = read_facts(options.facts, streams, facts)
        return _with_version(from_file, options) if isinstance(from_file, Facts) else from_file
    if facts is None and isinstance(enabled := read_gates(options, gates.NEWEST), tuple):
        return enabled
    return facts


def _with_version(facts: Facts, options: argparse.Namespace) -> Facts | tuple[LocatedFinding, ...]:
    """Return the facts of a file, with the version and the gates of the options if there are."""
    if not (options.kubernetes_version or options.feature_gates):
        return facts
    # This import loads the CEL engine, which takes longer than a translation.
    from facts.gather import describe_cluster  # noqa: PLC0415

    enabled = read_gates(options, facts.cluster.version)
    if not isinstance(enabled, gates.Gates):
        return enabled
    return replace(facts, cluster=describe_cluster(enabled))


def _find_networks(sources: Iterable[Source | LocatedFinding]) -> tuple[NetworkFacts, ...]:
    """Return the networks that the manifests define, which their pods may refer to."""
    documents = (
        document
        for source in sources
        if isinstance(source, Source) and NETWORK_KIND.encode() in source.data
        for document in objects_in(source)
    )
    return tuple(filter(None, (read_network(each.value) for each in documents)))


def _gather_facts(
    options: argparse.Namespace, streams: Streams, configuration: Configuration, result: _Result
) -> Facts | tuple[LocatedFinding, ...]:
    """Return the facts about the live cluster, or findings about why it cannot be read."""
    # These imports load the CEL engine, which takes longer than a translation.
    from cli.facts import facts_input, read_objects  # noqa: PLC0415
    from facts.gather import gather_facts  # noqa: PLC0415

    try:
        files, version = read_objects(options, streams, namespaces=True)
    except ClusterReadError as error:
        return (error.located,)
    enabled = read_gates(options, version)
    if not isinstance(enabled, gates.Gates):
        return enabled
    result.admin_access = read_admin_access(each.value for each in files.others)
    result.cluster = files, enabled
    gathered = gather_facts(facts_input(files), configuration, enabled)
    with_policies = apply_policies(gathered.findings, configuration.findings)
    result.findings += (*files.findings, *files.located(with_policies))
    return gathered.facts


def _translate_file(source: Source, context: TranslationContext | None, result: _Result) -> None:
    """Translate the objects of a file; an object with an error stays unchanged."""
    layouts = LayoutCache()
    translated: list[tuple[Document, TranslatedObject]] = []
    for document in objects_in(source):
        result.findings += document.findings
        if document.empty:
            continue
        one = _translate_document(document, context)
        result.findings += (document.locate_finding(each, layouts) for each in one.findings)
        translated.append((document, one))
        if get_value(document.value, ("kind",)) == _TEMPLATE and isinstance(document.value, dict):
            result.input_templates[_template_key(document.value)] = document
    edited = [(document, one.edits) for document, one in translated if one.edits]
    data, errors = rewrite_file(source, edited) if edited else (source.data, ())
    result.findings += errors
    unwritable = _unwritable(edited) if errors else frozenset()
    values: list[tuple[Document, Value, bool]] = []
    for document, one in translated:
        changes = bool(one.edits) and id(document) not in unwritable
        value = apply_edits(document.value, one.edits) if changes else _value(document)
        values.append((document, value, changes))
        if changes:
            result.templates |= {_template_key(each): each for each in one.templates}
            result.made += [document] if one.templates else []
    _add_documents(values, result)
    result.files.append(_File(source, data))


def _translate_document(document: Document, context: TranslationContext | None) -> TranslatedObject:
    """Translate an object; report the device requests of a document that is no object."""
    if document.findings:
        requests = report_unreadable(document.refused, document.name)
        return TranslatedObject(findings=tuple(requests))
    if context is None:
        return TranslatedObject()
    return translate_object(document.value, document.name, context)


def _value(document: Document) -> Value:
    return document.refused if document.findings else document.value


def _add_documents(values: Sequence[tuple[Document, Value, bool]], result: _Result) -> None:
    """Add the objects of a file, with the items of each List in one value."""
    # Only mappings can be objects; the text of all other documents is in the file.
    kept = [each for each in values if isinstance(each[1], dict)]
    result.read += sum(not document.findings for document, _, _ in kept)
    result.translated += sum(changes for _, _, changes in kept)
    for _, group in groupby(kept, key=lambda each: id(each[0].envelope or each[0])):
        parts = list(group)
        envelope = parts[0][0].envelope
        items = [value for _, value, _ in parts]
        result.objects.append({**envelope.fields, "items": items} if envelope else items[0])
        result.changed += any(changes for _, _, changes in parts)


def _unwritable(edited: Sequence[tuple[Document, Sequence[Edit]]]) -> frozenset[int]:
    """Return the documents whose text cannot be edited."""
    return frozenset(
        id(each) for each, edits in edited if not isinstance(apply_to_text(each, edits), bytes)
    )


def _drop_input_templates(result: _Result) -> None:
    """Drop new templates that the input has already; report those with different content."""
    for key, document in result.input_templates.items():
        new = result.templates.pop(key, None)
        existing = document.value
        if new is None or not isinstance(existing, dict):
            continue
        if not has_same_content(existing, ClaimTemplate(f"{key[1]}", dict(new))):
            message = f"{key[1]} exists in the input with different content"
            finding = TEMPLATE_DIFFERS.at("spec", message, object=document.name)
            result.findings.append(document.locate_finding(finding))


def _template_key(template: Mapping[str, Value]) -> tuple[object, object]:
    plain = dict(template)
    return get_value(plain, ("metadata", "namespace")), get_value(plain, ("metadata", "name"))


def _print(options: argparse.Namespace, result: _Result, streams: Streams) -> None:
    form = options.output
    shown = output.select_findings(result.findings, quiet=options.quiet, verbose=options.verbose)
    templates = list(result.templates.values())
    if form == "json":
        plain = {
            "objects": result.objects,
            "templates": templates,
            **output.findings_as_data(result.findings),
            "changed": result.changed,
        }
        output.print_value(plain, "json", streams.out)
    elif form == "report":
        output.print_findings(shown, streams.out, color=streams.color)
        streams.out.write(_summary(result))
    else:
        if form == "yaml":
            texts = [*(each.text for each in result.files), *print_each(templates)]
            write_bytes(streams.out, join_documents(texts))
        else:
            streams.out.writelines(_diff(result, templates))
        output.print_findings(shown, streams.err)


def _summary(result: _Result) -> str:
    return (
        f"{result.translated} of {count_noun(result.read, 'object')} translated, "
        f"{count_noun(len(result.templates), 'claim template')} added\n"
    )


def _diff(result: _Result, templates: Sequence[Mapping[str, Value]]) -> Iterator[str]:
    for each in result.files:
        name = each.source.name.lstrip("/")
        yield from describe_changes(each.source.data, each.text, f"a/{name}", f"b/{name}")
    for template, text in zip(templates, print_each(templates), strict=True):
        yield from describe_changes(b"", text, "/dev/null", f"b/{_template_key(template)[1]}.yaml")
