"""What a dialect collects while it reads one pod; has the lifetime of that reading."""

from collections.abc import Iterable

import msgspec

from dra.finding import Finding
from translate.legacy.asks import NOTHING, Ask, Reading, Role, Trace, User
from translate.legacy.codes import (
    AMOUNT_SUSPICIOUS,
    CONTAINER_WITHOUT_CLAIM,
    SCHEDULER_KEPT,
    SCHEDULER_LEFT,
)
from translate.legacy.pod_view import PodView, Resource

# No machine has more; larger counts are mostly percentages or megabytes.
MOST_DEVICES = 16


class Draft:
    """Asks, traces and findings of one dialect, in the order they were found."""

    def __init__(self, dialect: str, pod: PodView) -> None:
        self.dialect = dialect
        self.pod = pod
        self.asks: list[Ask] = []
        self.traces: list[Trace] = []
        self.findings: list[Finding] = []

    def ask(self, ask: Ask, of: Iterable[Resource], users: tuple[User, ...] = ()) -> Ask:
        """Name an ask, say which resources made it, and take those out of the pod."""
        resources = tuple(of)
        name = f"{self.dialect}-{len(self.asks)}"
        named = msgspec.structs.replace(
            ask,
            name=name,
            row=f"{self.dialect}/{ask.row}",
            users=users or ask.users,
            resources=tuple(dict.fromkeys([one.written for one in resources])) or ask.resources,
        )
        self.asks.append(named)
        for one in resources:
            self.traces += one.traces(asks=(name,))
        return named

    def count(self, one: Resource) -> int:
        """Read a number of devices, with a warning where it can hardly be one."""
        if one.amount > MOST_DEVICES:
            self.findings.append(
                AMOUNT_SUSPICIOUS.at(
                    one.where,
                    f"{one.written}: {one.amount} whole devices are asked for, and no machine has "
                    f"more than {MOST_DEVICES}",
                )
            )
        return one.amount

    def annotations(self, keys: Iterable[str], *, removed: bool = True) -> None:
        """Say what becomes of those of the annotations that are there, with every ask so far."""
        names = tuple(ask.name for ask in self.asks)
        self.traces += [
            self.pod.annotation(key, removed=removed, asks=names)
            for key in keys
            if key in self.pod.annotations
        ]

    def labels(self, keys: Iterable[str], *, removed: bool = True) -> None:
        """Say what becomes of those of the labels that are there, with every ask so far."""
        names = tuple(ask.name for ask in self.asks)
        self.traces += [
            self.pod.label(key, removed=removed, asks=names)
            for key in keys
            if key in self.pod.labels
        ]

    def scheduler(self, name: str, *, kept: bool = False) -> None:
        """Say what becomes of the pod's scheduler if it is this one."""
        if not name or self.pod.scheduler != name or not self.asks:
            return
        asks = tuple(ask.name for ask in self.asks)
        self.traces.append(Trace(("spec",), "schedulerName", name, not kept, asks=asks))
        where = "spec.schedulerName"
        if kept:
            self.findings.append(SCHEDULER_KEPT.at(where, f"{name} stays the pod's scheduler"))
        else:
            self.findings.append(
                SCHEDULER_LEFT.at(where, f"{name} allocates no claims, so the pod leaves it")
            )

    def others(self, users: Iterable[User]) -> None:
        """Warn of the containers that saw the devices only because their pod asked for some."""
        have = {user.path for user in users}
        self.findings += [
            CONTAINER_WITHOUT_CLAIM.at(
                one.where,
                f"container {one.user.name} asked for no device and gets none; the dialect gave "
                "every container of the pod the same",
            )
            for one in self.pod.containers
            if one.user.path not in have and one.user.role is not Role.INIT
        ]

    def reading(self) -> Reading:
        """Return what was collected."""
        if not (self.asks or self.traces or self.findings):
            return NOTHING
        return Reading(tuple(self.asks), tuple(self.traces), tuple(self.findings), (self.dialect,))
