"""docs/migrating.md: the way from device plugins to DRA, with what each dialect becomes.

Fills the text beside this file: before and after from the examples as they are translated today,
decisions from the table that decides. Translates nothing itself.
"""

import io
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from cli.input_files import read_documents
from cli.main import dispatch
from cli.streams import Streams
from cli.cluster_objects import sort_documents
from config.model import Configuration
from documents.document import Document, Source
from documents.read import read_objects
from documents.values import Value
from dra.finding import Severity
from facts.gather import FactsInput, gather_facts
from translate.decisions.codes import LEFT_TO_CLASS
from translate.decisions.rows import ROWS, Row
from translate.manifests.objects import TranslatedObject, translate_object
from translate.pods import TranslationContext, make_context
from translate.targets.plan import Expressibility

TEXT: Final = Path(__file__).parent / "migrating.md"
EXAMPLES: Final = Path(__file__).parent.parent / "examples"
_SAID: Final = {
    Expressibility.EQUAL: "equal",
    Expressibility.LOSSY: "lossy",
    Expressibility.NOT_EXPRESSIBLE: "not expressible",
}
_PLACE: Final = re.compile(r"\{\{(\w+) ([^}]+)\}\}")


def page() -> str:
    """Write the page."""
    fill = {"before": before, "after": after, "rows": rows, "prints": prints}
    return _PLACE.sub(lambda found: fill[found[1]](found[2]), TEXT.read_text("utf-8"))


def named() -> set[str]:
    """The dialects whose decisions the page shows."""
    return {name for what, name in _PLACE.findall(TEXT.read_text("utf-8")) if what == "rows"}


def before(name: str) -> str:
    """An example as it stands, without the comment above it."""
    text = _file(name).read_text("utf-8")
    return "```yaml\n" + re.sub(r"\A(?:#.*\n)+", "", text) + "```"


def after(name: str) -> str:
    """What an example becomes: the claims that are made, and what is told."""
    source = Source(name, _file(name).read_bytes())
    made = [(each, translate_object(each.value, each.name, _by())) for each in read_objects(source)]
    claims = [dict(template) for _, one in made for template in one.templates]
    devices = "---\n".join(_claim(each) for each in claims)
    told = "".join(f"{line}\n" for document, one in made for line in _told(document, one))
    return f"```yaml\n{devices}```" + (f"\n\nTold:\n\n{told.rstrip()}" if told else "")


def prints(words: str) -> str:
    """What a command prints, on the examples as the page names them."""
    out, root = io.StringIO(), EXAMPLES.parent
    given_ = [f"{root / word}" if word.startswith("examples/") else word for word in words.split()]
    dispatch(given_, Streams(io.BytesIO(), out, out), "drawbridge")
    return out.getvalue().replace(f"{root}/", "").rstrip()


def _claim(template: Mapping[str, Value]) -> str:
    spec: Any = template["spec"]
    return yaml.safe_dump(
        _short(spec["spec"]), sort_keys=False, width=1000, default_flow_style=None
    )


def _short(value: Any) -> Any:  # noqa: ANN401  # any part of a claim
    """Leave out what the API server would fill in."""
    if isinstance(value, dict):
        plain = {"allocationMode": "ExactCount"}
        return {key: _short(each) for key, each in value.items() if plain.get(key) != each}
    return [_short(each) for each in value] if isinstance(value, list) else value


def _told(document: Document, one: TranslatedObject) -> Iterator[str]:
    for each in one.findings:
        if each.severity is not Severity.INFO or each.code == LEFT_TO_CLASS.name:
            yield f"- {document.name.partition('/')[0]}: {each.message} (`{each.code}`)"


def rows(name: str) -> str:
    """The decisions about one dialect."""
    lines = ["| asked | becomes | said | always lost |", "|---|---|---|---|"]
    lines += [_line(each) for each in ROWS.values() if each.name.partition("/")[0] == name]
    return "\n".join(lines)


def _line(each: Row) -> str:
    said = _SAID[each.expressibility] + (", stays with a plugin" if each.stays_with_plugin else "")
    return f"| `{each.legacy}` | {each.becomes} | {said} | {', '.join(each.lost) or '-'} |"


def _file(name: str) -> Path:
    return EXAMPLES / "legacy" / f"{name.replace('-', '_')}.yaml"


@cache
def _by() -> TranslationContext:
    files = sort_documents(read_documents([str(EXAMPLES / "inventory")], io.BytesIO()))
    counted = gather_facts(FactsInput(files.slices, files.classes, files.nodes)).facts
    return make_context(Configuration(), counted)
