"""Deletes ResourceClaimTemplates that no pod uses any more.

Only a template whose name is the hash of its content is deleted. Admission renews a template that a
new pod refers to and creates it again if it is gone. A renewal prevents the deletion, because the
delete request names the resourceVersion that the reconciler read.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from controller.protocols import (
    ObjectCache,
    ObjectStore,
    Reporter,
    WallClock,
    WatchedObject,
    is_rejected,
)
from controller.reconcile import process_each
from controller.watched_objects import PartialObject, WatchedPod
from dra.names import USED_ANNOTATION
from registration.owned_templates import has_owned_name, name_matches_content

NAME: Final = "janitor"
UNUSED: Final = timedelta(days=1)
_FINISHED_PHASES: Final = ("Succeeded", "Failed")


def find_unused(
    templates: Iterable[WatchedObject[PartialObject]], now: datetime
) -> list[WatchedObject[PartialObject]]:
    """Return Drawbridge's templates that no pod used for a day, by their own timestamps."""
    return [
        template
        for template in templates
        if has_owned_name(template.name)
        and template.value.metadata.deletion_timestamp is None
        and (last := last_used(template.value)) is not None
        and now - last > UNUSED
        and name_matches_content(msgspec.json.decode(template.raw))
    ]


def last_used(template: PartialObject) -> datetime | None:
    """Return when a template was created or last renewed; None if it has no timestamp."""
    created = template.metadata.creation_timestamp
    renewed = _parse_time((template.metadata.annotations or {}).get(USED_ANNOTATION, ""))
    return max(filter(None, (created, renewed)), default=None)


def _parse_time(text: str) -> datetime | None:
    """Parse the annotation; None if its value is not a timestamp, since any client can write it."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def referenced_templates(pods: Iterable[WatchedPod]) -> frozenset[str]:
    """Return the names of the templates that unfinished pods refer to."""
    return frozenset(
        name
        for pod in pods
        if pod.status.phase not in _FINISHED_PHASES
        for name in pod.template_names
    )


class TemplateGarbageCollector:
    """Deletes unused templates; lists the pods of a namespace only if it has candidates."""

    name = NAME

    def __init__(
        self,
        templates: ObjectCache[PartialObject],
        pods: ObjectStore,
        store: ObjectStore,
        reporter: Reporter,
        now: WallClock,
    ) -> None:
        self._templates = templates
        self._pods = pods
        self._store = store
        self._reporter = reporter
        self._now = now

    async def reconcile(self) -> None:
        """Delete the templates that are unused now."""
        unused: dict[str, list[WatchedObject[PartialObject]]] = {}
        for template in find_unused(self._templates.all(), self._now()):
            unused.setdefault(template.namespace, []).append(template)
        await process_each(sorted(unused.items()), self._collect_namespace)

    async def _collect_namespace(
        self, unused: tuple[str, list[WatchedObject[PartialObject]]]
    ) -> None:
        """Delete the templates of a namespace that none of its pods refers to."""
        namespace, templates = unused
        pods = msgspec.convert(await self._pods.list(namespace), list[WatchedPod], strict=False)
        referenced = referenced_templates(pods)
        await process_each(
            (template for template in templates if template.name not in referenced), self._delete
        )

    async def _delete(self, template: WatchedObject[PartialObject]) -> None:
        try:
            deleted = await self._store.delete(
                template.name, template.namespace, uid=template.uid, version=template.version
            )
        except Exception as error:
            # Admission renewed the template, or it is already gone.
            if not is_rejected(error, 404, 409):
                raise
            return
        if deleted:
            self._reporter.count(NAME, "collected")
