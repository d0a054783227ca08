"""Tells persons what the calls of the scheduler do not show, by a log line and an event.

That is what is wrong with the allocation of a claim, and the end of what was held for a gang.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from allocator.state.reports import ClaimFinding, EndedHold, HoldEnd, Report
from drawbridge.agreement.allocator_codes import GANG_HOLD_ENDED
from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies
from drawbridge.dra.claim import CLAIM
from drawbridge.finding import REPEAT_SECONDS, Finding
from drawbridge.ledger.codes import DEVICE_HELD_TWICE
from drawbridge.process import metrics
from drawbridge.process.logs import log_finding

_LOG: Final = logging.getLogger("allocator.writes.reports")
_MAX_REPORTED: Final = 4096


class ReportWriter:
    """Reports each finding about a claim once an hour, and each end of a hold.

    Every replica finds the same of claims. Only the one whose kube-scheduler `leads` reports it.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        configuration: Callable[[], Configuration],
        leads: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder = recorder
        self._configuration = configuration
        self._leads, self._now = leads, now
        # What is to be told of claims, and whether this process did so; else another one had to.
        self._reported: BoundedCache[tuple[str, Finding], bool] = BoundedCache(_MAX_REPORTED)
        for end in HoldEnd:
            metrics.ALLOCATOR_HOLDS_ENDED.declare(end.name)

    def take_left(self) -> list[str]:
        """Return the UIDs of the claims about which another replica had to report."""
        left = [key for key, told in self._reported.items() if not told]
        for key in left:
            self._reported.pop(key)
        return [uid for uid, _ in left]

    def report(self, what: Report) -> None:
        """Tell persons what has happened."""
        match what:
            case ClaimFinding():
                self._report_claim(what)
            case EndedHold():
                self._report_hold(what)

    def _report_claim(self, told: ClaimFinding) -> None:
        finding, metadata = told.finding, told.claim.metadata
        # Events of a claim do not tell its rivals of other namespaces apart.
        whole = replace(finding, message=told.unabridged or finding.message)
        key = (metadata.uid, whole)
        if self._reported.get(key, now := self._now()):
            return
        self._reported.put(key, leads := self._leads(), until=now + REPEAT_SECONDS)
        if not leads:
            return
        # A conflict is reported on each claim that takes part, and counts once.
        if finding.code == DEVICE_HELD_TWICE.name and not self._reported.get(("", whole)):
            self._reported.put(("", whole), value=True)
            metrics.ALLOCATOR_DOUBLES.inc()
        about = (metadata.name, metadata.namespace, metadata.uid)
        involved = InvolvedObject("resource.k8s.io/v1", CLAIM, *about)
        self._tell(finding, involved, "Allocate", whole.message)

    def _report_hold(self, ended: EndedHold) -> None:
        metrics.ALLOCATOR_HOLDS_ENDED.add(ended.end.name)
        finding = GANG_HOLD_ENDED.at(
            "metadata",
            f"devices are no longer held for {ended.left} of {ended.members} members of the gang: "
            f"{ended.end}",
        )
        pod = ended.pod
        involved = InvolvedObject("v1", "Pod", pod.name, pod.namespace, pod.uid)
        self._tell(finding, involved, "Hold")

    def _tell(
        self, finding: Finding, involved: InvolvedObject, action: str, logged: str = ""
    ) -> None:
        """Record a finding, and log a message; without one, the first finding of an event only."""
        for treated in apply_policies((finding,), self._configuration().findings):
            is_first = self._recorder.record(treated, involved, action)
            if logged or is_first:
                log_finding(_LOG, replace(treated, message=logged or treated.message))
