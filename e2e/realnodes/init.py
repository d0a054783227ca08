"""Runs one command as the first process of a PID namespace.

    python init.py COMMAND ARGUMENT...

The first process gets no signal that it has no handler for, and processes whose parent ended become
its children. It passes SIGTERM and SIGINT on, reaps every child, and ends with the exit code of the
command. The kernel then ends whatever is left in the namespace. Run as a file of its own.
"""

import os
import signal
import sys
from types import FrameType

PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main(command: list[str]) -> int:
    """Run the command to its end, and reap everything meanwhile."""
    # A signal between the start of the command and the handlers must wait for these.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    child = os.posix_spawnp(command[0], command, dict(os.environ), setsigmask=())

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
