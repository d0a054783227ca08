"""Changes the configuration of an installation, and waits until its processes use it."""

import contextlib
from collections.abc import Iterator
from functools import partial

from e2e.installed.installation import Installation
from e2e.installed.replica import Replica

_USED = "configuration in use"


def configure_and_wait(cluster: Installation, configuration: str) -> None:
    """Change the configuration to another one; every process has read it afterwards."""
    with used_by_all(cluster):
        cluster.configure(configuration)


@contextlib.contextmanager
def used_by_all(cluster: Installation) -> Iterator[None]:
    """Wait until every process uses another configuration, which the block makes."""
    before = [(each, len(each.messages(_USED))) for each in cluster.replicas]
    yield
    for process, known in before:
        process.started_process().wait_ready(partial(_has_read, process, known))


def _has_read(replica: Replica, before: int) -> bool:
    return len(replica.messages(_USED)) > before
