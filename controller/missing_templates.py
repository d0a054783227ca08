"""Recreates ResourceClaimTemplates that pending pods refer to but that do not exist.

Admission may have failed to create a template, or someone deleted it. The reconciler restores the
pod's original request, translates it again and creates a template only if its name is the one that
the pod refers to. Any client can write annotations, so nothing else in them is trusted.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from controller.protocols import (
    Gauge,
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    WallClock,
    WatchedObject,
    is_rejected,
)
from controller.reconcile import process_each
from controller.watched_objects import PartialObject, WatchedPod
from documents.values import Value
from dra.finding import Finding
from dra.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from facts.model import Facts
from registration.admission_codes import TEMPLATE_TAKEN
from registration.controller_codes import TEMPLATE_UNKNOWN
from registration.owned_templates import has_owned_name, name_matches_content
from registration.template_objects import (
    build_object,
    build_refused_finding,
    find_dropped_field,
    may_be_dropped,
)
from translate.changes.patch import restore_original
from translate.changes.template import ClaimTemplate
from translate.pods import TranslationContext, translate

NAME: Final = "templates"
_FINISHED_PHASES: Final = ("Succeeded", "Failed")
# No watch tells when a quota has room again or a policy changes.
_RETRY_AFTER: Final = timedelta(seconds=5)

NamespacedName: TypeAlias = tuple[str, str]


def rebuild_templates(
    pod: Value,
    namespace: str,
    missing: frozenset[str],
    contexts: Iterable[TranslationContext],
) -> tuple[ClaimTemplate, ...]:
    """Rebuild the missing templates from the pod's original request; none unless all of them.

    The first context that produces all missing names wins.
    """
    original = restore_original(pod)
    if original is None:
        return ()
    for context in contexts:
        translation = translate(original, context, namespace)
        templates = {each.name: each for each in translation.templates}
        if missing <= templates.keys():
            return tuple(templates[name] for name in sorted(missing))
    return ()


class MissingTemplateReconciler:
    """Checks pods without a node when they, their templates or the facts change."""

    name = NAME

    def __init__(  # noqa: PLR0913  # its caches, its store and its inputs
        self,
        pods: ObjectCache[WatchedPod],
        templates: ObjectCache[PartialObject],
        store: ObjectStore,
        *,
        context: Callable[[], TranslationContext | None],
        find_facts: Callable[[str], Facts | None],
        reporter: Reporter,
        now: WallClock,
    ) -> None:
        self._pods = pods
        self._templates = templates
        self._store = store
        self._context = context
        self._find_facts = find_facts
        self._reporter = reporter
        self._now = now
        self._queue: set[NamespacedName] = set()
        # Pods whose template cannot be rebuilt, with the uid of the pod that was reported.
        self._unresolved: dict[NamespacedName, str] = {}
        # Pods whose template the API server rejected: the pod's uid, and when to retry.
        self._rejected: dict[NamespacedName, tuple[str, datetime]] = {}
        # Templates: the checked version, and whether the name matches the content.
        self._checked: dict[NamespacedName, tuple[str, bool]] = {}
        # Pods: the version of the mismatched template that was reported.
        self._warned: dict[NamespacedName, str] = {}
        self._is_first_run = True

    def pod_changed(
        self, before: WatchedObject[WatchedPod] | None, after: WatchedObject[WatchedPod] | None
    ) -> None:
        """Handle a pod event: queue the pod, or forget a deleted pod."""
        if after is not None and _has_owned_template(after.value):
            self._queue.add((after.namespace, after.name))
        elif after is None and before is not None:
            # Also in a replica that does not lead, whose maps would grow forever otherwise.
            key = (before.namespace, before.name)
            self._queue.discard(key)
            self._unresolved.pop(key, None)
            self._rejected.pop(key, None)
            self._warned.pop(key, None)

    def template_changed(
        self,
        before: WatchedObject[PartialObject] | None,
        after: WatchedObject[PartialObject] | None,
    ) -> None:
        """Handle a template event: queue the pods that refer to the template."""
        template = after or before
        if template is None or not has_owned_name(template.name):
            return
        if after is None:
            self._checked.pop((template.namespace, template.name), None)
        for pod in self._pods.all(template.namespace):
            if template.name in pod.value.template_names:
                self._queue.add((pod.namespace, pod.name))

    def facts_changed(self) -> None:
        """Queue the unresolved pods, because new facts may produce their templates."""
        self._queue.update(self._unresolved)

    async def reconcile(self) -> None:
        """Process the queue; pods that failed on API errors stay queued."""
        if self._is_first_run:
            self._queue.update((pod.namespace, pod.name) for pod in self._pods.all())
            self._is_first_run = False
        now = self._now()
        self._queue.update(key for key, (_, retry_at) in self._rejected.items() if retry_at <= now)
        try:
            await process_each(sorted(self._queue), self._process_pod)
        finally:
            count = len(self._unresolved) + len(self._rejected)
            self._reporter.set_gauge(Gauge.PODS_WITHOUT_TEMPLATE, count)

    async def _process_pod(self, key: NamespacedName) -> None:
        """Ensure the templates of one pod; the pod stays queued if this raises."""
        pod = self._pods.get(key[1], key[0])
        if pod is not None and _is_pending(pod.value) and not self._must_wait(key, pod):
            try:
                await self._ensure_templates(key, pod)
            except Exception as error:
                if not is_rejected(error, 400, 403, 404, 422):
                    raise
                self._postpone(key, pod, error)
            else:
                self._rejected.pop(key, None)
        self._queue.discard(key)

    def _must_wait(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> bool:
        """Whether the API server rejected a template of this pod a moment ago."""
        uid, retry_at = self._rejected.get(key, ("", None))
        return retry_at is not None and uid == pod.uid and self._now() < retry_at

    def _postpone(
        self, key: NamespacedName, pod: WatchedObject[WatchedPod], error: Exception
    ) -> None:
        """Report a rejection once for each pod, and schedule the retry."""
        names = " and ".join(name for name in pod.value.template_names if has_owned_name(name))
        if self._rejected.get(key, ("",))[0] != pod.uid:
            self._report(build_refused_finding(names, f"{error}"), pod, "refused")
        self._rejected[key] = (pod.uid, self._now() + _RETRY_AFTER)

    async def _ensure_templates(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> None:
        names = [name for name in pod.value.template_names if has_owned_name(name)]
        stored = {name: self._templates.get(name, pod.namespace) for name in names}
        for template in stored.values():
            if template is not None:
                self._check_content(template, key, pod)
        missing = frozenset(name for name, template in stored.items() if template is None)
        if not missing:
            self._unresolved.pop(key, None)
            return
        raw = msgspec.json.decode(pod.raw)
        rebuilt = rebuild_templates(raw, pod.namespace, missing, self._contexts(pod.value))
        dropped = [each for one in rebuilt if (each := await self._create(one, pod.namespace))]
        if rebuilt and not dropped:
            self._unresolved.pop(key, None)
        elif self._unresolved.get(key) != pod.uid:
            # Before the first facts the result is not final, so the pod is not yet reported.
            self._unresolved[key] = pod.uid if self._context() is not None else ""
            for finding in dropped:
                self._report(finding, pod, "dropped")
            if not rebuilt and self._unresolved[key]:
                self._report(_describe_unknown(pod.value, missing), pod, "unknown")

    def _contexts(self, pod: WatchedPod) -> Iterator[TranslationContext]:
        """Yield the contexts to try: the pod's noted facts, the current facts, and no facts."""
        current = self._context()
        noted = (pod.metadata.annotations or {}).get(FACTS_ANNOTATION, "")
        if current is None:
            return
        facts = self._find_facts(noted) if noted else None
        if facts is not None and noted != current.facts_digest:
            yield TranslationContext(current.configuration, facts, noted)
        yield current
        if not noted:
            yield TranslationContext(current.configuration)

    async def _create(self, template: ClaimTemplate, namespace: str) -> Finding | None:
        """Create a template, unless the API server would drop a field and so grant more."""
        value = build_object(template, namespace, self._now())
        try:
            if may_be_dropped(template):
                response = await self._store.create(value, namespace, dry_run=True)
                if (dropped := find_dropped_field(response, template)) is not None:
                    return dropped
            await self._store.create(value, namespace)
        except Exception as error:
            # Another client created it first; the watch event triggers the content check.
            if not is_rejected(error, 409):
                raise
            return None
        self._reporter.count(NAME, "made")
        return None

    def _check_content(
        self,
        template: WatchedObject[PartialObject],
        key: NamespacedName,
        pod: WatchedObject[WatchedPod],
    ) -> None:
        """Report a template whose name is not the hash of its content."""
        at = (template.namespace, template.name)
        version, matches = self._checked.get(at, ("", True))
        if version != template.version:
            matches = name_matches_content(msgspec.json.decode(template.raw))
            self._checked[at] = (template.version, matches)
        if matches or self._warned.get(key) == template.version:
            return
        self._warned[key] = template.version
        message = (
            f"ResourceClaimTemplate {template.namespace}/{template.name} exists with different "
            "content"
        )
        self._report(TEMPLATE_TAKEN.at("spec.resourceClaims", message), pod, "taken")

    def _report(self, finding: Finding, pod: WatchedObject[WatchedPod], event: str) -> None:
        reference = ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
        self._reporter.report(finding, reference, "EnsureTemplate")
        self._reporter.count(NAME, event)


def _has_owned_template(pod: WatchedPod) -> bool:
    return any(has_owned_name(name) for name in pod.template_names)


def _is_pending(pod: WatchedPod) -> bool:
    finished = pod.metadata.deletion_timestamp is not None or pod.status.phase in _FINISHED_PHASES
    return not finished and _has_owned_template(pod)


def _describe_unknown(pod: WatchedPod, missing: frozenset[str]) -> Finding:
    annotations = pod.metadata.annotations or {}
    names = ", ".join(sorted(missing))
    noted = annotations.get(FACTS_ANNOTATION, "")
    origin = f"with facts {noted}" if noted else "without facts"
    reason = (
        f"the pod was translated {origin}, and no known facts produce a template with this name"
    )
    if ORIGINAL_ANNOTATION not in annotations:
        reason = f"the pod does not have the annotation {ORIGINAL_ANNOTATION}"
    message = f"cannot recreate ResourceClaimTemplate {names}: {reason}"
    about = f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
    return TEMPLATE_UNKNOWN.at("spec.resourceClaims", message, object=about)
