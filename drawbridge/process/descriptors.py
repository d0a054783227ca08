"""The limit of file descriptors of this process, which each connection counts for."""

import resource
from typing import Final

# More than all listeners and watches of a process open.
MOST: Final = 65_536


def raise_limit() -> None:
    """Use what the system allows: a shell or a container often starts with 1,024 of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def find_limit() -> int:
    """Return how many file descriptors this process can have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft
