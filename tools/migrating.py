"""Renders docs/migrating.md and docs/dialects.md: the steps to DRA, and what requests become.

Fills placeholders in the files of these names here: examples before and after their translation,
the output of commands, and the decision table of each dialect.
"""

import io
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from cli.input.cluster_objects import sort_documents
from cli.input.files import read_documents
from cli.main import dispatch
from cli.terminal.streams import Streams
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Document, Source
from drawbridge.documents.read import read_objects
from drawbridge.documents.values import Value
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.finding import Severity
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.decisions.codes import LEFT_TO_CLASS
from drawbridge.translate.decisions.rows import ROWS, Row
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from drawbridge.translate.targets.plan import Expressibility

STEPS: Final = Path(__file__).parent / "migrating.md"
DIALECTS: Final = Path(__file__).parent / "dialects.md"
EXAMPLES: Final = Path(__file__).parent.parent / "examples"
_EXPRESSIBILITY: Final = {
    Expressibility.EQUAL: "equal",
    Expressibility.LOSSY: "lossy",
    Expressibility.NOT_EXPRESSIBLE: "not expressible",
}
_PLACE: Final = re.compile(r"\{\{(\w+) ([^}]+)\}\}")


def render_steps() -> str:
    """Render the page about the steps of a migration."""
    return _render(STEPS)


def render_dialects() -> str:
    """Render the page about each dialect."""
    return _render(DIALECTS)


def _render(template: Path) -> str:
    fill = {
        "before": render_before,
        "after": render_after,
        "rows": render_rows,
        "prints": render_output,
    }
    return _PLACE.sub(lambda found: fill[found[1]](found[2]), template.read_text("utf-8"))


def render_before(name: str) -> str:
    """Render an example without the comment at its top."""
    text = _example_file(name).read_text("utf-8")
    return "```yaml\n" + re.sub(r"\A(?:#.*\n)+", "", text) + "```"


def render_after(name: str) -> str:
    """Render the claims of a translated example and its findings."""
    source = Source(name, _example_file(name).read_bytes())
    translated = [
        (obj, translate_object(obj.value, obj.name, _sample_context()))
        for obj in read_objects(source)
    ]
    claims = [dict(template) for _, one in translated for template in one.templates]
    devices = "---\n".join(_render_claim(each) for each in claims)
    findings = "".join(
        f"{line}\n" for document, one in translated for line in _render_findings(document, one)
    )
    return f"```yaml\n{devices}```" + (f"\n\nFindings:\n\n{findings.rstrip()}" if findings else "")


def render_output(words: str) -> str:
    """Run a command on the examples and return its output with relative paths."""
    out, root = io.StringIO(), EXAMPLES.parent
    arguments = [
        f"{root / word}" if word.startswith("examples/") else word for word in words.split()
    ]
    dispatch(arguments, Streams(io.BytesIO(), out, out), "drawbridge")
    return out.getvalue().replace(f"{root}/", "").rstrip()


def _render_claim(template: Mapping[str, Value]) -> str:
    spec: Any = template["spec"]
    return yaml.safe_dump(
        _omit_defaults(spec["spec"]), sort_keys=False, width=1000, default_flow_style=None
    )


def _omit_defaults(value: Any) -> Any:  # noqa: ANN401  # any part of a claim
    """Remove fields with the defaults of the API server."""
    if isinstance(value, dict):
        plain = {"allocationMode": "ExactCount"}
        return {key: _omit_defaults(each) for key, each in value.items() if plain.get(key) != each}
    return [_omit_defaults(each) for each in value] if isinstance(value, list) else value


def _render_findings(document: Document, translated: TranslatedObject) -> Iterator[str]:
    for finding in translated.findings:
        if finding.severity is not Severity.INFO or finding.code == LEFT_TO_CLASS.name:
            yield f"- {document.name.partition('/')[0]}: {finding.message} (`{finding.code}`)"


def render_rows(name: str) -> str:
    """Render the decision table of one dialect."""
    lines = ["| request | translation | expressibility | always lost |", "|---|---|---|---|"]
    lines += [_render_row(each) for each in ROWS.values() if each.name.partition("/")[0] == name]
    return "\n".join(lines)


def _render_row(row: Row) -> str:
    expressibility = _EXPRESSIBILITY[row.expressibility] + (
        ", left to a device plugin" if row.stays_with_plugin else ""
    )
    return f"| `{row.legacy}` | {row.becomes} | {expressibility} | {', '.join(row.lost) or '-'} |"


def _example_file(name: str) -> Path:
    return EXAMPLES / "legacy" / f"{name.replace('-', '_')}.yaml"


@cache
def _sample_context() -> TranslationContext:
    files = sort_documents(read_documents([str(EXAMPLES / "inventory")], io.BytesIO()))
    counted = gather_facts(FactsInput(files.slices, files.classes, files.nodes)).facts
    return make_context(Configuration(), counted)
