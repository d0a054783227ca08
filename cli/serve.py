"""`drawbridge serve`: the processes that stay, as the manifests start them.

Declares arguments and starts a process; knows nothing of what one does.
"""

import argparse
import asyncio

from cli.streams import Streams
from runtime.addresses import Address, address

NAME = "serve"
HELP = "run the admission webhook or the controller"
WRONG = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two processes."""
    commands = parser.add_subparsers(dest="what", metavar="webhook|controller", required=True)
    text = "answer the API server about pods and workloads"
    webhook = commands.add_parser("webhook", help=text, description=text, allow_abbrev=False)
    webhook.add_argument("--tls-cert", metavar="FILE", required=True, help="serving certificate")
    webhook.add_argument("--tls-key", metavar="FILE", required=True, help="its private key")
    _address(webhook, "--listen", "0.0.0.0:9443", "admission requests")
    webhook.add_argument(
        "--drain",
        metavar="SECONDS",
        type=_seconds,
        default=10.0,
        help="how long to go on serving after SIGTERM (default: 10)",
    )
    text = "keep facts, templates, quota and match conditions in order, as one leader of several"
    controller = commands.add_parser("controller", help=text, description=text, allow_abbrev=False)
    controller.add_argument(
        "--identity", metavar="NAME", help="what the Lease calls this process (default: its host)"
    )
    for each in (webhook, controller):
        _shared(each)


def _shared(parser: argparse.ArgumentParser) -> None:
    _address(parser, "--health", "0.0.0.0:8081", "/healthz and /readyz")
    _address(parser, "--metrics", "0.0.0.0:8080", "/metrics")
    parser.add_argument("--config", metavar="FILE", help="the configuration, read when it changes")
    parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the API server")
    parser.add_argument("--context", metavar="NAME", help="the context of the kubeconfig")
    parser.add_argument("--namespace", metavar="NS", help="the namespace of this installation")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="debug has a line for every request (default: info)",
    )


def _address(parser: argparse.ArgumentParser, name: str, default: str, what: str) -> None:
    parser.add_argument(
        name,
        metavar="HOST:PORT",
        type=_listen,
        default=address(default),
        help=f"where to listen for {what} (default: {default})",
    )


def _listen(text: str) -> Address:
    try:
        return address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0 to 3600")
    return seconds


def run(options: argparse.Namespace, _streams: Streams) -> int:
    """Run the process until it is told to stop; 0 for a graceful end."""
    # Only here: `drawbridge serve --help` need not wait for sockets and translations.
    if options.what == "webhook":
        from webhook.server.process import run as webhook  # noqa: PLC0415

        return asyncio.run(webhook(options))
    from controller.process import run as controller  # noqa: PLC0415

    return asyncio.run(controller(options))
