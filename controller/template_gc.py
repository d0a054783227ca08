"""Deletes ResourceClaimTemplates that no pod uses any more.

Only a template that no other client created or changed is deleted, in a namespace where admission
creates templates. Admission renews a template that a new pod refers to and creates it
again if it is gone. A renewal prevents the deletion, because the delete request names the
resourceVersion that the reconciler read.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller.current_writes import write_unless_changed
from controller.protocols import (
    ObjectCache,
    ObjectStore,
    Reporter,
    Unstructured,
    WallClock,
    WatchedObject,
)
from controller.reconcile import FailedLast
from controller.template_use import is_created_ahead, last_used
from controller.watched_objects import PartialObject, WatchedPod
from drawbridge.agreement.owned_templates import has_owned_name, is_exclusively_owned
from drawbridge.agreement.template_objects import format_time
from drawbridge.api_error import ApiError
from drawbridge.ledger.pods import FINISHED
from drawbridge.names import USED_ANNOTATION

NAME: Final = "janitor"
UNUSED: Final = timedelta(days=1)
# Most pods follow their template within seconds. A pod that does not was rejected or abandoned.
NEVER_USED: Final = timedelta(minutes=15)

_Templates = dict[str, WatchedObject[PartialObject]]  # by name


def find_unused(
    templates: Iterable[WatchedObject[PartialObject]], now: datetime
) -> list[WatchedObject[PartialObject]]:
    """Return Drawbridge's templates that no pod used for a day, by their own timestamps.

    Templates that no pod ever used are returned after 15 minutes.
    """
    return [
        template
        for template in templates
        if has_owned_name(template.name)
        and _is_unused(template.value, now)
        and is_exclusively_owned(msgspec.json.decode(template.raw))
    ]


def _is_unused(template: PartialObject, now: datetime) -> bool:
    last = last_used(template.metadata)
    if last is None or template.metadata.deletion_timestamp is not None:
        return False
    return now - last > (NEVER_USED if is_created_ahead(template.metadata) else UNUSED)


def referenced_templates(value: Unstructured) -> frozenset[str]:
    """Return the names of the templates that a pod refers to; none if it has finished."""
    pod = msgspec.convert(value, WatchedPod, strict=False)
    return frozenset(() if pod.status.phase in FINISHED else pod.template_names)


class TemplateGarbageCollector:
    """Deletes unused templates; lists the pods of a namespace only if it has candidates."""

    name = NAME

    def __init__(  # noqa: PLR0913  # its cache, stores and inputs
        self,
        templates: ObjectCache[PartialObject],
        pods: ObjectStore,
        store: ObjectStore,
        *,
        is_enforced: Callable[[str], bool],
        reporter: Reporter,
        now: WallClock,
    ) -> None:
        self._templates = templates
        self._pods = pods
        self._store = store
        self._is_enforced = is_enforced
        self._reporter = reporter
        self._now = now
        self._failed_last = FailedLast()
        self._templates_of: dict[str, FailedLast] = {}  # by namespace

    async def reconcile(self) -> None:
        """Delete the templates that are unused now."""
        templates = tuple(self._templates.all())
        collected = await asyncio.to_thread(find_unused, templates, self._now())
        unused: dict[str, _Templates] = {}
        for template in collected:
            unused.setdefault(template.namespace, {})[template.name] = template
        before = self._templates_of
        self._templates_of = {name: before.get(name) or FailedLast() for name in unused}
        await self._failed_last.process_each(unused, self._collect_namespace)

    async def _collect_namespace(self, namespace: str, templates: _Templates) -> None:
        """Delete the templates that no pod of the namespace refers to, and renew the others.

        A namespace out of scope keeps its templates.
        """
        if not self._is_enforced(namespace):
            return
        referenced = set[str]()
        async for pod in self._pods.iterate(namespace):
            referenced |= referenced_templates(pod)

        async def collect(name: str, template: WatchedObject[PartialObject]) -> None:
            if name in referenced:
                await self._renew(template)
            else:
                await self._delete(template)

        await self._templates_of[namespace].process_each(templates, collect)

    async def _renew(self, template: WatchedObject[PartialObject]) -> None:
        """Record the use, so that the pods of the namespace are not listed again for a day."""
        annotations = {USED_ANNOTATION: format_time(self._now())}
        change: Unstructured = {"metadata": {"annotations": annotations, "uid": template.uid}}
        if await write_unless_changed(self._store.merge(template.name, change, template.namespace)):
            self._reporter.count(NAME, "renewed")

    async def _delete(self, template: WatchedObject[PartialObject]) -> None:
        try:
            deleted = await self._store.delete(
                template.name, template.namespace, uid=template.uid, version=template.version
            )
        except ApiError as error:
            # Admission renewed the template, or it is already gone.
            if not error.changed:
                raise
            return
        if deleted:
            self._reporter.count(NAME, "collected")
