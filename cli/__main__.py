"""Starts the command; Ctrl-C ends it silently from the first import on."""

import os
import signal
import sys

from cli import INTERRUPTED


def main() -> int:
    """Import the command with its parsers, and run it."""
    handler = signal.getsignal(signal.SIGINT)
    catches = handler is signal.default_int_handler  # a background job ignores the signal
    if catches:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from cli.main import main as run  # noqa: PLC0415  # may be interrupted
    from drawbridge.process.stack import call_with_stack  # noqa: PLC0415

    if catches:
        signal.signal(signal.SIGINT, handler)
    return call_with_stack(run)


if __name__ == "__main__":
    sys.exit(main())
