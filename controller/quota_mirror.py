"""Quotas on legacy names, mirrored for claims where the API server does not count these by itself.

Where a class maps the name, the API server charges its claims to the same entry, and nothing is
done here. Elsewhere pods and claims would each have the whole limit. A quota of ours stands beside
the administrator's and gives each side what the other leaves: claims the limit less what pods hold,
pods the limit less what claims hold. Each side binds at once against its own entry; what the other
side took a moment ago is known after a round through the quota controller and through here, and
in that moment both may take the same rest: together at most twice the limit. The round must not be
too fast, because every change of a limit lets the stock controller count anew, and what was charged
a moment ago is not yet there to be counted. Knows nothing of pods.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec

from controller.protocols import About, Object, Store, Told, Watched, refused
from controller.quota_charges import Becomes, becomes
from controller.reconcile import apart
from controller.watched_objects import Named, Quota
from dra.finding import Finding
from dra.names import MIRRORED_QUOTA
from dra.quantity import QuantityError, from_json
from dra.quota import DEVICES, REQUESTS
from registration.controller_codes import QUOTA_MIRRORED, QUOTA_SHARES, QUOTA_UNBOUND
from registration.scope import Mode, of_namespace
from translate.pods import Given

DUTY: Final = "quota"
OURS: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "drawbridge"}
_LIMITS: Final = "limits."
# An entry that limits nothing. Any change of what is limited lets the API server count anew.
RECOUNT: Final = "count/recounts.drawbridge.dev"
_QUIET: Final = 2.0


class Limit(msgspec.Struct, frozen=True):
    """What a namespace may hold of a legacy name, and what its pods hold."""

    hard: int
    used: int
    quota: str


class Mirror(NamedTuple):
    """The entries of our quota in a namespace; without any it is not needed."""

    hard: dict[str, str]
    findings: tuple[Finding, ...] = ()


def amount(value: object) -> int | None:
    """Read an amount of devices; None for what is none."""
    try:
        return from_json(value).value()
    except QuantityError:
        return None


def limits(quotas: Iterable[Quota], ours: Quota | None = None) -> dict[str, Limit]:
    """The limits on device names of the quotas of a namespace; the tightest of several counts.

    Each quota is counted by itself, and under load one may lag; who says that more is used is
    believed, `ours` as well.
    """
    found: dict[str, Limit] = {}
    for quota in quotas:
        for key, value in (quota.spec.hard or {}).items():
            name = _device(key)
            hard = amount(value)
            if not name or hard is None or quota.spec.scopes or quota.spec.scope_selector:
                continue
            counted = (quota, ours) if ours is not None else (quota,)
            used = max(amount((each.status.used or {}).get(key, 0)) or 0 for each in counted)
            limit = Limit(hard, used, quota.metadata.name)
            if name not in found or hard < found[name].hard:
                found[name] = limit
    return found


def _device(key: str) -> str:
    """The legacy name that an entry limits; empty for entries about anything else."""
    name = key.removeprefix(REQUESTS)
    native = "/" not in name or "kubernetes.io/" in name
    return "" if name == key or native else name


def mirror(
    wanted: Mapping[str, Limit], ask: Callable[[str], Becomes], held: Mapping[str, int]
) -> Mirror:
    """Say what our quota has to limit; `held` is what claims hold, by class."""
    found = {name: ask(name) for name in sorted(wanted)}
    findings = []
    ours: dict[str, Becomes] = {}
    for name, each in found.items():
        if not each.classes or each.mapped:
            continue
        if not each.counted:
            findings.append(_unbound(name, wanted[name]))
            continue
        if each.shares:
            message = f"{REQUESTS}{name}: {wanted[name].hard}: each share counts as a device"
            findings.append(_about(QUOTA_SHARES.at("spec.hard", message), wanted[name]))
        ours[name] = each
    hard: dict[str, str] = {}
    for names in _groups(ours):
        hard |= _shared({name: wanted[name] for name in names}, ours, held)
    findings += [_mirrored(name, wanted[name], each) for name, each in ours.items()]
    return Mirror(dict(sorted(hard.items())), tuple(findings))


def _groups(ours: Mapping[str, Becomes]) -> list[set[str]]:
    """Put names together that become devices of a common class."""
    groups: list[tuple[set[str], set[str]]] = []
    for name, each in ours.items():
        names, classes = {name}, set(each.classes)
        for group in [group for group in groups if group[1] & classes]:
            names |= group[0]
            classes |= group[1]
            groups.remove(group)
        groups.append((names, classes))
    return [names for names, _ in groups]


def _shared(
    group: Mapping[str, Limit], ours: Mapping[str, Becomes], held: Mapping[str, int]
) -> dict[str, str]:
    """Give every side what the others leave of the limit that they have together."""
    classes = {each for name in group for each in ours[name].classes}
    total = sum(each.hard for each in group.values())
    used = sum(each.used for each in group.values())
    claims = sum(held.get(each, 0) for each in classes)
    hard = {
        f"{REQUESTS}{name}": min(each.hard, total - claims - (used - each.used))
        for name, each in group.items()
    } | {f"{each}{DEVICES}": total - used - (claims - held.get(each, 0)) for each in classes}
    return {key: str(max(0, value)) for key, value in hard.items()}


def _about(finding: Finding, limit: Limit) -> Finding:
    return msgspec.structs.replace(finding, object=f"ResourceQuota/{limit.quota}")


def _unbound(name: str, limit: Limit) -> Finding:
    message = f"{REQUESTS}{name}: {limit.hard} limits no number of devices, and so no claims"
    return _about(QUOTA_UNBOUND.at("spec.hard", message), limit)


def _mirrored(name: str, limit: Limit, each: Becomes) -> Finding:
    classes = " and ".join(sorted(each.classes))
    message = (
        f"{REQUESTS}{name}: {limit.hard} in {limit.quota}: no class maps the name, so claims of "
        f"{classes} and pods share the limit by {MIRRORED_QUOTA}"
    )
    return _about(QUOTA_MIRRORED.at("spec.hard", message), limit)


# No quota with scopes counts a claim, whoever maps the name.
def unusual(quota: Quota, ask: Callable[[str], Becomes]) -> list[Finding]:
    """Tell of entries about devices that cannot be mirrored: of some pods only, or HAMi's own."""
    found = []
    scoped = bool(quota.spec.scopes or quota.spec.scope_selector)
    for key, value in sorted((quota.spec.hard or {}).items()):
        limited = key.removeprefix(_LIMITS) if key.startswith(_LIMITS) else ""
        name = _device(key) if scoped else limited
        if "/" in name and ask(name).classes:
            why = "counts some pods only" if scoped else "is no limit that Kubernetes enforces"
            message = f"{key}: {value} {why}, and no claims"
            found.append(
                _about(QUOTA_UNBOUND.at("spec.hard", message), Limit(0, 0, quota.metadata.name))
            )
    return found


