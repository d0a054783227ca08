"""Starts processes again that ended by themselves, as a kubelet does for containers."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from e2e.controlplane.plane import ControlPlane
from e2e.installed.replica import Replica

LAST_LINES = 3


class Ending(NamedTuple):
    """How a process ended: its exit code and the messages that it logged last."""

    name: str
    code: int
    messages: tuple[str, ...]


class Supervisor:
    """Watches replicas; `restart_ended` is called again and again while a scenario waits."""

    def __init__(self, plane: ControlPlane, replicas: Iterable[Replica]) -> None:
        self.plane = plane
        self.replicas = list(replicas)
        self.endings: list[Ending] = []

    @property
    def restarts(self) -> Counter[str]:
        """How often each process was started again."""
        return Counter(each.name for each in self.endings)

    def restart_ended(self) -> list[Replica]:
        """Start the processes that ended, and return them; they are not ready yet."""
        ended = [each for each in self.replicas if not each.alive]
        for replica in ended:
            messages = tuple(str(line.get("msg")) for line in replica.lines()[-LAST_LINES:])
            code = replica.started_process().child.returncode
            self.endings.append(Ending(replica.name, code, messages))
            self.plane.processes[replica.name] = replica.start()
        return ended
