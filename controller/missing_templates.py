"""Recreates ResourceClaimTemplates that pending pods refer to but that do not exist.

Admission may have failed to create a template, or someone deleted it. The reconciler restores the
pod's original request, translates it again and creates a template only if its name is the one that
the pod refers to, and only for a pod that admission would translate now, and would not refuse by a
policy or a device quota. Any client can write annotations, so nothing else in them is trusted.
"""

import asyncio
import contextlib
import math
import pickle
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from controller.admission_scope import AdmissionScope
from controller.fair_queue import FairQueue, NamespacedName
from controller.pod_templates import (
    check_content,
    describe_missing,
    describe_pod,
    describe_unfinished,
    list_contexts,
    rebuild_templates,
)
from controller.protocols import (
    Gauge,
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    Unstructured,
    WallClock,
    WatchedObject,
)
from controller.reconcile import process_each
from controller.steps import iterate_in_steps
from controller.template_use import is_created_ahead
from controller.template_users import TemplateUsers
from controller.watched_objects import PartialObject, WatchedPod
from drawbridge.agreement.admission_codes import (
    CLAIM_FIELD_DROPPED,
    TEMPLATE_CHANGED,
    TEMPLATE_TAKEN,
)
from drawbridge.agreement.operation_codes import TEMPLATE_NOT_REPRODUCED, TEMPLATE_OUT_OF_SCOPE
from drawbridge.agreement.owned_templates import has_owned_name
from drawbridge.agreement.template_objects import (
    build_object,
    build_refused_finding,
    find_changed_field,
    format_time,
)
from drawbridge.api_error import ApiError
from drawbridge.brief import BriefRuns, CutShort
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.ledger.pods import FINISHED
from drawbridge.names import USED_ANNOTATION
from drawbridge.process.forked import (
    ForkEndedError,
    ForkKilledError,
    ForkLimits,
    ForkRefusedError,
    ForkSlowError,
    run_forked,
)
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext

NAME: Final = "templates"
# No watch event shows that a quota has free capacity again or that a policy changed.
_RETRY_SECONDS: Final = 5.0
_PAUSE_FACTOR: Final = 5
# After so many copies that were killed, the pod counts as the reason.
_MAX_KILLED: Final = 20
# Who applies a translated manifest can create the templates after the workload and its pods, and
# `kubectl apply` fails if they exist by then.
_GRACE_SECONDS: Final = 3.0
# The reconciler's counter of each finding about a pod that waits.
_EVENTS: Final = {
    CLAIM_FIELD_DROPPED.name: "dropped",
    TEMPLATE_CHANGED.name: "changed",
    TEMPLATE_OUT_OF_SCOPE.name: "out-of-scope",
    TEMPLATE_NOT_REPRODUCED.name: "unknown",
}
# What the API server did to a template, which can end at any time as a rejection does.
_OF_THE_SERVER: Final = (CLAIM_FIELD_DROPPED.name, TEMPLATE_CHANGED.name)
_MAX_ERROR: Final = 200  # characters; a tenant may write what it quotes
# The time of a pod in a namespace whose pods take long. An ordinary one takes less.
LEAST_SECONDS: Final = 0.005
# A tenant determines the size of a pod and what restoring it costs.
_COPY_LIMITS: Final = ForkLimits(seconds=10.0, cpu_seconds=2, more_bytes=256 << 20)


class _Unresolved(NamedTuple):
    """A pod without its templates: the uid of the pod, and the codes that were reported."""

    uid: str
    reported: tuple[str, ...] = ()


class _CheckedTemplate(NamedTuple):
    """The checked version of a template, and whether its name matches its content."""

    version: str
    matches: bool


