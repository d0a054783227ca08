"""Reads the configuration of a file: the Configuration itself, or a ConfigMap with it."""

from pathlib import Path

import drawbridge.config.codes
from cli.input.config_map import ConfigurationDocument, find_configurations
from cli.input.files import read_sources, unreadable_file
from cli.terminal.streams import Streams
from drawbridge.config.model import Configuration
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.read import read_documents
from drawbridge.names import CONFIGURATION_KEY


def read_configuration_file(
    name: str | None, streams: Streams
) -> Configuration | tuple[LocatedFinding, ...]:
    """Read the file `name`, or return its findings; without a name, return the defaults."""
    if name is None:
        return Configuration()
    if Path(name).is_dir():
        return (unreadable_file(name, "a folder; name the file with the Configuration"),)
    files = list(read_sources([name], streams.stdin))
    if unread := tuple(each for each in files if isinstance(each, LocatedFinding)):
        return unread
    return read_configuration(*(each for each in files if isinstance(each, Source)))


def read_configuration(*files: Source) -> Configuration | tuple[LocatedFinding, ...]:
    """Read the one Configuration of these files, or return the findings about them.

    The Configuration can be in a ConfigMap, as in the manifests.
    """
    documents = [each for file in files for each in read_documents(file) if not each.empty]
    configurations = find_configurations(documents)
    if unread := tuple(located for each in configurations for located in each.findings):
        return unread
    if len(configurations) != 1:
        message = f"found {len(configurations)} documents in the file, expected one Configuration"
        name = files[0].name if files else ""
        return (
            LocatedFinding(
                drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("", message), name, 0, 0
            ),
        )
    value = configurations[0].document.value
    if isinstance(value, dict) and value.get("kind") == "ConfigMap":
        message = (
            f"{configurations[0].document.name} has no key {CONFIGURATION_KEY} with a Configuration"
        )
        remedy = f"Put the Configuration under data, key {CONFIGURATION_KEY}."
        return (
            configurations[0].locate_finding(
                drawbridge.config.codes.CONFIGURATION_NOT_ONE.at("data", message, remedy=remedy)
            ),
        )
    return load_configuration(configurations[0])


def load_configuration(
    document: ConfigurationDocument,
) -> Configuration | tuple[LocatedFinding, ...]:
    """Return the Configuration of a document, or the findings about it."""
    if document.findings:
        return document.findings
    from drawbridge.agreement import configuration as agreed  # noqa: PLC0415  # loads all packages

    loaded = agreed.read_configuration(document.document.value)
    if isinstance(loaded, Configuration):
        return loaded
    located = map(document.locate_finding, loaded)
    return tuple(sorted(located, key=lambda each: (each.line, each.column)))
