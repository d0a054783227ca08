"""Collects templates that nobody uses any more; only those that are ours by their content.

Admission renews a template that it refers to, and makes it again where it is gone, so what is lost
to a mistake is a moment. A renewal wins: only the version that was looked at is deleted.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from controller.protocols import Kept, Now, Store, Told, Watched, refused
from controller.reconcile import apart
from controller.watched_objects import Named, Pod
from dra.names import USED_ANNOTATION
from registration.owned_templates import may_be_ours, stands_for_content

DUTY: Final = "janitor"
UNUSED: Final = timedelta(days=1)
_OVER: Final = ("Succeeded", "Failed")


def idle(templates: Iterable[Kept[Named]], now: datetime) -> list[Kept[Named]]:
    """The templates of ours that were not used for a day, by what they say of themselves."""
    return [
        each
        for each in templates
        if may_be_ours(each.name)
        and each.value.metadata.deletion_timestamp is None
        and (last := used(each.value)) is not None
        and now - last > UNUSED
        and stands_for_content(msgspec.json.decode(each.raw))
    ]


def used(template: Named) -> datetime | None:
    """When it was last used: made, or renewed; None where that cannot be told."""
    made = template.metadata.creation_timestamp
    noted = _instant((template.metadata.annotations or {}).get(USED_ANNOTATION, ""))
    return max(filter(None, (made, noted)), default=None)


def _instant(text: str) -> datetime | None:
    """Read a time as admission notes it; anybody may have written something else."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def referred(pods: Iterable[Pod]) -> frozenset[str]:
    """The templates that live pods refer to."""
    return frozenset(
        name for pod in pods if pod.status.phase not in _OVER for name in pod.templates
    )


class JanitorDuty:
    """Looks now and then; pods are listed only where there is something to collect."""

    name = DUTY

    def __init__(
        self, templates: Watched[Named], pods: Store, store: Store, told: Told, now: Now
    ) -> None:
        self._templates = templates
        self._pods = pods
        self._store = store
        self._told = told
        self._now = now

    async def step(self) -> None:
        """Collect what is idle now."""
        found: dict[str, list[Kept[Named]]] = {}
        for each in idle(self._templates.all(), self._now()):
            found.setdefault(each.namespace, []).append(each)
        await apart(sorted(found.items()), self._look)

    async def _look(self, found: tuple[str, list[Kept[Named]]]) -> None:
        """Collect what no pod of a namespace refers to."""
        namespace, templates = found
        pods = msgspec.convert(await self._pods.list(namespace), list[Pod], strict=False)
        needed = referred(pods)
        await apart((each for each in templates if each.name not in needed), self._collect)

    async def _collect(self, template: Kept[Named]) -> None:
        try:
            gone = await self._store.delete(
                template.name, template.namespace, uid=template.uid, version=template.version
            )
        except Exception as error:
            # It was renewed, or is gone: both are as good.
            if not refused(error, 404, 409):
                raise
            return
        if gone:
            self._told.count(DUTY, "collected")
