"""Reports what is wrong with the allocation of a claim: a log line, and an event on the claim."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from drawbridge.bounded_cache import BoundedCache
from drawbridge.cluster.event_series import InvolvedObject
from drawbridge.cluster.events import EventRecorder
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies
from drawbridge.dra.claim import CLAIM, Claim
from drawbridge.finding import Finding
from drawbridge.ledger.codes import DEVICE_HELD_TWICE
from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("allocator.writes.reports")
_MAX_REPORTED: Final = 4096


class ClaimReporter:
    """Reports each finding about a claim once: a device that another claim holds, for example."""

    def __init__(self, recorder: EventRecorder, configuration: Callable[[], Configuration]) -> None:
        self._recorder = recorder
        self._configuration = configuration
        self._reported: BoundedCache[tuple[str, Finding], None] = BoundedCache(_MAX_REPORTED)

    def report(self, finding: Finding, claim: Claim) -> None:
        """Report a finding about a claim."""
        key = (claim.metadata.uid, finding)
        if key in self._reported:
            return
        self._reported.put(key, None)
        if finding.code == DEVICE_HELD_TWICE.name:
            metrics.ALLOCATOR_DOUBLES.inc()
        involved = InvolvedObject(
            api_version="resource.k8s.io/v1",
            kind=CLAIM,
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
        )
        for treated in apply_policies((finding,), self._configuration().findings):
            content: Any = msgspec.to_builtins(treated)
            log_event(_LOG, logging.ERROR, treated.message, finding=content)
            self._recorder.record(treated, involved, "Allocate")
