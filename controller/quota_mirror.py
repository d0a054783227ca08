"""Mirrors quotas on legacy names to claims that the API server does not charge to these names.

If a DeviceClass maps the name, the API server charges its claims to the same quota entry and this
reconciler does nothing. Otherwise pods and claims could each use the whole limit. A ResourceQuota
of Drawbridge then gives each side what the other side leaves: claims get the limit minus the usage
of pods, and pods get the limit minus the usage of claims.

The API server enforces both entries immediately. Usage of the other side becomes visible only after
the quota controller counted it and this reconciler updated the quota. Until then both sides can use
the same remainder, so together they can reach at most twice the limit. The reconciler must not
update a quota too often: each change of a limit makes the quota controller count again, and a pod
that was just charged is not yet in that count.

A name can get another class, or none, while claims of its former class exist. They count until they
are gone: the quota notes in an annotation which classes count for which name.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.current_writes import write_unless_changed
from controller.former_classes import FormerClasses
from controller.kept_writes import NotKeptError, Pauses, apply_kept
from controller.mirrored_quota import (
    RECOUNT,
    MirrorPlan,
    compose_quota,
    find_own,
    is_ours,
    is_written,
    leave_to_owner,
    list_keys,
    note_classes,
    parse_amount,
    read_claim_usage,
    read_noted_classes,
)
from controller.new_findings import NewFindings
from controller.protocols import ObjectCache, ObjectReference, ObjectStore, Reporter
from controller.quota_charges import NameCharge, compute_charge
from controller.quota_namespaces import QuotaNamespaces
from controller.reconcile import FailedLast
from controller.watched_objects import (
    PartialObject,
    WatchedQuota,
    WatchedQuotaSpec,
    WatchedQuotaStatus,
)
from drawbridge.agreement.mirrored_quota import MAX_CLASSES_TEXT, Classes, group_by_class
from drawbridge.agreement.operation_codes import (
    QUOTA_COUNTS_DEVICES,
    QUOTA_DOES_NOT_BIND,
    QUOTA_MIRRORED,
)
from drawbridge.agreement.refused_writes import describe_refused_write
from drawbridge.api_error import ApiError
from drawbridge.dra.counted import join_words
from drawbridge.dra.quantity import valid_quantity
from drawbridge.dra.quota import DEVICES, REQUESTS
from drawbridge.finding import Finding
from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION
from drawbridge.translate.context import TranslationContext

NAME: Final = "quota"
_LIMITS: Final = "limits."
_RECOUNT_DELAY: Final = 2.0
# A cluster has tens of device names, but a quota can have an entry for any name.
_MAX_CHARGES: Final = 1024


# Of a quota whose writer has more than a share of the memory.
MAX_ENTRIES_OF_REDUCED: Final = 32
_OWN: Final = f"ResourceQuota/{MIRRORED_QUOTA}"


def reduce_quota(quota: WatchedQuota) -> WatchedQuota:
    """Return what must be known of a quota: its entries for devices, as many as a cluster has.

    Without them, nothing would limit the claims that it limits.
    """
    hard, used = quota.spec.hard or {}, quota.status.used or {}
    named = sorted(filter(_is_about_devices, hard))[:MAX_ENTRIES_OF_REDUCED]
    labels = quota.metadata.labels or {}
    own = {key: text for key, text in labels.items() if MANAGED_BY.get(key) == text}
    scoped = {"matchExpressions": ()} if quota.spec.scope_selector else None
    classes = (quota.metadata.annotations or {}).get(QUOTA_CLASSES_ANNOTATION, "")
    is_noted = is_ours(quota) and 0 < len(classes) <= MAX_CLASSES_TEXT
    noted = {QUOTA_CLASSES_ANNOTATION: classes} if is_noted else None
    return WatchedQuota(
        replace(quota.metadata, labels=own, annotations=noted),
        WatchedQuotaSpec({key: hard[key] for key in named}, quota.spec.scopes, scoped),
        WatchedQuotaStatus({key: used[key] for key in named if key in used}),
    )


def _is_about_devices(key: str) -> bool:
    """Tell whether this module reads or writes an entry."""
    is_limit = key.startswith(_LIMITS) and "/" in key
    return bool(_legacy_name(key)) or is_limit or key.endswith(DEVICES) or key == RECOUNT


class NameLimit(msgspec.Struct, frozen=True):
    """The limit of a namespace for a legacy name, and the usage of its pods."""

    hard: int
    used: int
    quota: str


def _parse_limit(value: object) -> int | None:
    """Parse a limit, rounded down: no part of it is enough for a device."""
    amount = valid_quantity(value)
    return None if amount is None else amount.floor()


def collect_limits(
    quotas: Iterable[WatchedQuota], own_quota: WatchedQuota | None = None
) -> dict[str, NameLimit]:
    """Return the limits on device names in a namespace; of several quotas the lowest limit wins.

    The quota controller counts each quota separately, and one count can lag behind. The highest
    usage wins, including the usage in Drawbridge's own quota.
    """
    limits: dict[str, NameLimit] = {}
    for quota in quotas:
        for key, value in (quota.spec.hard or {}).items():
            name = _legacy_name(key)
            hard = _parse_limit(value)
            if not name or hard is None or quota.spec.scopes or quota.spec.scope_selector:
                continue
            counts = (quota, own_quota) if own_quota is not None else (quota,)
            used = max(parse_amount((each.status.used or {}).get(key, 0)) or 0 for each in counts)
            if name not in limits or hard < limits[name].hard:
                limits[name] = NameLimit(hard, used, quota.metadata.name)
    return limits


def _legacy_name(key: str) -> str:
    """Return the extended resource that an entry limits; empty for any other entry."""
    name = key.removeprefix(REQUESTS)
    is_native = "/" not in name or "kubernetes.io/" in name
    return "" if name == key or is_native else name


def plan_mirror(
    limits: Mapping[str, NameLimit],
    charge_of: Callable[[str], NameCharge],
    claim_usage: Mapping[str, int],
    former: Classes,
) -> MirrorPlan:
    """Return the entries that the quota needs; `claim_usage` is the usage of claims by class.

    The claims of `former` classes count whatever becomes of their name.
    """
    findings = []
    mirrored: dict[str, AbstractSet[str]] = {}
    for name in sorted(limits):
        charge, classes = charge_of(name), former.get(name, frozenset())
        if charge.classes and not charge.is_mapped:
            if not charge.counts_devices:
                findings.append(_describe_unbound(name, limits[name], charge.classes))
            else:
                classes |= charge.classes
                if charge.is_shared:
                    findings.append(_describe_shared(name, limits[name]))
        if classes:
            mirrored[name] = classes
    hard: dict[str, int] = {}
    for names in group_by_class(mirrored):
        hard |= _divide_limit({name: limits[name] for name in names}, mirrored, claim_usage)
    findings += [_describe_mirrored(name, limits[name], each) for name, each in mirrored.items()]
    return MirrorPlan(dict(sorted(hard.items())), mirrored, tuple(findings))


def _divide_limit(
    group: Mapping[str, NameLimit],
    mirrored: Classes,
    claim_usage: Mapping[str, int],
) -> dict[str, int]:
    """Return the entries of a group: each side gets what the others leave of the common limit."""
    classes = {each for name in group for each in mirrored[name]}
    total = sum(each.hard for each in group.values())
    pods_used = sum(each.used for each in group.values())
    claims_used = sum(claim_usage.get(each, 0) for each in classes)
    hard = {
        f"{REQUESTS}{name}": min(limit.hard, total - claims_used - (pods_used - limit.used))
        for name, limit in group.items()
    } | {
        f"{device_class}{DEVICES}": total
        - pods_used
        - (claims_used - claim_usage.get(device_class, 0))
        for device_class in classes
    }
    return {key: max(0, value) for key, value in hard.items()}


def _on_quota(finding: Finding, limit: NameLimit) -> Finding:
    return msgspec.structs.replace(finding, object=f"ResourceQuota/{limit.quota}")


def _describe_shared(name: str, limit: NameLimit) -> Finding:
    message = f"the entry {REQUESTS}{name}: {limit.hard} counts each share as 1 device"
    return _on_quota(QUOTA_COUNTS_DEVICES.at("spec.hard", message), limit)


def _describe_unbound(name: str, limit: NameLimit, classes: Iterable[str]) -> Finding:
    message = (
        f"the entry {REQUESTS}{name}: {limit.hard} does not count devices, so it does not "
        "limit claims"
    )
    return _report_unbound(message, limit, classes)


def _report_unbound(message: str, limit: NameLimit, classes: Iterable[str]) -> Finding:
    entries = join_words([f"{each}{DEVICES}" for each in sorted(classes)], "and")
    remedy = f"Add {entries} to a ResourceQuota of the namespace."
    return _on_quota(QUOTA_DOES_NOT_BIND.at("spec.hard", message, remedy=remedy), limit)


def _describe_mirrored(name: str, limit: NameLimit, classes: AbstractSet[str]) -> Finding:
    listed = " and ".join(sorted(classes))
    message = (
        f"claims of {listed} are not charged to {name}, so they and pods share the limit "
        f"{REQUESTS}{name}: {limit.hard} of {limit.quota} through {MIRRORED_QUOTA}"
    )
    return _on_quota(QUOTA_MIRRORED.at("spec.hard", message), limit)


def find_unsupported_entries(
    quota: WatchedQuota, charge_of: Callable[[str], NameCharge]
) -> list[Finding]:
    """Report the device entries that cannot be mirrored: scoped quotas and HAMi's `limits.`.

    A quota with scopes never counts a claim, even if a class maps the name.
    """
    findings = []
    is_scoped = bool(quota.spec.scopes or quota.spec.scope_selector)
    for key, value in sorted((quota.spec.hard or {}).items()):
        limited = key.removeprefix(_LIMITS) if key.startswith(_LIMITS) else ""
        name = _legacy_name(key) if is_scoped else limited
        if "/" in name and (classes := charge_of(name).classes):
            reason = (
                "has scopes and counts only some pods"
                if is_scoped
                else "is not a limit that Kubernetes enforces"
            )
            message = f"the entry {key}: {value} {reason}, so it does not limit claims"
            limit = NameLimit(0, 0, quota.metadata.name)
            findings.append(_report_unbound(message, limit, classes))
    return findings


class QuotaMirrorReconciler:
    """Keeps a quota of Drawbridge in each namespace that needs one."""

    name = NAME

    def __init__(  # noqa: PLR0913  # its caches, its store and its inputs
        self,
        quotas: ObjectCache[WatchedQuota],
        namespaces: ObjectCache[PartialObject],
        store: ObjectStore,
        *,
        is_enforced: Callable[[str], bool],
        context: Callable[[], TranslationContext | None],
        reporter: Reporter,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespaces = QuotaNamespaces(quotas, namespaces, now)
        self._store = store
        self._is_enforced = is_enforced
        self._context = context
        self._reporter = reporter
        self._charges: tuple[TranslationContext | None, dict[str, NameCharge]] = (None, {})
        # By namespace, the quotas from which the plan was made.
        self._plans: dict[str, tuple[list[WatchedQuota], MirrorPlan]] = {}
        self._new_findings = defaultdict[str, NewFindings](
            lambda: NewFindings(reporter, "MirrorQuota")
        )
        self._now = now
        # When limits changed last, by namespace, until the recount. A new leader does not know
        # these times, so it requests one recount in every namespace.
        self._changed: dict[str, float] = {}
        self._recounted: set[str] = set()
        self._failed_last = FailedLast()
        self._pauses = Pauses(now, refused=True)
        # By namespace: that its last write was refused.
        self._refused: dict[str, tuple[Finding, ...]] = {}
        self._former = FormerClasses()

    async def reconcile(self) -> None:
        """Write the quotas that have to change and delete those that are not needed."""
        context = self._context()
        if context is None:
            return
        if self._charges[0] is not context:
            self.look_at_all()
        namespaces = self._namespaces.read()
        self._forget_all_but(namespaces)
        if self._charges[0] is not context:
            self._former.note_change(self._charges[0], context, namespaces)
            self._charges, self._plans = (context, {}), {}
        due = dict.fromkeys(self._namespaces.find_due())
        await self._failed_last.process_each(due, lambda name, _: self._reconcile_namespace(name))

    def look_at_all(self) -> None:
        """Look at all namespaces in the next run, whatever has changed of their quotas."""
        self._namespaces.look_at_all()

    def _forget_all_but(self, namespaces: AbstractSet[str]) -> None:
        """Drop the state of namespaces without a quota, most of which are deleted."""
        for namespace in self._new_findings.keys() - namespaces:
            del self._new_findings[namespace]
        self._plans = {name: each for name, each in self._plans.items() if name in namespaces}
        self._changed = {name: at for name, at in self._changed.items() if name in namespaces}
        self._recounted &= namespaces
        self._pauses.keep_only(namespaces)
        self._refused = {name: each for name, each in self._refused.items() if name in namespaces}
        self._former.forget_all_but(namespaces)

    async def _reconcile_namespace(self, namespace: str) -> None:
        quotas = self._namespaces.find(namespace)
        if not quotas:
            return
        own_quota = find_own(quotas)
        plan = MirrorPlan({}, {})
        # Claims can outlive the namespace's opt-in; they count as long as they exist.
        if self._is_enforced(namespace) or any(read_claim_usage(own_quota).values()):
            plan = await self._find_plan(namespace, quotas)
        try:
            await self._write(namespace, plan, own_quota)
        except NotKeptError:
            # It was accepted: the limits may be stored.
            self._refused.pop(namespace, None)
            self._report(namespace, plan.findings)
            raise
        except ApiError as error:
            if refused := describe_refused_write("ResourceQuota", error, _OWN):
                self._refused[namespace] = refused
                self._report(namespace, plan.findings)
            raise
        if not self._pauses.was_lost(namespace, plan.entries):
            self._refused.pop(namespace, None)
            if not plan.hard or namespace in self._recounted:
                self._namespaces.settle(namespace)
        self._report(namespace, plan.findings)

    async def _write(
        self, namespace: str, plan: MirrorPlan, own_quota: WatchedQuota | None
    ) -> None:
        if plan.hard and not is_written(plan, own_quota) and not self._is_paused(namespace, plan):
            await self._mirror(namespace, plan)
        elif own_quota is not None and not plan.hard:
            await self._withdraw(own_quota)
        elif own_quota is not None and namespace not in self._refused:
            await self._request_recount(namespace, own_quota, plan)

    def _is_paused(self, namespace: str, plan: MirrorPlan) -> bool:
        return self._pauses.holds(namespace, plan.entries)

    async def _apply(self, namespace: str, plan: MirrorPlan) -> None:
        with self._pauses.follow(namespace, plan.entries):
            await apply_kept(self._store, compose_quota(namespace, plan), namespace)

    async def _mirror(self, namespace: str, plan: MirrorPlan) -> None:
        if not self._pauses.was_lost(namespace, plan.entries):
            # Also if there is no response: the limits can have changed.
            self._recounted.discard(namespace)
            self._changed.pop(namespace, None)
        await self._apply(namespace, plan)
        self._changed[namespace] = self._now()
        self._reporter.count(NAME, "mirrored")

    async def _find_plan(self, namespace: str, quotas: list[WatchedQuota]) -> MirrorPlan:
        await asyncio.sleep(0)  # others run
        planned = self._plans.get(namespace)
        if planned is None or planned[0] != quotas:
            # A quota can have thousands of entries, and each name costs translations.
            planned = quotas, await asyncio.to_thread(self._make_plan, quotas)
            self._plans[namespace] = planned
        return planned[1]

    def _make_plan(self, quotas: list[WatchedQuota]) -> MirrorPlan:
        own_quota = find_own(quotas)
        others = [each for each in quotas if not is_ours(each)]
        limits, used = collect_limits(others, own_quota), read_claim_usage(own_quota)
        noted, namespace = read_noted_classes(own_quota), quotas[0].metadata.namespace
        former = self._former.find(namespace, noted, used, self._charges[0])
        plan = leave_to_owner(plan_mirror(limits, self._charge, used, former), quotas)
        unsupported = (f for each in others for f in find_unsupported_entries(each, self._charge))
        return plan._replace(findings=(*plan.findings, *unsupported))

    async def _request_recount(
        self, namespace: str, own_quota: WatchedQuota, plan: MirrorPlan
    ) -> None:
        """Make the quota controller count again some time after the limits changed.

        The controller counts when limits change, and a pod that was charged at that moment can be
        missing from the count. It would correct the count only minutes later.
        """
        if namespace in self._recounted:
            return
        since = self._changed.setdefault(namespace, self._now())
        if self._now() - since < _RECOUNT_DELAY:
            return
        recount = {} if RECOUNT in (own_quota.spec.hard or {}) else {RECOUNT: 0}
        changed = plan._replace(hard={**plan.hard, **recount})
        lost: ApiError | None = None
        try:
            await apply_kept(self._store, compose_quota(namespace, changed), namespace)
        except ApiError as error:
            if not error.refused or error.changed:
                raise
            lost = error  # of one whose limits are stored, or will be written again
        self._recounted.add(namespace)
        self._changed.pop(namespace, None)
        self._reporter.count(NAME, "recounted")
        if lost:
            raise lost

    async def _withdraw(self, own_quota: WatchedQuota) -> None:
        """Delete the quota; if somebody else added entries, take back only what was written."""
        namespace, none = own_quota.metadata.namespace, MirrorPlan({}, {})
        said = (own_quota.metadata.annotations or {}).get(QUOTA_CLASSES_ANNOTATION)
        if self._is_paused(namespace, none):
            return
        if (own_quota.spec.hard or {}).keys() <= list_keys(read_noted_classes(own_quota)):
            with self._pauses.follow(namespace, none.entries):
                await self._delete(own_quota)
        elif said != note_classes(none.classes):
            await self._apply(namespace, none)
            self._reporter.count(NAME, "removed")

    async def _delete(self, own_quota: WatchedQuota) -> None:
        metadata = own_quota.metadata
        version = metadata.resource_version
        if await write_unless_changed(
            self._store.delete(
                MIRRORED_QUOTA, metadata.namespace, uid=metadata.uid, version=version
            )
        ):
            self._reporter.count(NAME, "removed")

    def _charge(self, name: str) -> NameCharge:
        context, charges = self._charges
        if context is None:
            return NameCharge()
        if name not in charges:
            if len(charges) >= _MAX_CHARGES:
                charges.clear()
            charges[name] = compute_charge(name, context)
        return charges[name]

    def _report(self, namespace: str, findings: tuple[Finding, ...]) -> None:
        if refused := self._refused.get(namespace):
            others = (each for each in findings if each.code != QUOTA_MIRRORED.name)
            findings = (*others, *refused)
        named = ((each, each.object.partition("/")[2]) for each in findings)
        self._new_findings[namespace].report(
            {each: ObjectReference("ResourceQuota", name, namespace) for each, name in named}
        )