class MissingTemplateReconciler:
    """Checks pods without a node when they, their templates or the facts change."""

    name = NAME

    def __init__(  # noqa: PLR0913  # its caches, its store and its inputs
        self,
        pods: ObjectCache[WatchedPod],
        templates: ObjectCache[PartialObject],
        store: ObjectStore,
        *,
        scope: AdmissionScope,
        context: Callable[[], TranslationContext | None],
        find_facts: Callable[[str], Facts | None],
        reporter: Reporter,
        now: WallClock,
        briefs: BriefRuns,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._briefs = briefs
        self._elapsed = elapsed
        self._pods = pods
        self._templates = templates
        self._store = store
        self._scope = scope
        self._context = context
        self._find_facts = find_facts
        self._reporter = reporter
        self._now = now
        self._queue = FairQueue()
        self._users = TemplateUsers()
        # Pods whose templates cannot be created now.
        self._unresolved: dict[NamespacedName, _Unresolved] = {}
        # Pods whose template the API server rejected: the pod's uid, and when to retry.
        self._rejected: dict[NamespacedName, tuple[str, float]] = {}
        # Pods whose templates their client may still create: the pod's uid, and until when.
        self._early: dict[NamespacedName, tuple[str, float]] = {}
        # Pods whose templates were created, and that no watch has shown: a restore of etcd can take
        # them back before that. Also those that the machine has no room for now, or whose templates
        # the API server would change, which no event ends. The pod's uid, and when to look again.
        self._later: dict[NamespacedName, tuple[str, float]] = {}
        # Pods whose copies were killed: the pod's uid, and how many.
        self._killed: dict[NamespacedName, tuple[str, int]] = {}
        self._checked: dict[NamespacedName, _CheckedTemplate] = {}
        # Pods: the version of the mismatched template that was reported.
        self._warned: dict[NamespacedName, str] = {}
        self._is_first_run = True

    def pod_changed(
        self, before: WatchedObject[WatchedPod] | None, after: WatchedObject[WatchedPod] | None
    ) -> None:
        """Handle a pod event: queue the pod, or forget a deleted pod."""
        self._users.update(before, after)
        if after is not None and after.value.owned_templates:
            self._queue.add((after.namespace, after.name))
        elif after is None and before is not None:
            self._forget((before.namespace, before.name))

    def template_changed(
        self,
        before: WatchedObject[PartialObject] | None,
        after: WatchedObject[PartialObject] | None,
    ) -> None:
        """Handle a template event: queue the pods that refer to the template."""
        template = after or before
        if template is None or not has_owned_name(template.name):
            return
        users = self._users.find(template.namespace, template.name)
        if after is None:
            self._checked.pop((template.namespace, template.name), None)
            for key in users:
                # It was there, so nobody is about to create it.
                self._later.pop(key, None)
                if (pod := self._pods.get(key[1], key[0])) is not None:
                    self._early[key] = (pod.uid, math.inf)
        self._queue.update(users)

    def namespace_changed(
        self,
        before: WatchedObject[PartialObject] | None,
        after: WatchedObject[PartialObject] | None,
    ) -> None:
        """Handle a namespace event: queue its unresolved pods, which may be in scope now."""
        namespace = after or before
        if namespace is not None:
            self._queue.update(key for key in self._unresolved if key[0] == namespace.name)

    def queue_unresolved(self) -> None:
        """Queue the unresolved pods, because new facts or a new scope may resolve them."""
        self._queue.update(self._unresolved)
        for key in self._unresolved:
            self._later.pop(key, None)

    async def reconcile(self) -> None:
        """Process the queue; pods that failed on API errors stay queued."""
        if self._is_first_run:
            await self._queue_all()
            self._is_first_run = False
        now = self._elapsed()
        waiting = (*self._rejected.items(), *self._early.items(), *self._later.items())
        self._queue.update(key for key, (_, until) in waiting if until <= now)
        failed: dict[NamespacedName, None] = {}

        async def process(key: NamespacedName) -> None:
            failed[key] = None
            began = self._elapsed()
            try:
                await self._process_pod(key)
                del failed[key]
            finally:
                took = self._elapsed() - began
                self._queue.note_turn(key[0], took, failed=key in failed)

        try:
            await process_each(self._queue.drain(), process)
        finally:
            self._queue.update(failed)
            count = len({*self._unresolved, *self._rejected, *self._early})
            self._reporter.set_gauge(Gauge.PODS_WITHOUT_TEMPLATE, count)

    async def _queue_all(self) -> None:
        """Queue the pods from before the term, as they are when it is their turn."""
        async for pod in iterate_in_steps(tuple(self._pods.all())):
            self.pod_changed(None, self._pods.get(pod.name, pod.namespace))

    async def _process_pod(self, key: NamespacedName) -> None:
        """Ensure the templates of one pod; the pod is queued again if this raises."""
        pod = self._pods.get(key[1], key[0])
        if pod is None or not _is_pending(pod.value):
            self._forget(key)
        elif not self._must_wait(key, pod):
            try:
                await self._ensure_templates(key, pod)
            except ApiError as error:
                if error.code not in (400, 403, 404, 422):
                    raise
                self._postpone(key, pod, error)
            else:
                self._rejected.pop(key, None)
            if self._pods.get(key[1], key[0]) is None:
                self._forget(key)  # it was deleted meanwhile

    def _forget(self, key: NamespacedName) -> None:
        self._queue.discard(key)
        self._unresolved.pop(key, None)
        self._rejected.pop(key, None)
        self._early.pop(key, None)
        self._later.pop(key, None)
        self._killed.pop(key, None)
        self._warned.pop(key, None)

    def _must_wait(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> bool:
        """Whether the API server rejected a template of this pod a moment ago."""
        uid, retry_at = self._rejected.get(key, ("", 0.0))
        return uid == pod.uid and self._elapsed() < retry_at

    def _postpone(
        self, key: NamespacedName, pod: WatchedObject[WatchedPod], error: Exception
    ) -> None:
        """Report a rejection once for each pod, and schedule the retry."""
        if self._rejected.get(key, ("",))[0] != pod.uid:
            name = pod.value.owned_templates[0]
            self._report(build_refused_finding(name, f"{error}"), pod, "refused")
        self._rejected[key] = (pod.uid, self._elapsed() + _RETRY_SECONDS)

    async def _ensure_templates(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> None:
        names = pod.value.owned_templates
        stored = {name: self._templates.get(name, pod.namespace) for name in names}
        missing = frozenset(name for name, template in stored.items() if template is None)
        if not (included := self._scope.includes(pod.value.metadata)):
            self._later.pop(key, None)
            if missing and included is not None and self._is_early(key, pod):
                return
            findings = None if included is None else _describe_scope(pod.value, missing)
            self._set_unresolved(key, pod, findings if missing else ())
            # An event shows that it is in scope again, and its time begins anew.
            self._early.pop(key, None)
            return
        work = [partial(self._check_template, each, key, pod) for each in stored.values() if each]
        # A use that cannot be recorded does not leave the pod without its other templates.
        await process_each((partial(self._ensure, key, pod, missing), *work), lambda part: part())

    async def _ensure(
        self, key: NamespacedName, pod: WatchedObject[WatchedPod], missing: frozenset[str]
    ) -> None:
        if missing and self._is_early(key, pod):
            return
        began = self._elapsed()
        if missing:
            # What ends its reason to wait meanwhile queues it again.
            self._unresolved[key] = self._find_unresolved(key, pod)
        findings = await self._create_missing(pod, missing) if missing else ()
        if findings == ():
            self._early.pop(key, None)
        if missing and all(each.code in _OF_THE_SERVER for each in findings or ()):
            ended = self._elapsed()
            # Pods that take long leave the most time to others.
            pause = _RETRY_SECONDS + _PAUSE_FACTOR * (ended - began)
            self._later[key] = (pod.uid, ended + pause)
        else:
            self._later.pop(key, None)
        self._set_unresolved(key, pod, findings)

    def _is_early(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> bool:
        """Whether others may still create the templates of a pod, or it has to wait."""
        uid, until = self._later.get(key, ("", 0.0))
        if uid == pod.uid:
            return self._elapsed() < until
        uid, until = self._early.get(key, ("", 0.0))
        if uid != pod.uid:
            until = self._elapsed() + _GRACE_SECONDS
        elif until <= self._elapsed():
            until = math.inf  # its time has passed, and nothing is due any more
        self._early[key] = (pod.uid, until)
        return until < math.inf

    async def _create_missing(
        self, pod: WatchedObject[WatchedPod], missing: frozenset[str]
    ) -> tuple[Finding, ...] | None:
        """Create the missing templates; returns findings if not possible, None if not known yet."""
        current = self._context()
        if current is None:
            return None
        try:
            rebuilt = await self._rebuild(pod, missing, current)
        except (ForkRefusedError, ForkSlowError):
            return None
        except ForkEndedError as limit:
            return (describe_unfinished(pod.value, missing, f"{limit}"),)
        except Exception as error:  # noqa: BLE001  # a pod with a trap must not fail the run
            self._reporter.report_bug(NAME, error)
            *_, last = "".join(traceback.format_exception_only(error)).strip().splitlines()
            return (describe_unfinished(pod.value, missing, last[:_MAX_ERROR]),)
        if isinstance(rebuilt, Finding):
            return (rebuilt,)
        problems = [await self._create(one, pod.namespace) for one in rebuilt]
        return tuple(filter(None, problems))

    async def _rebuild(
        self, pod: WatchedObject[WatchedPod], missing: frozenset[str], current: TranslationContext
    ) -> tuple[ClaimTemplate, ...] | Finding:
        """Rebuild the templates of a pod, in a copy of this process if that takes long.

        Raise ForkEndedError if it reaches a limit there, and the other errors of copies.
        """
        placement = self._scope.placement(pod.namespace)
        admin_access = self._scope.allows_admin_access(pod.namespace)
        quotas = self._scope.quotas(pod.namespace)

        def rebuild() -> tuple[ClaimTemplate, ...] | Finding:
            contexts = list_contexts(pod.value, current, self._find_facts, placement)
            return rebuild_templates(pod, missing, contexts, quotas, admin_access=admin_access)

        with contextlib.suppress(CutShort):
            return self._briefs.run(pod.namespace, rebuild)
        try:
            pickled = await run_forked(lambda: pickle.dumps(rebuild()), _COPY_LIMITS)
        except ForkKilledError as error:
            if self._was_killed_often(pod):
                raise ForkEndedError(f"{error}") from None
            raise
        rebuilt: tuple[ClaimTemplate, ...] | Finding = pickle.loads(pickled)  # noqa: S301  # our own
        return rebuilt

    def _was_killed_often(self, pod: WatchedObject[WatchedPod]) -> bool:
        """Count a copy that was killed; return whether these were too many, which are forgotten."""
        key = pod.namespace, pod.name
        uid, killed = self._killed.pop(key, ("", 0))
        killed = killed + 1 if uid == pod.uid else 1
        if killed < _MAX_KILLED:
            self._killed[key] = (pod.uid, killed)
        return killed >= _MAX_KILLED

    def _set_unresolved(
        self,
        key: NamespacedName,
        pod: WatchedObject[WatchedPod],
        findings: tuple[Finding, ...] | None,
    ) -> None:
        """Note whether the pod still waits, and report each kind of finding once for each pod."""
        if findings == ():
            self._unresolved.pop(key, None)
            return
        reported = self._find_unresolved(key, pod).reported
        new = [each for each in findings or () if each.code not in reported]
        for finding in new:
            self._report(finding, pod, _EVENTS[finding.code])
        codes = dict.fromkeys((*reported, *(each.code for each in new)))
        self._unresolved[key] = _Unresolved(pod.uid, tuple(codes))

    def _find_unresolved(self, key: NamespacedName, pod: WatchedObject[WatchedPod]) -> _Unresolved:
        before = self._unresolved.get(key)
        return before if before is not None and before.uid == pod.uid else _Unresolved(pod.uid)

    async def _create(self, template: ClaimTemplate, namespace: str) -> Finding | None:
        """Create a template, unless it would be stored with other content."""
        value = build_object(template, namespace, self._now())
        try:
            tried = await self._store.create(value, namespace, dry_run=True)
            if (changed := find_changed_field(tried, template)) is not None:
                return changed
            await self._store.create(value, namespace)
        except ApiError as error:
            # Another client created it first; the watch event triggers the content check.
            if error.code != 409:
                raise
            return None
        self._reporter.count(NAME, "made")
        return None

    async def _check_template(
        self,
        template: WatchedObject[PartialObject],
        key: NamespacedName,
        pod: WatchedObject[WatchedPod],
    ) -> None:
        """Record the first use of a template, or report that its name is not its hash."""
        at = (template.namespace, template.name)
        checked = self._checked.get(at)
        if checked is None or checked.version != template.version:
            matches, is_ours = await asyncio.to_thread(check_content, template.raw)
            if is_ours and is_created_ahead(template.value.metadata):
                await self._record_use(template)
            checked = _CheckedTemplate(template.version, matches)
            if self._templates.get(template.name, template.namespace) is not None:
                self._checked[at] = checked
        if checked.matches or self._warned.get(key) == template.version:
            return
        self._warned[key] = template.version
        message = (
            f"ResourceClaimTemplate {template.namespace}/{template.name} exists with different "
            "content"
        )
        self._report(TEMPLATE_TAKEN.at("spec.resourceClaims", message), pod, "taken")

    async def _record_use(self, template: WatchedObject[PartialObject]) -> None:
        annotations = {USED_ANNOTATION: format_time(self._now())}
        change: Unstructured = {"metadata": {"annotations": annotations, "uid": template.uid}}
        try:
            await self._store.merge(template.name, change, template.namespace)
        except ApiError as error:
            if not error.refused:
                raise
            # It was deleted meanwhile, or a policy forbids the change: the pod has its template.
            self._reporter.count(NAME, "use-unrecorded")
            return
        self._reporter.count(NAME, "used")

    def _report(self, finding: Finding, pod: WatchedObject[WatchedPod], event: str) -> None:
        reference = ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
        self._reporter.report(finding, reference, "EnsureTemplate")
        self._reporter.count(NAME, event)


def _is_pending(pod: WatchedPod) -> bool:
    finished = pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED
    return not finished and bool(pod.owned_templates)


def _describe_scope(pod: WatchedPod, missing: frozenset[str]) -> tuple[Finding, ...]:
    message = (
        f"{describe_missing(missing)}: admission does not translate this pod now; namespace "
        f"{pod.metadata.namespace}, its labels, the pod or the configuration changed"
    )
    return (TEMPLATE_OUT_OF_SCOPE.at("spec.resourceClaims", message, object=describe_pod(pod)),)
