"""The ResourceQuota of Drawbridge in a namespace: how it is written, and what it says."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from controller.protocols import Unstructured
from controller.watched_objects import WatchedQuota
from drawbridge.agreement.mirrored_quota import Classes, is_managed, is_mirrored, read_classes
from drawbridge.agreement.operation_codes import QUOTA_MIRRORED, QUOTA_NOT_OWNED
from drawbridge.dra.quantity import valid_quantity
from drawbridge.dra.quota import DEVICES, REQUESTS
from drawbridge.finding import Finding
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION

# This entry limits nothing. Any change of the limits makes the quota controller count again.
RECOUNT: Final = "count/recounts.drawbridge.dev"


class MirrorPlan(NamedTuple):
    """The entries of Drawbridge's quota in a namespace; without entries no quota is needed.

    `classes` are those whose claims count for a name.
    """

    hard: dict[str, int]
    classes: Classes
    findings: tuple[Finding, ...] = ()

    @property
    def entries(self) -> tuple[dict[str, int], Classes]:
        """What is written for it."""
        return self.hard, self.classes


def parse_amount(value: object) -> int | None:
    """Parse a quantity, rounded up; None if it is invalid."""
    amount = valid_quantity(value)
    return None if amount is None else amount.value()


def find_own(quotas: Iterable[WatchedQuota]) -> WatchedQuota | None:
    """Return the quota of Drawbridge; None if nobody labelled it as ours."""
    return next((q for q in quotas if is_mirrored(q.metadata.name, q.metadata.labels)), None)


def is_ours(quota: WatchedQuota) -> bool:
    """Tell whether this process, or another one, wrote a quota.

    Policies of others can remove one of its marks.
    """
    is_noted = QUOTA_CLASSES_ANNOTATION in (quota.metadata.annotations or {})
    return _has_name(quota) and (is_managed(quota.metadata.labels) or is_noted)


def _has_name(quota: WatchedQuota) -> bool:
    return quota.metadata.name == MIRRORED_QUOTA


def leave_to_owner(plan: MirrorPlan, quotas: Iterable[WatchedQuota]) -> MirrorPlan:
    """Return a plan that writes nothing if another client's quota has the name of ours."""
    if not plan.hard or all(is_ours(each) or not _has_name(each) for each in quotas):
        return plan
    message = (
        f"{MIRRORED_QUOTA} was not written by Drawbridge, so it is left alone, and claims are not "
        f"limited by {' and '.join(sorted(plan.classes))}"
    )
    finding = QUOTA_NOT_OWNED.at("", message, object=f"ResourceQuota/{MIRRORED_QUOTA}")
    others = (each for each in plan.findings if each.code != QUOTA_MIRRORED.name)
    return MirrorPlan({}, {}, (*others, finding))


def is_written(plan: MirrorPlan, quota: WatchedQuota | None) -> bool:
    """Tell whether a quota has the entries of a plan, whatever others added.

    Amounts are compared: the API server stores 1000 as 1k.
    """
    hard = (quota.spec.hard if quota else None) or {}
    written = {key: parse_amount(hard.get(key)) for key in plan.hard}
    return (written, read_noted_classes(quota)) == plan.entries


def list_keys(classes: Classes) -> AbstractSet[str]:
    """Return the entries that were written for names and their classes."""
    of_claims = {f"{each}{DEVICES}" for listed in classes.values() for each in listed}
    return {RECOUNT, *(f"{REQUESTS}{name}" for name in classes), *of_claims}


def read_noted_classes(quota: WatchedQuota | None) -> Classes:
    """Return the classes whose claims count for a name, of a quota; none without one."""
    return read_classes(quota.metadata.annotations if quota else None)


def note_classes(classes: Classes) -> str:
    """Return the annotation that notes classes."""
    return msgspec.json.encode(classes, order="deterministic").decode()


def read_claim_usage(quota: WatchedQuota | None) -> dict[str, int]:
    """Return the usage of claims by class, as the quota controller counted it."""
    used = (quota.status.used if quota else None) or {}
    return {
        key.removesuffix(DEVICES): parse_amount(value) or 0
        for key, value in used.items()
        if key.endswith(DEVICES)
    }


def compose_quota(namespace: str, plan: MirrorPlan) -> Unstructured:
    """Return the fields of the quota that a plan needs."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": MIRRORED_QUOTA,
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
            "annotations": {QUOTA_CLASSES_ANNOTATION: note_classes(plan.classes)},
        },
        "spec": {"hard": {key: f"{amount}" for key, amount in plan.hard.items()}},
    }
