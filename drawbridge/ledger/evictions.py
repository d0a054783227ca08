"""Which pods a taint of devices evicts, and when: as the device taint eviction controller decides.

Read in Kubernetes 1.36.3 and 1.37.2. Only the effect NoExecute evicts, and only a toleration with
that effect spelled out holds a pod back: an empty effect, with which a device can be allocated,
does not. Admin access makes no difference. Before 1.37.2 a pod is found by the claims that its spec
names, so one that has its devices by the name of an extended resource stays.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import Taint
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector, may_apply, tolerates
from drawbridge.ledger.holdings import DeviceID, device_of
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.pods import Pod

NO_EXECUTE: Final = "NoExecute"
# The first version, with its newest patch, that finds pods by the claims of their extended names.
_FINDS_NAMES: Final = "1.37"


class TaintedPod(NamedTuple):
    """A pod with a device that a rule taints; `seconds` is None if the rule never evicts it."""

    pod: Pod
    claim: str
    device: DeviceID
    taint: Taint
    seconds: int | None
    by_name: bool = False  # of an extended resource, which is why it stays


def find_tainted_pods(
    rules: Sequence[DeviceTaintRule],
    claims: Iterable[Claim],
    pods: Iterable[Pod],
    version: str,
) -> Iterator[TaintedPod]:
    """Yield each pod with a node that has a device with the taint of one of the rules.

    The version is that of Kubernetes. Of several devices, the one counts that evicts the pod first.
    """
    evicting = [each for each in rules if each.taint.effect == NO_EXECUTE]
    by_pod = {pod.metadata.uid or pod.full_name: pod for pod in pods if pod.spec.node_name}
    first: dict[str, TaintedPod] = {}
    spares_names = version < _FINDS_NAMES
    for claim in claims if evicting else ():
        allocation, namespace = claim.status.allocation, claim.metadata.namespace or "default"
        for consumer in claim.status.reserved_for if allocation else ():
            pod = by_pod.get(consumer.uid) or by_pod.get(f"{namespace}/{consumer.name}")
            if pod is None or allocation is None or not consumer.is_pod:
                continue
            for result in allocation.devices.results:
                for rule in evicting:
                    if _selects(rule, result):
                        by_name = spares_names and name_of(claim) not in _named_claims(pod)
                        tainted = _judge(pod, claim, result, rule.taint, by_name=by_name)
                        before = first.get(pod.full_name)
                        if before is None or _rank(tainted) < _rank(before):
                            first[pod.full_name] = tainted
    yield from (first[name] for name in sorted(first))


def _selects(rule: DeviceTaintRule, result: AllocationResult) -> bool:
    selector = rule.selector or TaintSelector()
    is_pool = may_apply(rule, result.driver, result.pool)
    return is_pool and selector.device in (None, result.device)


def _judge(
    pod: Pod, claim: Claim, result: AllocationResult, taint: Taint, *, by_name: bool
) -> TaintedPod:
    device = device_of(result)
    if by_name:
        return TaintedPod(pod, name_of(claim), device, taint, None, by_name=True)
    seconds: int | None = 0
    tolerating = [
        each for each in result.tolerations if each.effect == NO_EXECUTE and tolerates(each, taint)
    ]
    if any(each.toleration_seconds is None for each in tolerating):
        seconds = None
    elif tolerating:
        seconds = min(max(0, each.toleration_seconds or 0) for each in tolerating)
    return TaintedPod(pod, name_of(claim), device, taint, seconds)


def _named_claims(pod: Pod) -> frozenset[str]:
    return frozenset(f"{pod.namespace}/{name}" for name in pod.claim_names)


def _rank(tainted: TaintedPod) -> float:
    return float("inf") if tainted.seconds is None else tainted.seconds
