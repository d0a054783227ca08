"""Becomes another program that ends when the one that started it ends, however that ended.

    python tied.py PARENT PROGRAM ARGUMENT...

A rig that is killed ends none of its children itself; the kernel does it then. Run as a file of its
own between fork and exec, because in a process with threads nothing else may be done there. Linux
only, like the rig; imports nothing that takes long.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Ask the kernel for the signal, see that it is not too late, and become the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        sys.exit(f"process {parent} has ended")
    try:
        os.execv(command[0], command)  # noqa: S606  # the command line is the rig's own
    except OSError as problem:
        sys.exit(f"{command[0]}: {problem.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