class QuotaDuty:
    """Keeps a quota of ours in each namespace that needs one."""

    name = DUTY

    def __init__(  # noqa: PLR0913  # what is watched, written and known
        self,
        quotas: Watched[Quota],
        namespaces: Watched[Named],
        store: Store,
        given: Callable[[], Given | None],
        told: Told,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quotas = quotas
        self._namespaces = namespaces
        self._store = store
        self._given = given
        self._told = told
        self._known: tuple[Given | None, dict[str, Becomes]] = (None, {})
        self._said: dict[str, tuple[Finding, ...]] = {}
        self._now = now
        # When a limit was changed last, where nothing was counted since; who just began to lead
        # does not know, and so lets all be counted once.
        self._changed: dict[str, float] = {}
        self._counted: set[str] = set()

    async def step(self) -> None:
        """Write what has to change; of a namespace that needs nothing our quota is taken away."""
        given = self._given()
        if given is None:
            return
        if self._known[0] is not given:
            self._known = (given, {})
        by_namespace: dict[str, list[Quota]] = {}
        for each in self._quotas.all():
            if not self._ends(each.namespace):
                by_namespace.setdefault(each.namespace, []).append(each.value)
        self._forget(by_namespace.keys())

        async def keep(found: tuple[str, list[Quota]]) -> None:
            await self._keep(*found, given)

        await apart(sorted(by_namespace.items()), keep)

    def _forget(self, namespaces: AbstractSet[str]) -> None:
        """Forget namespaces that have no quota any more: most are gone."""
        self._said = {name: each for name, each in self._said.items() if name in namespaces}
        self._changed = {name: at for name, at in self._changed.items() if name in namespaces}
        self._counted &= namespaces

    async def _keep(self, namespace: str, quotas: list[Quota], given: Given) -> None:
        ours = next((each for each in quotas if _ours(each)), None)
        others = [each for each in quotas if each.metadata.name != MIRRORED_QUOTA]
        held = _held(ours)
        wanted = Mirror({})
        # Claims outlive an opt-in that was taken back; as long as any are held, they count.
        if self._translated(namespace, given) or any(held.values()):
            wanted = mirror(limits(others, ours), self._becomes, held)
            more = tuple(f for each in others for f in unusual(each, self._becomes))
            wanted = wanted._replace(findings=(*wanted.findings, *more))
        if wanted.hard and wanted.hard != _hard(ours):
            await self._store.apply(_quota(namespace, wanted.hard), namespace)
            self._changed[namespace] = self._now()
            self._counted.discard(namespace)
            self._told.count(DUTY, "mirrored")
        elif ours is not None and not wanted.hard:
            await self._remove(ours)
        elif ours is not None:
            await self._recount(namespace, ours)
        self._tell(namespace, wanted.findings)

    async def _recount(self, namespace: str, ours: Quota) -> None:
        """Let the API server count once more, some time after limits were changed.

        It counts when they change, and something that was charged just then may not have been
        there to be counted; what is counted wrong would be believed for minutes.
        """
        if namespace in self._counted:
            return
        since = self._changed.setdefault(namespace, self._now())
        if self._now() - since < _QUIET:
            return
        hard = _hard(ours)
        if RECOUNT not in (ours.spec.hard or {}):
            hard[RECOUNT] = "0"
        await self._store.apply(_quota(namespace, hard), namespace)
        self._counted.add(namespace)
        self._changed.pop(namespace, None)
        self._told.count(DUTY, "recounted")

    async def _remove(self, ours: Quota) -> None:
        at = ours.metadata
        try:
            await self._store.delete(
                MIRRORED_QUOTA, at.namespace, uid=at.uid, version=at.resource_version
            )
        except Exception as error:
            # It changed a moment ago; the watch brings it here again.
            if not refused(error, 404, 409):
                raise
            return
        self._told.count(DUTY, "removed")

    def _translated(self, namespace: str, given: Given) -> bool:
        kept = self._namespaces.get(namespace)
        labels = (kept.value.metadata.labels or {}) if kept else {}
        return of_namespace(namespace, labels, given.configuration.scope).mode is Mode.ENFORCE

    def _ends(self, namespace: str) -> bool:
        """Whether nothing can be made in a namespace any more."""
        kept = self._namespaces.get(namespace)
        return kept is not None and kept.value.metadata.deletion_timestamp is not None

    def _becomes(self, name: str) -> Becomes:
        given, known = self._known
        if name not in known and given is not None:
            known[name] = becomes(name, given)
        return known.get(name, Becomes())

    def _tell(self, namespace: str, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            if finding not in self._said.get(namespace, ()):
                name = finding.object.partition("/")[2]
                self._told.say(finding, About("ResourceQuota", name, namespace), "MirrorQuota")
        self._said[namespace] = findings


def _ours(quota: Quota) -> bool:
    labels = quota.metadata.labels or {}
    return quota.metadata.name == MIRRORED_QUOTA and OURS.items() <= labels.items()


def _hard(quota: Quota | None) -> dict[str, str]:
    hard = (quota.spec.hard if quota else None) or {}
    return {key: f"{value}" for key, value in hard.items() if key != RECOUNT}


def _held(quota: Quota | None) -> dict[str, int]:
    """What claims hold by class, as the API server counts it."""
    used = (quota.status.used if quota else None) or {}
    return {
        key.removesuffix(DEVICES): amount(value) or 0
        for key, value in used.items()
        if key.endswith(DEVICES)
    }


def _quota(namespace: str, hard: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": MIRRORED_QUOTA, "namespace": namespace, "labels": dict(OURS)},
        "spec": {"hard": dict(hard)},
    }
