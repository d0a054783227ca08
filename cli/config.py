"""`drawbridge config`: prints what decides translations: the configuration, and a cluster's facts.

`print` adds the defaults to a configuration, `schema` prints the JSON Schema, and `facts` prints
what the objects of a cluster say. Other commands accept the facts with `--facts`, and then give the
same results without the cluster.
"""

import argparse

from cli.input.configuration_file import read_configuration_file
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates, read_facts
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, VERSION, add_shared_options
from cli.terminal.exit_codes import BAD, DONE, exit_code
from cli.terminal.streams import Streams
from drawbridge.config.load import configuration_to_plain
from drawbridge.config.model import Configuration

EXIT_CODES = {DONE: "printed", BAD: "errors in the configuration or the cluster, or bad input"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `print`, `schema` and `facts`."""
    commands = parser.add_subparsers(dest="what", metavar="print|schema|facts", required=True)
    text = "print the configuration with its defaults, or the errors in it"
    printing = commands.add_parser("print", help=text, description=text, allow_abbrev=False)
    add_shared_options(printing, "--config")
    output.add_format_option(printing, "yaml", "json")
    text = "print the JSON Schema of the configuration"
    commands.add_parser("schema", help=text, description=text, allow_abbrev=False)
    text = "print the facts about a cluster that decide translations"
    facts = commands.add_parser("facts", help=text, description=text, allow_abbrev=False)
    add_shared_options(facts, "--cluster", *LIVE, "--facts", "--config", *VERSION)
    output.add_detail_options(facts)
    output.add_format_option(facts, "yaml", "json")
    for each in (printing, facts):
        # Errors are text, unless a format is asked for.
        each.set_defaults(output=None)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the configuration, the schema or the facts; 2 if one of them cannot be read."""
    if options.what == "schema":
        from drawbridge.config.schema import configuration_schema  # noqa: PLC0415  # only this needs it

        output.print_value(configuration_schema(), "json", streams.out)
        return DONE
    return _print_facts(options, streams) if options.what == "facts" else _print(options, streams)


def _print(options: argparse.Namespace, streams: Streams) -> int:
    configuration = read_configuration_file(options.config, streams)
    if isinstance(configuration, Configuration):
        output.print_value(
            configuration_to_plain(configuration), options.output or "yaml", streams.out
        )
        return DONE
    return output.print_unreadable(configuration, options, streams)


def _print_facts(options: argparse.Namespace, streams: Streams) -> int:
    """Print the facts to the output, and findings to the error stream."""
    # These imports load the CEL engine.
    from cli.input.facts_objects import facts_input, read_objects  # noqa: PLC0415
    from drawbridge.facts import serialized  # noqa: PLC0415
    from drawbridge.facts.gather import gather_facts  # noqa: PLC0415

    live = not options.cluster or options.context is not None
    configuration, before = read_effective_configuration(options, streams, asks_cluster=live)
    if configuration is None:
        return output.print_unreadable(before, options, streams)
    files, server, *_ = read_objects(options, streams)
    enabled = choose_gates(options, server.version, keeps=server.keeps)
    if isinstance(enabled, tuple):
        return output.print_unreadable(enabled, options, streams)
    gathered = gather_facts(facts_input(files), configuration, enabled)
    findings = (*before, *files.findings, *files.located(gathered.findings))
    facts = read_facts(options.facts, streams, gathered.facts) if options.facts else gathered.facts
    if isinstance(facts, tuple):
        return output.print_unreadable((*findings, *facts), options, streams)
    output.print_value(serialized.facts_to_plain(facts), options.output or "yaml", streams.out)
    shown = output.select_findings(findings, quiet=options.quiet, verbose=options.verbose)
    output.print_findings(shown, streams.err)
    return exit_code(findings)
