"""`drawbridge config`: shows the configuration with its defaults, and its schema.

Also how every command reads its `--config`. Knows nothing of what fields mean.
"""

import argparse

import config.codes
from cli import output
from cli.input_files import sources
from cli.streams import Streams
from config.load import load, plain
from config.model import Configuration
from documents.document import Located, Source
from documents.read import documents as documents_of

NAME = "config"
HELP = "show the configuration with its defaults, or its schema"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `print` and `schema`."""
    commands = parser.add_subparsers(dest="what", metavar="print|schema", required=True)
    text = "print the configuration with defaults filled in, or what is wrong with it"
    one = commands.add_parser("print", help=text, description=text, allow_abbrev=False)
    option(one)
    one.add_argument("-o", "--output", choices=["yaml", "json"], help="format (default: yaml)")
    text = "print the JSON Schema of the configuration"
    commands.add_parser("schema", help=text, description=text, allow_abbrev=False)


def option(parser: argparse.ArgumentParser) -> None:
    """Declare `--config`, which every command that looks at the configuration has."""
    parser.add_argument("--config", metavar="FILE", help="the configuration (- for standard input)")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print what was asked for; 2 when the configuration is refused."""
    if options.what == "schema":
        from config.schema import schema  # noqa: PLC0415  # `print` does without

        output.value(schema(), "json", streams.out)
        return 0
    wanted = configuration(options.config, streams)
    if isinstance(wanted, Configuration):
        output.value(plain(wanted), options.output or "yaml", streams.out)
        return 0
    if options.output:
        output.value(output.plain(wanted), options.output, streams.out)
    else:
        output.findings(wanted, streams.err)
    return 2


def known() -> tuple[str, ...]:
    """The codes that a configuration may speak of: of every package that looks at a cluster.

    That a file, the Configuration itself or a live cluster cannot be read is no opinion. Processes
    take the same (`runtime.settings`), so that a file which is good here is good there.
    """
    from registration.codes import CODES  # noqa: PLC0415  # loads all packages, and only files need it

    return CODES


def configuration(name: str | None, streams: Streams) -> Configuration | tuple[Located, ...]:
    """Read the file `name`, or give all findings in it; without a name, the defaults."""
    if name is None:
        return Configuration()
    files = list(sources([name], streams.stdin))
    if unread := tuple(each for each in files if isinstance(each, Located)):
        return unread
    return read(*(each for each in files if isinstance(each, Source)))


def read(*files: Source) -> Configuration | tuple[Located, ...]:
    """Read the one Configuration of these files, or give all findings in them."""
    found = [each for file in files for each in documents_of(file) if not each.empty]
    if unread := tuple(located for each in found for located in each.findings):
        return unread
    if len(found) != 1:
        message = f"there are {len(found)} documents in the file, expected one Configuration"
        name = files[0].name if files else ""
        return (Located(config.codes.NOT_ONE.at("", message), name, 0, 0),)
    loaded = load(found[0].value, known())
    if isinstance(loaded, Configuration):
        return loaded
    located = (found[0].located(finding) for finding in loaded)
    return tuple(sorted(located, key=lambda each: (each.line, each.column)))
