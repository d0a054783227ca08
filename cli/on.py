"""`drawbridge on`: switches the webhooks on again, after `drawbridge off`.

Each namespace is handled as its label says. Repeating the command is harmless.
"""

import argparse

from cli.input import live_cluster
from cli.off import describe_namespaces, print_switched, switch_webhooks
from cli.terminal.cluster_options import LIVE, add_shared_options
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams

EXIT_CODES = {
    DONE: "all webhooks are switched on",
    BAD: "a webhook is not switched on, or bad input",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster."""
    add_shared_options(parser, *LIVE)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Switch on, and say which namespaces are handled."""
    switched = live_cluster.run_with_session(
        options, lambda session: switch_webhooks(session, off=False)
    )
    return print_switched(switched, describe_namespaces(switched), streams)
