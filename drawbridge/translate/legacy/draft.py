"""Collects the asks, source fields and findings of one dialect while it reads one pod."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from drawbridge.documents.paths import Path
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import (
    NO_REQUESTS,
    Ask,
    ContainerRole,
    DeviceUser,
    PodRequests,
    SourceField,
)
from drawbridge.translate.legacy.codes import (
    AMOUNT_SUSPICIOUS,
    CONTAINER_WITHOUT_CLAIM,
    SCHEDULER_KEPT,
    SCHEDULER_LEFT,
)
from drawbridge.translate.legacy.pod_view import ANNOTATIONS, LABELS, DeviceResource, PodView

# No machine has more. Larger counts are usually percentages or megabytes.
MAX_DEVICES = 16
MAX_NICS = 32  # p5.48xlarge of AWS


_NO_TOTALS: Mapping[str, int] = {}
# Names of memory, of percentages and of access to all devices: 1 of them is not one device.
_NO_COUNT: Final = re.compile(
    r"aliyun\.com/gpu-.*"
    r"|(koordinator\.sh|kubernetes\.io)/(?!gpu\.shared$).*"
    r"|nvidia\.com/gpu(mem|mem-percentage|cores)"
    r"|rdma/.*"
    r"|volcano\.sh/v?gpu-(memory|memory-percentage|cores)",
    re.DOTALL,
)


def _find_amounts(
    sources: Sequence[DeviceResource], totals: Mapping[str, int], count: int | None
) -> tuple[str, ...]:
    """Return the names that do not count devices: all but the first one with the count."""
    amounts = {**{each.original_name: each.amount for each in sources}, **totals}
    never = {each.original_name for each in sources if _NO_COUNT.fullmatch(each.name)}
    never |= {name for name in totals if _NO_COUNT.fullmatch(name)}
    counting = next(
        (name for name, amount in amounts.items() if amount == count and name not in never), None
    )
    return tuple(name for name in amounts if name != counting)


class RequestBuilder:
    """Asks, source fields and findings of one dialect, in the order in which they are added."""

    def __init__(self, dialect: str, pod: PodView) -> None:
        self.dialect = dialect
        self.pod = pod
        self.asks: list[Ask] = []
        self.source_fields: list[SourceField] = []
        self.findings: list[Finding] = []

    def add_ask(
        self,
        ask: Ask,
        sources: Iterable[DeviceResource],
        users: tuple[DeviceUser, ...] = (),
        totals: Mapping[str, int] = _NO_TOTALS,
    ) -> Ask:
        """Add an ask that was read from these resources. Returns it with its name and row.

        `totals` are the amounts by name of an ask for several containers.
        """
        resources = tuple(sources)
        name = f"{self.dialect}-{len(self.asks)}"
        named = msgspec.structs.replace(
            ask,
            name=name,
            row=f"{self.dialect}/{ask.row}",
            users=users or ask.users,
            resources=tuple(dict.fromkeys([resource.original_name for resource in resources]))
            or ask.resources,
            amounts=_find_amounts(resources, totals, ask.count),
        )
        self.asks.append(named)
        for resource in resources:
            self.source_fields += resource.source_fields(asks=(name,))
        return named

    def keep_resources(self, resources: Iterable[DeviceResource]) -> None:
        """Add resources as source fields that stay in the pod."""
        for resource in resources:
            self.source_fields += resource.source_fields(removed=False)

    def read_count(self, resource: DeviceResource, most: int = MAX_DEVICES) -> int:
        """Return the amount as a device count. Warns if it is implausible as one."""
        if resource.amount > most:
            self.findings.append(
                AMOUNT_SUSPICIOUS.at(
                    resource.where,
                    f"{resource.original_name} requests {resource.amount} whole devices, but no "
                    f"machine has more than {most}",
                )
            )
        return resource.amount

    def add_annotations(self, keys: Iterable[str], *, removed: bool = True) -> None:
        """Add those annotations that the pod has as source fields of every ask so far."""
        self._add_metadata(
            ANNOTATIONS, (k for k in keys if k in self.pod.annotations), removed=removed
        )

    def add_labels(self, keys: Iterable[str], *, removed: bool = True) -> None:
        """Add those labels that the pod has as source fields of every ask so far."""
        self._add_metadata(LABELS, (k for k in keys if k in self.pod.labels), removed=removed)

    def _add_metadata(self, path: Path, keys: Iterable[str], *, removed: bool) -> None:
        names = tuple(ask.name for ask in self.asks)
        self.source_fields += [
            self.pod.metadata_field(path, key, removed=removed, asks=names) for key in keys
        ]

    def handle_scheduler(self, name: str, *, kept: bool = False) -> None:
        """Keep or remove the scheduler name of the pod if it is this one."""
        if not name or self.pod.scheduler != name or not self.asks:
            return
        asks = tuple(ask.name for ask in self.asks)
        self.source_fields.append(
            SourceField(("spec",), "schedulerName", name, not kept, asks=asks)
        )
        where = "spec.schedulerName"
        if kept:
            self.findings.append(SCHEDULER_KEPT.at(where, f"the pod keeps the scheduler {name}"))
        else:
            self.findings.append(
                SCHEDULER_LEFT.at(
                    where,
                    f"{name} does not allocate resource claims, so it is removed",
                )
            )

    def warn_other_containers(self, users: Iterable[DeviceUser]) -> None:
        """Warn about containers that do not request devices but saw those of their pod."""
        have = {user.path for user in users}
        self.findings += [
            CONTAINER_WITHOUT_CLAIM.at(
                one.where,
                f"container {one.user.name} requests no devices and gets none; in this dialect "
                "every container of the pod got all devices of the pod",
            )
            for one in self.pod.containers
            if one.user.path not in have and one.user.role is not ContainerRole.INIT
        ]

    def build(self) -> PodRequests:
        """Return everything that was added."""
        if not (self.asks or self.source_fields or self.findings):
            return NO_REQUESTS
        return PodRequests(
            tuple(self.asks), tuple(self.source_fields), tuple(self.findings), (self.dialect,)
        )
