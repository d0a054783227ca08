"""Compares an object with the ResourceQuotas of its namespace.

The API server charges a claim when it is created. For a template, that is after the pod is created,
when no user sees the error. An object that alone needs more than a limit never fits; one that needs
more than is left may fit later.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final

from drawbridge.containers import most_at_once
from drawbridge.dra.claim import TEMPLATE, request_choices
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.quota import DEVICES, REQUESTS, quota_charges
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.ledger.extended_resources import is_extended
from drawbridge.ledger.pods import SIDECAR, Pod, PodContainer

_LIMITS: Final = "limits."
_HAMI: Final = "hami-core-gpu.project-hami.io"
_GPUS: Final = "nvidia.com/gpu"
# The entries of HAMi's quotas by capacity of its driver, and the unit of the entry.
_HAMI_ENTRIES: Final = {
    "memory": ("nvidia.com/gpumem", 1024 * 1024),
    "cores": ("nvidia.com/gpucores", 1),
}


def check_quotas(subject: Subject, context: JudgeContext) -> Iterator[Finding | DeviceFinding]:
    """Report quotas of the namespace that are too small for the claims or the pod."""
    quotas = [
        quota
        for quota in context.lookups.find_quotas(subject.namespace)
        if not quota.counts_pods_only
    ]
    if not quotas or not (subject.claims or subject.pod):
        return
    charged, uncharged = _find_charges(subject, context)
    path = _find_path(subject)
    for quota in quotas:
        for key, needed in charged.items():
            yield from _compare(quota, key, needed, path, subject.object)
        for key, needed in uncharged.items():
            yield from _compare_uncharged(quota, key, needed, path, subject.object)


def _find_path(subject: Subject) -> str:
    if subject.pod is None:
        return f"{subject.claims[0].path}.devices.requests"
    return f"{subject.pod_path}.spec" if subject.pod_path else "spec"


def _compare(
    quota: ResourceQuota, key: str, needed: int, path: str, about: str
) -> Iterator[Finding | DeviceFinding]:
    limit = quota.find_limit(key)
    if limit is None:
        return
    entry = f"ResourceQuota {quota.metadata.name} limits {key} to {limit.most}"
    if limit.most < Quantity.of(needed):
        message = f"{entry}, but the object needs {needed}"
        yield DeviceFinding(codes.QUOTA_TOO_SMALL.at(path, message, object=about))
    elif limit.most < limit.used + Quantity.of(needed):
        message = f"{entry}, of which {limit.used} are in use; the object needs {needed}"
        yield codes.QUOTA_USED_UP.at(path, message, object=about)


def _compare_uncharged(
    quota: ResourceQuota, key: str, needed: int, path: str, about: str
) -> Iterator[Finding]:
    limit = quota.find_limit(key)
    if limit is not None and limit.most < limit.used + Quantity.of(needed):
        message = (
            f"ResourceQuota {quota.metadata.name} limits {key} to {limit.most}, of which "
            f"{limit.used} are in use; the object needs {needed}, which the API server does not "
            "charge to this entry"
        )
        yield codes.QUOTA_OF_LEGACY_NAME.at(path, message, object=about)


def _find_charges(
    subject: Subject, context: JudgeContext
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return what the API server charges, and what legacy entries would count, by key."""
    extended = context.gates.extended_resource
    names = {
        name: device_class.spec.extended_resource_name or ""
        for name, device_class in (context.world.classes.items() if extended else ())
    }
    charged: Counter[str] = Counter()
    uncharged: Counter[str] = Counter()
    for judged in subject.claims:
        # The claims that a pod names exist already, so they are charged already.
        if subject.pod is None or judged.object.startswith(TEMPLATE):
            charged.update(quota_charges(judged.claim.spec, names))
            uncharged.update(_count_hami_amounts(judged))
    for key, devices in list(charged.items()):
        for name in _find_legacy_names(key, context):
            uncharged[f"{REQUESTS}{name}"] += devices
    if subject.pod is not None:
        charged.update(_count_extended_resources(subject.pod))
        uncharged.update(_count_hami_limits(subject.pod))
    return charged, {key: needed for key, needed in uncharged.items() if key not in charged}


def _find_legacy_names(key: str, context: JudgeContext) -> tuple[str, ...]:
    """Return the names by which device plugins serve the whole devices of a class."""
    name = key.removesuffix(DEVICES)
    if name in (key, _HAMI):
        return ()  # HAMi's devices are shares
    families = (family for family in context.families.values() if name == family.classes[0])
    return tuple(each for family in families for each in family.legacy_names[:1])


def _count_hami_amounts(judged: JudgedClaim) -> Mapping[str, int]:
    """Return the memory and cores of all devices of HAMi's class; of alternatives, the most."""
    total: Counter[str] = Counter()
    for request in judged.claim.spec.devices.requests:
        most: Counter[str] = Counter()
        for choice in request_choices(request):
            wanted = choice.requested
            if wanted.device_class_name != _HAMI or wanted.capacity is None:
                continue
            for name, amount in wanted.capacity.requests.items():
                entry, unit = _HAMI_ENTRIES.get(name.removeprefix(f"{_HAMI}/"), ("", 1))
                if entry:
                    key = f"{_LIMITS}{entry}"
                    most[key] = max(most[key], -(-amount.value() // unit) * wanted.count)
        total.update(most)
    return total


def _count_hami_limits(pod: Pod) -> Mapping[str, int]:
    """Return what HAMi counts for a pod: the amount of each GPU times their number."""
    counted = {
        f"{_LIMITS}{name}": _peak(pod, partial(_count_hami_amount, name=name))
        for name, _ in _HAMI_ENTRIES.values()
    }
    return {key: amount for key, amount in counted.items() if amount}


def _count_hami_amount(container: PodContainer, name: str) -> int:
    return _amount(container, name) * max(_amount(container, _GPUS), 1)


def _count_extended_resources(pod: Pod) -> Mapping[str, int]:
    """Return the charge of a pod for each extended resource, by quota key.

    Init containers run one after the other, beside the sidecars that started before.
    """
    names = {
        name
        for container in pod.containers()
        for name in container.resources.effective_requests()
        if is_extended(name)
    }
    return {
        f"{REQUESTS}{name}": most
        for name in sorted(names)
        if (most := _peak(pod, partial(_amount, name=name)))
    }


def _peak(pod: Pod, measure: Callable[[PodContainer], int]) -> int:
    """Return the most that the containers of a pod need at the same time."""
    init = ((e.restart_policy != SIDECAR, measure(e)) for e in pod.spec.init_containers)
    return most_at_once(chain(init, ((False, measure(e)) for e in pod.spec.containers)))


def _amount(container: PodContainer, name: str) -> int:
    amount = container.resources.effective_requests().get(name)
    return max(0, amount.value()) if amount is not None else 0
