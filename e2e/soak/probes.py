"""Measures what an innocent tenant gets from admission and the judge, in each phase, and when."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from e2e.controlplane.client import JSON, ApiError, Client
from e2e.scenarios.objects import RESOURCE, claim_spec, opaque, request
from e2e.soak.pods import GPU
from e2e.soak.waits import quantiles

HEAD = (
    f"{'phase':10}  {'request':13}  calls  missed  {'p50':>8}  {'p90':>8}  {'p99':>8}  {'worst':>8}"
)
# Of all replies of a phase, and some more, because a phase can be short.
MISSED_PART, MISSED = 0.01, 2
# A busy machine is slow by itself: the phase is compared with a calm one.
SLOWER, SLOW_SECONDS = 10, 1.0
# No driver decodes it, whatever devices exist: the judge refuses it unless it does not judge it.
_PARAMETERS = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "shared": True}
WRONG_CLAIM: JSON = {
    "metadata": {"name": "probe"},
    "spec": claim_spec(request("gpu", GPU), config=[opaque(GPU, _PARAMETERS)]),
}


def is_translated(reply: JSON) -> bool:
    """Return whether a reply is a pod that got a claim for its request."""
    claims = reply.get("spec", {}).get("resourceClaims", ())
    return any("resourceClaimTemplateName" in claim for claim in claims)


def is_judged(reply: JSON) -> bool:
    """Return whether a reply refuses what no driver decodes."""
    return "ConfigInvalid" in reply.get("message", "")


@dataclass(frozen=True)
class ProbeReply:
    """How long a reply took; `missed` if the request was neither translated nor judged."""

    seconds: float
    missed: bool


class Probes:
    """Creates a legacy pod and a wrong claim as dry runs, one after the other."""

    def __init__(self, client: Client, phase: Callable[[], str]) -> None:
        self.client = client
        self.phase = phase
        self.replies: defaultdict[tuple[str, str], list[ProbeReply]] = defaultdict(list)

    def turn(self, namespace: str, pod: JSON) -> bool:
        """Measure each request once; return whether both were handled.

        One that fails counts with the time until it did.
        """
        turn = []
        for what, path, body, is_handled in (
            ("admitted pod", f"/api/v1/namespaces/{namespace}/pods", pod, is_translated),
            (
                "judged claim",
                f"{RESOURCE}/namespaces/{namespace}/resourceclaims",
                WRONG_CLAIM,
                is_judged,
            ),
        ):
            phase, began, reply = self.phase(), time.monotonic(), JSON()
            try:
                reply = self.client.create(path, body, dryRun="All")
            except ApiError as refusal:
                reply = refusal.body
            finally:
                turn.append(ProbeReply(time.monotonic() - began, not is_handled(reply)))
                self.replies[phase, what].append(turn[-1])
        return not any(reply.missed for reply in turn)

    def rows(self) -> Iterator[str]:
        """Yield a line of the report for each phase and request."""
        for (phase, what), replies in sorted(self.replies.items()):
            seconds = [reply.seconds for reply in replies]
            missed = sum(reply.missed for reply in replies)
            times = quantiles(seconds, 1000, "ms")
            yield f"{phase:10}  {what:13}  {len(replies):5}  {missed:6}  {times}"

    def problems(self, calm: str, attacked: str) -> Iterator[str]:
        """Yield what an innocent tenant missed in these phases, or got much later than calm."""
        for what in sorted({what for _, what in self.replies}):
            before = _most_seconds(self.replies[calm, what])
            for phase in (calm, attacked):
                replies = self.replies[phase, what]
                missed = sum(reply.missed for reply in replies)
                if not replies or missed > MISSED + MISSED_PART * len(replies):
                    yield f"{phase}: {what}: {missed} of {len(replies)} missed"
                seconds = _most_seconds(replies)
                if seconds > max(SLOW_SECONDS, SLOWER * before):
                    yield f"{phase}: {what}: 90 % within {seconds:.1f} s, {before:.1f} s while calm"


def _most_seconds(replies: Sequence[ProbeReply]) -> float:
    """Return the time within which 90 % of the replies came."""
    seconds = sorted(reply.seconds for reply in replies)
    return seconds[9 * (len(seconds) - 1) // 10] if seconds else 0.0
