"""Counts translated pods for the book of changes, while this replica leads."""

from typing import Final

import msgspec

from controller.device_users import find_owner
from controller.protocols import ObjectCache, Unstructured, WatchedObject
from controller.watched_objects import PartialObject
from drawbridge.names import TEMPLATE_PREFIX
from drawbridge.report.claim_requests import describe_claim, short_selectors
from drawbridge.report.stuck.objects import HangingPod, seconds_of
from drawbridge.usage.book import DAY
from drawbridge.usage.changes import ChangeBook, ChangedPods, read_changes

# The last minutes of a day are written after its end.
_DAYS: Final = 2


class ChangeCounter:
    """Counts each pod once, when it is seen with the claims of a template of ours.

    A leader begins with the pods that were created after the last one in the book.
    """

    def __init__(
        self, pods: ObjectCache[HangingPod], templates: ObjectCache[PartialObject]
    ) -> None:
        self._pods = pods
        self._templates = templates
        self._books: dict[int, ChangeBook] = {}

    def begin(self, stored: Unstructured | None, day: int, now: int) -> None:
        """Continue the book of a day; without one, begin now.

        What was counted already stays, unless another leader has counted more meanwhile.
        """
        read = None if stored is None else read_changes(stored)
        counted = self._books.get(day)
        if counted is not None and (read is None or read.through <= counted.through):
            return
        book = ChangeBook(read)
        since = max(book.through, 0 if read is not None else now)
        self._books = {day: book}
        for pod in self._pods.all():
            if _names_template(pod.value) and _created(pod.value) > since:
                self._count(pod.value)

    def pod_changed(
        self,
        before: WatchedObject[HangingPod] | None,
        after: WatchedObject[HangingPod] | None,
    ) -> None:
        """Count a pod that is seen with its claims for the first time."""
        if not self._books or after is None or not _names_template(after.value):
            return
        if before is None or before.uid != after.uid or not _names_template(before.value):
            self._count(after.value)

    def write(self, day: int) -> str | None:
        """Return the book of a day as text; None if nothing is counted."""
        book = self._books.get(day)
        return None if book is None else book.write()

    def _count(self, pod: HangingPod) -> None:
        created = _created(pod)
        day = created // DAY
        if day not in self._books and day > max(self._books):
            self._books[day] = ChangeBook()
            for old in sorted(self._books)[:-_DAYS]:
                del self._books[old]
        if (book := self._books.get(day)) is not None:
            claims = ", ".join(self._describe(name, pod) for name in _names_template(pod))
            book.count(ChangedPods(pod.key[0], find_owner(pod), claims), created)

    def _describe(self, name: str, pod: HangingPod) -> str:
        template = self._templates.get(name, pod.key[0])
        if template is None:
            return name
        value = msgspec.json.decode(template.raw)
        return "; ".join(describe_claim(value.get("spec"), short_selectors)) or name


def _names_template(pod: HangingPod) -> tuple[str, ...]:
    """Return the templates of ours that a pod names."""
    names = (each.resource_claim_template_name or "" for each in pod.spec.resource_claims or ())
    return tuple(each for each in names if each.startswith(TEMPLATE_PREFIX))


def _created(pod: HangingPod) -> int:
    return int(seconds_of(pod.metadata.creation_timestamp) or 0)
