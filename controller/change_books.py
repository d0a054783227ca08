"""Counts translated pods for the book of changes, while this replica leads.

Tenants write the pods and the templates that these name. So an event of a pod costs little: it only
notes names, of which a namespace has a bounded number. Templates are described before a book is
written, each version once, and others run in between.

A book has all pods of a minute or none of them: one that ended in between would have some of the
pods that a Job creates within a second, and another leader could not tell which.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from controller.device_users import find_owner
from controller.protocols import ObjectCache, Unstructured, WatchedObject
from controller.steps import iterate_in_steps
from controller.watched_objects import PartialObject
from drawbridge.agreement.owned_templates import (
    LARGEST_TEMPLATE,
    has_owned_name,
    name_matches_content,
)
from drawbridge.bounded_cache import BoundedCache
from drawbridge.report.claim_requests import describe_claim, short_selectors
from drawbridge.report.stuck.objects import HangingPod, seconds_of
from drawbridge.usage.accounts import OTHER
from drawbridge.usage.book import DAY, clean_name
from drawbridge.usage.changes import (
    MAX_OF_NAMESPACE,
    MAX_TEXT,
    ChangeBook,
    ChangedPods,
    read_changes,
)

# The last minutes of a day are written after its end.
_DAYS: Final = 2
_MINUTE: Final = 60
# Groups of alike pods that are noted until a book is written: ten times the rows of a book.
MOST_NOTED: Final = 4_000
# Of one pod; a pod that was translated rarely has more than two.
_MOST_TEMPLATES: Final = 8
_MOST_DESCRIBED: Final = 4_096


class _Pods(NamedTuple):
    """Alike pods of one day since 1970 that were seen, with the names of their templates."""

    day: int
    namespace: str
    owner: str
    templates: tuple[str, ...]


class _Description(NamedTuple):
    """What a version of a template asks for; None if it is not one of ours."""

    version: str
    text: str | None


class ChangeCounter:
    """Counts each pod once, when it is seen with the claims of a template of ours.

    A leader begins with the pods that were created after the last minute in the book.
    """

    def __init__(
        self, pods: ObjectCache[HangingPod], templates: ObjectCache[PartialObject]
    ) -> None:
        self._pods = pods
        self._templates = templates
        self._books: dict[int, ChangeBook] = {}
        # Pods that are not in the books yet, and their number by the minute since 1970.
        self._seen: dict[_Pods, Counter[int]] = {}
        self._of_namespace = Counter[tuple[int, str]]()  # by day and namespace
        self._newest = 0  # the last day of which a pod was noted
        self._described: BoundedCache[tuple[str, str], _Description] = BoundedCache(_MOST_DESCRIBED)

    @property
    def waiting(self) -> int:
        """The number of groups of alike pods that are not in a book yet."""
        return len(self._seen)

    async def begin(self, stored: Unstructured | None, day: int, now: int) -> None:
        """Continue the book of a day; without one, begin now.

        What was counted already stays, unless another leader has counted more meanwhile.
        """
        read = None if stored is None else read_changes(stored)
        counted = self._books.get(day)
        if counted is not None and (read is None or read.through <= counted.through):
            return
        book = ChangeBook(read)
        since = max(book.through, 0 if read is not None else now)
        pods = tuple(self._pods.all())  # those that come later are counted by their events
        self._books = {day: book}
        self._seen.clear()
        self._of_namespace.clear()
        self._newest = 0
        try:
            async for pod in iterate_in_steps(pods):
                if _created(pod.value) > since and _names_template(pod.value):
                    self._note(pod.value)
        except asyncio.CancelledError:
            self._books = {}
            raise

    def pod_changed(
        self,
        before: WatchedObject[HangingPod] | None,
        after: WatchedObject[HangingPod] | None,
    ) -> None:
        """Note a pod that is seen with its claims for the first time."""
        if not self._books or after is None or not _names_template(after.value):
            return
        if before is None or before.uid != after.uid or not _names_template(before.value):
            self._note(after.value)

    async def settle(self, until: int) -> None:
        """Count the pods of minutes that have ended then, with what their templates ask for."""
        for pods, minutes in [*self._seen.items()]:
            ended = [minute for minute in minutes if (minute + 1) * _MINUTE <= until]
            number = sum(map(minutes.pop, ended))
            if not minutes:
                self._forget(pods)
            if ended and (book := self._open_book(pods.day)) is not None:
                through = (max(ended) + 1) * _MINUTE - 1
                texts = [self._describe(name, pods.namespace) for name in pods.templates]
                claims = ", ".join(text for text in texts if text is not None)
                if claims:
                    change = ChangedPods(pods.namespace, pods.owner, claims)
                    book.count(change, through, number)
                elif not pods.templates:
                    book.count(ChangedPods(pods.namespace, OTHER, OTHER), through, number)
            await asyncio.sleep(0)
        self._of_namespace = +self._of_namespace  # without those that have no pods any more

    def write(self, day: int, most: int) -> str | None:
        """Return the book of a day as text of so many bytes at most; None without one."""
        book = self._books.get(day)
        return None if book is None else book.write(most)

    def _note(self, pod: HangingPod) -> None:
        created, namespace = _created(pod), pod.key[0]
        day, owner = created // DAY, clean_name(find_owner(pod), MAX_TEXT)
        if day > self._newest:
            self._newest = day
            for old in [each for each in self._seen if each.day <= day - _DAYS]:
                self._forget(old)
        elif day <= self._newest - _DAYS:
            return
        pods = _Pods(day, namespace, owner, _names_template(pod))
        if pods not in self._seen and self._of_namespace[pods[:2]] >= MAX_OF_NAMESPACE:
            pods = pods._replace(owner=OTHER, templates=())
        if pods not in self._seen and len(self._seen) >= MOST_NOTED:
            pods = _Pods(day, OTHER, OTHER, ())
        if pods not in self._seen:
            self._of_namespace[pods[:2]] += 1
        self._seen.setdefault(pods, Counter())[created // _MINUTE] += 1

    def _forget(self, pods: _Pods) -> None:
        if self._seen.pop(pods, None) is not None:
            self._of_namespace[pods[:2]] -= 1

    def _open_book(self, day: int) -> ChangeBook | None:
        if self._books and day > max(self._books):
            self._books[day] = ChangeBook()
            for old in sorted(self._books)[:-_DAYS]:
                del self._books[old]
        return self._books.get(day)

    def _describe(self, name: str, namespace: str) -> str | None:
        """Return what a template asks for, its name if nobody knows; None if it is not ours."""
        template = self._templates.get(name, namespace)
        if template is None or len(template.raw) > LARGEST_TEMPLATE:
            return name
        key = namespace, name
        described = self._described.get(key)
        if described is None or described.version != template.version:
            described = _Description(template.version, describe_template(name, template.raw))
            self._described.put(key, described)
        return described.text


def describe_template(name: str, raw: bytes) -> str | None:
    """Return what a template asks for; None if its name is not the hash of its content."""
    try:
        value = msgspec.json.decode(raw)
        if not name_matches_content(value):
            return None
        text = "; ".join(describe_claim(value.get("spec"), short_selectors)) or name
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return None
    return clean_name(text, MAX_TEXT)


def _names_template(pod: HangingPod) -> tuple[str, ...]:
    """Return the templates that a pod names and that can be ours."""
    return tuple(islice(_own_names(pod), _MOST_TEMPLATES))


def _own_names(pod: HangingPod) -> Iterator[str]:
    names = (each.resource_claim_template_name or "" for each in pod.spec.resource_claims or ())
    return (each for each in dict.fromkeys(names) if has_owned_name(each))


def _created(pod: HangingPod) -> int:
    return int(seconds_of(pod.metadata.creation_timestamp) or 0)
