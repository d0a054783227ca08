"""Finds the Configuration in a ConfigMap, so that commands read the file that is applied."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from drawbridge.documents.cuts import split_lines
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_documents, split_list
from drawbridge.facts.model import KIND as FACTS
from drawbridge.finding import Finding
from drawbridge.names import CONFIGURATION_KEY

_GROUP: Final = "drawbridge.dev/"
_PATH: Final = ("data", CONFIGURATION_KEY)


@dataclass(frozen=True)
class ConfigurationDocument:
    """A document that can be a Configuration.

    `position` is where findings are shown if the lines of the document are not lines of the file.
    """

    document: Document
    position: tuple[int, int] | None = None

    @property
    def findings(self) -> tuple[LocatedFinding, ...]:
        """The reasons why the document is unreadable."""
        if self.position is None:
            return self.document.findings
        line, column = self.position
        return tuple(replace(each, line=line, column=column) for each in self.document.findings)

    def locate_finding(self, finding: Finding) -> LocatedFinding:
        """Add the position in the file."""
        if self.position is None:
            return self.document.locate_finding(finding)
        return LocatedFinding(finding, self.document.source.name, *self.position)


def find_configurations(documents: Iterable[Document]) -> list[ConfigurationDocument]:
    """Return the documents that can be a Configuration.

    A ConfigMap with the key config.yaml stands for the documents in it. Rendered manifests have
    other objects beside it, which are left out.
    """
    candidates = [item for document in documents for item in split_list(document)]
    if not any(map(_has_configuration, candidates)):
        return [ConfigurationDocument(each) for each in candidates]
    return [each for item in candidates for each in _read_object(item)]


def find_among_objects(documents: Iterable[Document]) -> list[ConfigurationDocument]:
    """Return the Configurations among other objects, also those in ConfigMaps."""
    given = list(filter(is_configuration, documents))
    return find_configurations(given) if given else []


def is_configuration(document: Document) -> bool:
    """Tell whether an object is a Configuration, or a ConfigMap with one.

    ConfigMaps of other programs have the same key. An object of our API with an unknown kind is a
    Configuration with a wrong kind.
    """
    if _has_configuration(document):
        return _GROUP in f"{get_value(document.value, _PATH)}"
    is_ours = f"{get_value(document.value, ('apiVersion',))}".startswith(_GROUP)
    return is_ours and get_value(document.value, ("kind",)) != FACTS


def _read_object(document: Document) -> Iterator[ConfigurationDocument]:
    if _has_configuration(document):
        yield from _read_config_map(document)
    elif document.findings or get_value(document.value, ("kind",)) == "Configuration":
        yield ConfigurationDocument(document)


def _has_configuration(document: Document) -> bool:
    kind = get_value(document.value, ("kind",))
    return kind == "ConfigMap" and isinstance(get_value(document.value, _PATH), str)


def _read_config_map(document: Document) -> Iterator[ConfigurationDocument]:
    text = f"{get_value(document.value, _PATH)}"
    line, column = document.locate(_PATH)
    name = document.source.name
    lines = _split(document.source.data.decode(errors="replace"))
    block = _find_block(lines[line:], _split(text))
    if block:
        # Blank lines before the block, and its indentation, keep the positions of the file.
        data = "\n".join([*[""] * line, *block, ""])
        configurations = [
            ConfigurationDocument(document)
            for document in read_documents(Source(name, data.encode()))
        ]
    else:
        inner = read_documents(Source(name, text.encode()))
        configurations = [ConfigurationDocument(each, (line, column)) for each in inner]
    yield from (each for each in configurations if not each.document.empty)


def _split(text: str) -> list[str]:
    """Return the lines of a text without their ends."""
    return [each.rstrip("\r\n") for each in split_lines(text)]


def _find_block(below: list[str], content: list[str]) -> list[str]:
    """Return the lines of a literal block; empty if the lines of the file are not the content."""
    block = below[: len(content)]
    if len(block) < len(content):
        return []
    pairs = list(zip(block, content, strict=True))
    indents = {len(shown) - len(read) for shown, read in pairs if read.strip()}
    if len(indents) != 1:
        return []
    (indent,) = indents
    same = all(shown[:indent].strip() == "" and shown[indent:] == read for shown, read in pairs)
    return block if same else []
