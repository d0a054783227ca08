"""Options, streams, exit codes and output that all commands share."""
