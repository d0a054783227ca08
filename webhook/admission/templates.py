"""Ensure the templates of translated pods, with a cache of their status.

The status from a watch or an earlier request is trusted for a while, because the controller creates
missing templates. API errors do not raise. The update of the last-use annotation never delays a
response.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from drawbridge.agreement.admission_codes import TEMPLATE_LATER, TEMPLATE_TAKEN
from drawbridge.agreement.template_objects import (
    build_object,
    build_refused_finding,
    find_changed_field,
    format_time,
    parse_time,
)
from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.names import USED_ANNOTATION
from drawbridge.translate.changes.template import ClaimTemplate, has_same_content
from webhook.admission.protocols import (
    PendingState,
    TemplateState,
    TemplateStatus,
    TemplateStore,
)

# How long a template counts as present after a create or read, if no watch confirms it.
_TRUSTED_SECONDS: Final = 30.0
# A conflict is checked again soon, because the remedy is to delete the template.
_CONFLICT_SECONDS: Final = 2.0
_USE_INTERVAL: Final = timedelta(hours=1)
_MAX_ENTRIES: Final = 16_384
# Templates of a namespace that no pod has used yet. Pods that fail a later check would otherwise
# leave any number of them. Above the limit the controller creates a template once its pod exists.
MAX_AHEAD: Final = 50

_Key = tuple[str, str]


class _Entry(msgspec.Struct):
    """The cached state of a template."""

    state: TemplateState
    until: float  # of the steady clock
    watched: str = ""  # the version from the watch that was compared
    used: datetime | None = None


class CreatedAhead:
    """Counts the templates that no pod has used yet, with those that the watch does not show."""

    def __init__(self, store: TemplateStore, elapsed: Callable[[], float]) -> None:
        self._store = store
        self._elapsed = elapsed
        # By namespace, then by name.
        self._unwatched: BoundedCache[str, dict[str, float]] = BoundedCache(_MAX_ENTRIES)

    def reserve(self, namespace: str, name: str) -> bool:
        """Count a template that is about to be created; False if there are too many."""
        now = self._elapsed()
        unwatched = {
            unused: created
            for unused, created in (self._unwatched.pop(namespace) or {}).items()
            if self._store.get_cached(namespace, unused) is None
            and now - created <= _TRUSTED_SECONDS
        }
        is_free = self._store.count_unused(namespace) + len(unwatched) < MAX_AHEAD
        if is_free:
            unwatched[name] = now
        if unwatched:
            self._unwatched.put(namespace, unwatched)
        return is_free


class TemplateCache:
    """Ensures templates through a store. `count` is told every state but those of dry runs.

    `now` is the time that annotations have. `elapsed` is the steady clock that says how long a
    status is trusted: after a step back of the other one, it would be trusted for too long.
    """

    def __init__(
        self,
        store: TemplateStore,
        now: Callable[[], datetime],
        elapsed: Callable[[], float],
        count: Callable[[TemplateState], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._now, self._elapsed = now, elapsed
        self._count = count
        self._entries: BoundedCache[_Key, _Entry] = BoundedCache(_MAX_ENTRIES)
        self._requests: dict[tuple[_Key, bool], asyncio.Task[TemplateState]] = {}
        self._renewals: set[asyncio.Task[None]] = set()
        self._ahead = CreatedAhead(store, elapsed)

    def ensure(
        self,
        namespace: str,
        template: ClaimTemplate,
        seconds: float,
        *,
        dry_run: bool,
    ) -> TemplateState | PendingState:
        """Return the state of a template at once if it is known. Otherwise, create the template."""
        key = namespace, template.name
        entry = self._find_trusted(key, template)
        if entry is None:
            return self._share_request(key, template, seconds, dry_run=dry_run)
        if not dry_run:
            self._count(entry.state)
            if entry.state is TemplateStatus.PRESENT:
                self._renew(key, entry)
        return entry.state

    def _find_trusted(self, key: _Key, template: ClaimTemplate) -> _Entry | None:
        """Return the cached state of a template, if it is still valid."""
        entry = self._entries.get(key)
        watched = self._store.get_cached(*key)
        if watched is None:
            is_trusted = entry is not None and not entry.watched and self._elapsed() <= entry.until
            return entry if is_trusted else None  # unknown, deleted, or expired
        if entry is not None and entry.watched == watched.version:
            return entry
        if watched.content is None:
            return None  # it exists, and is read once for each version
        stored: dict[str, Value] = msgspec.json.decode(watched.content)
        same = has_same_content(stored, template)
        state = TemplateStatus.PRESENT if same else TemplateStatus.CONFLICT
        return self._remember(key, state, _TRUSTED_SECONDS, watched.version, _read_last_use(stored))

    def _remember(
        self,
        key: _Key,
        state: TemplateState,
        seconds: float,
        watched: str = "",
        used: datetime | None = None,
    ) -> _Entry:
        last = self._entries.get(key)
        until = self._elapsed() + seconds
        entry = _Entry(state, until, watched, used or (last.used if last else None))
        self._entries.put(key, entry)
        return entry

    async def _share_request(
        self, key: _Key, template: ClaimTemplate, seconds: float, *, dry_run: bool
    ) -> TemplateState:
        """Send one request for all concurrent callers with the same key."""
        task = self._requests.get((key, dry_run))
        if task is None:
            request = self._create(key, template, dry_run=dry_run)
            task = asyncio.create_task(self._handle_errors(key, request))
            self._requests[key, dry_run] = task
            task.add_done_callback(lambda _: self._requests.pop((key, dry_run), None))
        # A caller that times out does not cancel the request of the others.
        done, _ = await asyncio.wait((task,), timeout=seconds)
        state = task.result() if done else TemplateStatus.PENDING
        if not dry_run:
            self._count(state)
        return state

    async def _handle_errors(self, key: _Key, request: Awaitable[TemplateState]) -> TemplateState:
        """Wait for a request, and map an API error to a state."""
        try:
            return await request
        except ApiError as error:
            if error.conflict or not error.refused:
                return TemplateStatus.PENDING
            # The pod is admitted anyway. The controller creates the template once it is allowed.
            refused = build_refused_finding(key[1], f"{error}")
            self._remember(key, refused, _CONFLICT_SECONDS)
            return refused

    async def _create(self, key: _Key, template: ClaimTemplate, *, dry_run: bool) -> TemplateState:
        """Create a template unless it would be stored with other content, which none could use."""
        if self._store.get_cached(*key) is not None:
            return await self._compare_stored(key, template, dry_run=dry_run)
        value = build_object(template, key[0])
        for is_trial in (True,) if dry_run else (True, False):
            if not is_trial and not self._ahead.reserve(*key):
                return TemplateStatus.PENDING
            stored = await self._store.create(key[0], value, dry_run=is_trial)
            if stored is None:
                return await self._compare_stored(key, template, dry_run=dry_run)
            if changed := find_changed_field(stored, template):
                self._remember(key, changed, _CONFLICT_SECONDS)
                return changed
        if dry_run:
            return TemplateStatus.PENDING
        self._remember(key, TemplateStatus.PRESENT, _TRUSTED_SECONDS)
        return TemplateStatus.CREATED

    async def _compare_stored(
        self, key: _Key, template: ClaimTemplate, *, dry_run: bool
    ) -> TemplateState:
        """Compare the stored template with the wanted content.

        The result holds for the version that the watch shows, if it shows one.
        """
        cached = self._store.get_cached(*key)
        watched = "" if cached is None else cached.version
        stored = await self._store.read(*key)
        if stored is None:
            return TemplateStatus.PENDING  # deleted between the two requests
        if has_same_content(stored, template):
            used = _read_last_use(stored)
            entry = self._remember(key, TemplateStatus.PRESENT, _TRUSTED_SECONDS, watched, used)
            if not dry_run:
                self._renew(key, entry)
            return TemplateStatus.PRESENT
        self._remember(key, TemplateStatus.CONFLICT, _CONFLICT_SECONDS, watched)
        return TemplateStatus.CONFLICT

    def _renew(self, key: _Key, entry: _Entry) -> None:
        """Record another use of a template, so that it is not garbage collected.

        The controller records the first use, once the pod exists. A template without a recorded use
        may also belong to another client, which renews nothing.
        """
        now = self._now()
        if entry.used is None or now - entry.used < _USE_INTERVAL:
            return
        entry.used = now
        touch = _ignore_errors(self._store.touch(*key, {USED_ANNOTATION: format_time(now)}))
        task = asyncio.create_task(touch)
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)


def _read_last_use(stored: Mapping[str, Value]) -> datetime | None:
    return parse_time(get_value(dict(stored), ("metadata", "annotations", USED_ANNOTATION)))


async def _ignore_errors(request: Awaitable[None]) -> None:
    try:
        await request
    except ApiError:
        return  # the next use tries again in an hour, and garbage collection waits a day


def report_template(namespace: str, template: ClaimTemplate, status: TemplateStatus) -> Finding:
    """Report a template that does not exist, or that has different content."""
    name = f"ResourceClaimTemplate {namespace}/{template.name}"
    if status is TemplateStatus.CONFLICT:
        command = f"kubectl delete resourceclaimtemplate -n {namespace} {template.name}"
        return TEMPLATE_TAKEN.at(
            "spec.resourceClaims",
            f"{name} exists with different content",
            remedy=f"Delete the template, so that it is created again: {command}",
        )
    return TEMPLATE_LATER.at("spec.resourceClaims", f"{name} has not been created yet")
