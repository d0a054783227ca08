"""`drawbridge config`: prints the configuration with its defaults, or its JSON Schema.

Also reads the `--config` file for the other commands.
"""

import argparse
from collections.abc import Mapping

import drawbridge.config.codes
from cli.input.config_map import find_configurations
from cli.input.files import read_sources
from cli.terminal import output
from cli.terminal.cluster_options import add_config_option
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.config.load import configuration_to_plain
from drawbridge.config.model import Configuration
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.read import read_documents as documents_of
from drawbridge.names import CONFIGURATION_KEY

NAME = "config"
EXIT_CODES = {DONE: "printed", BAD: "errors in the configuration, or bad input"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `print` and `schema`."""
    commands = parser.add_subparsers(dest="what", metavar="print|schema", required=True)
    text = "print the configuration with its defaults, or the errors in it"
    printing = commands.add_parser("print", help=text, description=text, allow_abbrev=False)
    add_config_option(printing)
    output.add_format_option(printing, "yaml", "json")
    # Errors are text, unless a format is asked for.
    printing.set_defaults(output=None)
    text = "print the JSON Schema of the configuration"
    commands.add_parser("schema", help=text, description=text, allow_abbrev=False)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the configuration or the schema; 2 if the configuration is invalid."""
    if options.what == "schema":
        from drawbridge.config.schema import configuration_schema  # noqa: PLC0415  # only this needs it

        output.print_value(configuration_schema(), "json", streams.out)
        return 0
    configuration = read_configuration_file(options.config, streams)
    if isinstance(configuration, Configuration):
        output.print_value(
            configuration_to_plain(configuration), options.output or "yaml", streams.out
        )
        return 0
    if options.output:
        output.print_value(output.findings_as_data(configuration), options.output, streams.out)
    else:
        output.print_findings(configuration, streams.err)
    return 2


def known_codes() -> Mapping[str, str]:
    """Return the finding codes whose severity a configuration can change, with their current names.

    Excludes the codes about files, the configuration itself and access to the cluster. The webhook
    and the controller accept the same codes (`drawbridge.process.settings`).
    """
    from drawbridge.agreement.codes import ACCEPTED_NAMES  # noqa: PLC0415  # loads all packages

    return ACCEPTED_NAMES


def read_configuration_file(
    name: str | None, streams: Streams
) -> Configuration | tuple[LocatedFinding, ...]:
    """Read the file `name`, or return its findings; without a name, return the defaults."""
    if name is None:
        return Configuration()
    files = list(read_sources([name], streams.stdin))
    if unread := tuple(each for each in files if isinstance(each, LocatedFinding)):
        return unread
    return read_configuration(*(each for each in files if isinstance(each, Source)))


def read_configuration(*files: Source) -> Configuration | tuple[LocatedFinding, ...]:
    """Read the one Configuration of these files, or return the findings about them.

    The Configuration can be in a ConfigMap, as in the manifests.
    """
    documents = [each for file in files for each in documents_of(file) if not each.empty]
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
    from drawbridge.agreement import configuration as agreed  # noqa: PLC0415  # loads all packages

    loaded = agreed.read_configuration(value, known_codes())
    if isinstance(loaded, Configuration):
        return loaded
    located = (configurations[0].locate_finding(finding) for finding in loaded)
    return tuple(sorted(located, key=lambda each: (each.line, each.column)))
