"""The drawbridge command: reads files, calls the pure packages, prints."""

INTERRUPTED = 130  # the exit code after Ctrl-C
