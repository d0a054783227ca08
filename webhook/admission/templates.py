"""The templates that translated pods refer to: made when they are first needed, then known.

What a watch or an earlier call said is believed for a while, since a controller makes what is
missing. Nothing here raises for errors of the world, and a renewal of the mark of use is never
waited for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from documents.paths import get
from documents.values import Value
from dra.finding import Finding
from dra.names import USED_ANNOTATION
from registration.template_objects import demanding, lost, placed, refusal, written
from translate.changes.template import Template, says_the_same
from webhook.admission.protocols import Ensured, Store, StoreError

State = Ensured | Finding

# Without a watch: how long a template that was made or read counts as there.
_BELIEVED: Final = timedelta(seconds=30)
# A taken name is looked at again soon, because the remedy is to delete the template.
_TAKEN: Final = timedelta(seconds=2)
_RENEWED: Final = timedelta(hours=1)
_MOST: Final = 16_384

Key = tuple[str, str]


class _Mark(msgspec.Struct):
    """What is remembered of one template."""

    state: State
    until: datetime
    seen: Mapping[str, Value] | None = None  # what the watch said when it was compared
    used: datetime | None = None


class Made:
    """Templates over a store; remembers what it saw, at most so many."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._marks: OrderedDict[Key, _Mark] = OrderedDict()
        self._calls: dict[tuple[Key, bool], asyncio.Task[State]] = {}
        self._renewals: set[asyncio.Task[None]] = set()

    async def ensure(self, namespace: str, template: Template, seconds: float = 4.0) -> State:
        """See to it that the template is there."""
        key, now = (namespace, template.name), self._now()
        mark = self._believed(key, template, now)
        if mark is None:
            return await self._shared(key, template, seconds, dry_run=False)
        if mark.state is Ensured.THERE:
            self._renew(key, mark, now)
        return mark.state

    async def look(self, namespace: str, template: Template, seconds: float = 4.0) -> State:
        """Say what `ensure` would find, and create nothing."""
        key = (namespace, template.name)
        mark = self._believed(key, template, self._now())
        if mark is not None:
            return mark.state
        return await self._shared(key, template, seconds, dry_run=True)

    async def close(self) -> None:
        """End what is under way."""
        tasks = [*self._calls.values(), *self._renewals]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _believed(self, key: Key, template: Template, now: datetime) -> _Mark | None:
        """Give what is known of a template without asking for it."""
        mark = self._marks.get(key)
        seen = self._store.seen(*key)
        if seen is not None and (mark is None or mark.seen is not seen):
            fine = says_the_same(seen, template)
            state = Ensured.THERE if fine else Ensured.TAKEN
            mark = self._keep(key, state, now + _BELIEVED, seen, _used(seen))
        if mark is None or (seen is None and (mark.seen is not None or mark.until < now)):
            return None  # never seen, or deleted since, or too long ago to be believed
        return mark

    def _keep(
        self,
        key: Key,
        state: State,
        until: datetime,
        seen: Mapping[str, Value] | None = None,
        used: datetime | None = None,
    ) -> _Mark:
        last = self._marks.pop(key, None)
        mark = _Mark(state, until, seen, used or (last.used if last else None))
        self._marks[key] = mark
        if len(self._marks) > _MOST:
            self._marks.popitem(last=False)
        return mark

    async def _shared(
        self, key: Key, template: Template, seconds: float, *, dry_run: bool
    ) -> State:
        """Ask once for all that want the same at the same time."""
        task = self._calls.get((key, dry_run))
        if task is None:
            ask = self._looked(key, template) if dry_run else self._made(key, template)
            task = asyncio.create_task(self._told(key, ask))
            self._calls[key, dry_run] = task
            task.add_done_callback(lambda _: self._calls.pop((key, dry_run), None))
        # One that gives up waiting does not end it for the others.
        done, _ = await asyncio.wait((task,), timeout=seconds)
        return task.result() if done else Ensured.LATER

    async def _told(self, key: Key, asked: Awaitable[State]) -> State:
        """Wait for an answer; what the world has against it is one as well."""
        try:
            return await asked
        except StoreError as error:
            if not error.refused:
                return Ensured.LATER
            # The pod is let in all the same: the controller makes it as soon as that is allowed.
            refused = refusal(key[1], error.refused)
            self._keep(key, refused, self._now() + _TAKEN)
            return refused

    async def _made(self, key: Key, template: Template) -> State:
        whole = placed(template, key[0], self._now())
        if demanding(template):
            tried = await self._store.create(key[0], whole, dry_run=True)
            if tried is not None and (dropped := lost(tried, template)):
                self._keep(key, dropped, self._now() + _TAKEN)
                return dropped
        made = await self._store.create(key[0], whole)
        if made is None:
            return await self._compared(key, template, dry_run=False)
        state: State = lost(made, template) or Ensured.MADE
        kept = Ensured.THERE if state is Ensured.MADE else state
        self._keep(key, kept, self._now() + _BELIEVED, used=self._now())
        return state

    async def _looked(self, key: Key, template: Template) -> State:
        whole = placed(template, key[0], self._now())
        tried = await self._store.create(key[0], whole, dry_run=True)
        if tried is None:
            return await self._compared(key, template, dry_run=True)
        return lost(tried, template) or Ensured.LATER

    async def _compared(self, key: Key, template: Template, *, dry_run: bool) -> State:
        """Compare what is there with what has to be."""
        stored = await self._store.read(*key)
        now = self._now()
        if stored is None:
            return Ensured.LATER  # deleted between the two calls
        if says_the_same(stored, template):
            mark = self._keep(key, Ensured.THERE, now + _BELIEVED, used=_used(stored))
            if not dry_run:
                self._renew(key, mark, now)
            return Ensured.THERE
        self._keep(key, Ensured.TAKEN, now + _TAKEN)
        return Ensured.TAKEN

    def _renew(self, key: Key, mark: _Mark, now: datetime) -> None:
        """Say that the template is in use, so that nobody collects it."""
        if mark.used is not None and now - mark.used < _RENEWED:
            return
        mark.used = now
        touch = _never_told(self._store.touch(*key, {USED_ANNOTATION: written(now)}))
        task = asyncio.create_task(touch)
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)


def _used(stored: Mapping[str, Value]) -> datetime | None:
    """Read when it was used last; whoever wrote nonsense has it renewed."""
    text = get(dict(stored), ("metadata", "annotations", USED_ANNOTATION))
    try:
        read = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return read if read is not None and read.tzinfo is not None else None


async def _never_told(asked: Awaitable[None]) -> None:
    try:
        await asked
    except StoreError:
        return  # the next use tries again in an hour, and a day passes before anybody collects it
