"""`drawbridge translate`: manifests in, the same manifests with claims out.

Edits are written back into the text they are about; what cannot be read passes byte for byte.
Exit code 0 when there was nothing to do, 1 when something was translated, 2 with errors or bad
input. Decides nothing itself.
"""

import argparse
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

from cli import config, live_cluster, output
from cli.effective_configuration import settled
from cli.facts_file import given as facts_of
from cli.input_files import sources
from cli.live_cluster import UnreadableError
from cli.streams import Streams
from config.model import Configuration
from config.policy import treated
from documents.document import Document, Layouts, Located, Source
from documents.patch import Edit, patched
from documents.paths import get
from documents.read import objects as objects_in
from documents.splice import apply, rewrite
from documents.values import Value
from dra import gates
from dra.finding import Severity
from facts.model import Facts
from translate.changes.template import Template, says_the_same
from translate.manifests.codes import TEMPLATE_DIFFERS
from translate.manifests.objects import Translated, translated
from translate.pods import Given, given

NAME = "translate"
HELP = "turn what pods ask of device plugins into resource claims"

NOTHING, TRANSLATED, ERRORS = 0, 1, 2
_TEMPLATE: Final = "ResourceClaimTemplate"


@dataclass(frozen=True)
class _File:
    """A file that was read, and its bytes with the edits made."""

    source: Source
    text: bytes


@dataclass
class _Result:
    """What becomes of all files."""

    files: list[_File] = field(default_factory=list)
    objects: list[Value] = field(default_factory=list)
    templates: dict[tuple[object, object], Mapping[str, Value]] = field(default_factory=dict)
    given: dict[tuple[object, object], Document] = field(default_factory=dict)
    findings: list[Located] = field(default_factory=list)
    changed: int = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests, what is known of the cluster, and the form of the output."""
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        action="append",
        required=True,
        help="manifests to translate; may be given several times",
    )
    parser.add_argument(
        "--cluster",
        "--inventory",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help="files and folders with the objects of the cluster",
    )
    live_cluster.options(parser)
    parser.add_argument("--facts", metavar="FILE", help="what `drawbridge facts` said of it")
    config.option(parser)
    _form(parser)


def _form(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubernetes-version",
        metavar="VERSION",
        help=f"of the API server (default: what a live one says, else {gates.NEWEST})",
    )
    parser.add_argument(
        "--feature-gates", metavar="GATE=true,...", default="", help="that differ from the defaults"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=["yaml", "json", "diff", "report"],
        default="yaml",
        help="format (default: yaml)",
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the translation, and return what scripts want to know of it."""
    result = _Result()
    by = _given(options, streams, result)
    for source in sources(options.filename, streams.stdin):
        if isinstance(source, Located):
            result.findings.append(source)
        else:
            _file(source, by, result)
    _without_known(result)
    _print(options.output, result, streams)
    if any(each.finding.severity is Severity.ERROR for each in result.findings):
        return ERRORS
    return TRANSLATED if result.changed else NOTHING


def _given(options: argparse.Namespace, streams: Streams, result: _Result) -> Given | None:
    """Read what decides; None where that cannot be read, and then everything stays as it is."""
    named = options.context is not None or (options.kubeconfig and not options.cluster)
    wanted, told = settled(options, streams, asks_cluster=bool(named))
    result.findings += told
    if wanted is None:
        return None
    counted: Facts | None = None
    if options.cluster or named:
        found = _counted(options, streams, wanted, result)
        if not isinstance(found, Facts):
            result.findings += found
            return None
        counted = found
    if options.facts:
        said = facts_of(options.facts, streams, counted)
        if not isinstance(said, Facts):
            result.findings += said
            return None
        counted = said
    return given(wanted, counted)


def _counted(
    options: argparse.Namespace, streams: Streams, wanted: Configuration, result: _Result
) -> Facts | tuple[Located, ...]:
    """Count what the named cluster has, or say why it cannot be read."""
    # These load CEL, which takes longer than a translation.
    from cli.facts import gates_of, objects  # noqa: PLC0415
    from facts.gather import Objects, gather  # noqa: PLC0415

    try:
        files, version = objects(options, streams)
    except UnreadableError as error:
        return (error.located,)
    turned = gates_of(options.kubernetes_version or version, options.feature_gates)
    if not isinstance(turned, gates.Gates):
        return tuple(Located(each, "", 0, 0) for each in turned)
    gathered = gather(Objects(files.slices, files.classes, files.nodes), wanted, turned)
    about = treated(gathered.findings, wanted.findings)
    result.findings += (*files.findings, *files.located(about))
    return gathered.facts


