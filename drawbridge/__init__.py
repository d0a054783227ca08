"""The core of Drawbridge: everything but the processes and the command."""