def _file(source: Source, by: Given | None, result: _Result) -> None:
    """Translate the objects of a file; one that is refused stays as it was."""
    layouts = Layouts()
    read_: list[tuple[Document, Translated]] = []
    for document in objects_in(source):
        result.findings += document.findings
        if document.findings or document.empty:
            continue
        one = translated(document.value, document.name, by) if by else Translated()
        result.findings += (document.located(each, layouts) for each in one.findings)
        read_.append((document, one))
        if get(document.value, ("kind",)) == _TEMPLATE and isinstance(document.value, dict):
            result.given[_key(document.value)] = document
    edited = [(document, one.edits) for document, one in read_ if one.edits]
    data, refused = rewrite(source, edited) if edited else (source.data, ())
    result.findings += refused
    kept = _unwritable(edited) if refused else frozenset()
    for document, one in read_:
        if id(document) in kept or not one.edits:
            result.objects.append(document.value)
            continue
        result.changed += 1
        result.objects.append(patched(document.value, one.edits))
        result.templates |= {_key(each): each for each in one.templates}
    result.files.append(_File(source, data))


def _unwritable(edited: Sequence[tuple[Document, Sequence[Edit]]]) -> frozenset[int]:
    """Tell which of the documents are written in a way that edits do not fit into."""
    return frozenset(
        id(each) for each, edits in edited if not isinstance(apply(each, edits), bytes)
    )


def _without_known(result: _Result) -> None:
    """Leave out templates that are among the input already, and say if one says something else."""
    for key, document in result.given.items():
        ours = result.templates.pop(key, None)
        there = document.value
        if ours is None or not isinstance(there, dict):
            continue
        if not says_the_same(there, Template(f"{key[1]}", dict(ours))):
            message = f"{key[1]} is named after another content than it has"
            finding = TEMPLATE_DIFFERS.at("spec", message, object=document.name)
            result.findings.append(document.located(finding))


def _key(template: Mapping[str, Value]) -> tuple[object, object]:
    plain = dict(template)
    return get(plain, ("metadata", "namespace")), get(plain, ("metadata", "name"))


def _print(form: str, result: _Result, streams: Streams) -> None:
    templates = list(result.templates.values())
    if form == "json":
        plain = {
            "objects": result.objects,
            "templates": templates,
            **output.plain(result.findings),
            "changed": result.changed,
        }
        output.value(plain, "json", streams.out)
    elif form == "report":
        output.findings(result.findings, streams.out, color=streams.color)
        streams.out.write(_summary(result))
    else:
        if form == "yaml":
            _write(
                streams.out, _joined([*(each.text for each in result.files), *_texts(templates)])
            )
        else:
            streams.out.writelines(_diff(result, templates))
        output.findings(result.findings, streams.err)


def _summary(result: _Result) -> str:
    return (
        f"{result.changed} of {len(result.objects)} objects translated, "
        f"{len(result.templates)} claim templates added\n"
    )


def _texts(templates: Iterable[Mapping[str, Value]]) -> Iterator[bytes]:
    for each in templates:
        text = io.StringIO()
        output.value(dict(each), "yaml", text)
        yield text.getvalue().encode()


def _joined(texts: Iterable[bytes]) -> bytes:
    """Put files one after the other, each a document of its own."""
    whole = b""
    for text in texts:
        if whole and text:
            whole += b"" if whole.endswith(b"\n") else b"\n"
            whole += b"" if text.startswith(b"---") else b"---\n"
        whole += text
    return whole


def _write(stream: TextIO, data: bytes) -> None:
    """Write bytes as they are: what could not be read need not be text."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(data.decode(errors="backslashreplace"))
        return
    stream.flush()
    binary.write(data)


def _diff(result: _Result, templates: Sequence[Mapping[str, Value]]) -> Iterator[str]:
    for each in result.files:
        name = each.source.name.lstrip("/")
        yield from _changes(each.source.data, each.text, f"a/{name}", f"b/{name}")
    for template, text in zip(templates, _texts(templates), strict=True):
        yield from _changes(b"", text, "/dev/null", f"b/{_key(template)[1]}.yaml")


def _changes(before: bytes, after: bytes, old: str, new: str) -> Iterator[str]:
    was, now = (
        each.decode(errors="backslashreplace").splitlines(keepends=True) for each in (before, after)
    )
    for line in difflib.unified_diff(was, now, old, new):
        # As diff and patch expect it of a file that ends within a line.
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
