"""Reports generated claims that lack what the template of their pod says.

The name of a template is the hash of its content. kube-controller-manager makes the claim, perhaps
through an API server that drops a field which the one of the webhook keeps, and a policy can change
claims. Without its capacity, a request for a part of a device takes the whole device.

Tenants write claims and templates. So large ones are not compared, others in a thread, and claims
of one content once for each version of their template.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from controller.device_users import WatchedClaim
from controller.fair_queue import FairQueue, NamespacedName
from controller.pod_templates import check_content
from controller.protocols import (
    ObjectCache,
    ObjectReference,
    ObjectStore,
    Reporter,
    Unstructured,
    WatchedObject,
)
from controller.reconcile import process_each
from controller.steps import iterate_in_steps
from controller.watched_objects import PartialObject
from drawbridge.agreement.generated_claims import find_lost_field
from drawbridge.agreement.operation_codes import CLAIM_CHANGED
from drawbridge.agreement.owned_templates import LARGEST_TEMPLATE, has_owned_name
from drawbridge.api_error import ApiError
from drawbridge.bounded_cache import BoundedCache
from drawbridge.documents.values import as_mapping
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.report.stuck.objects import HangingPod

NAME: Final = "claims"
# The watches of pods and templates can be behind that of claims. Anybody can write a claim that
# names a pod which never comes.
_RUNS: Final = 12
_MOST_COMPARED: Final = 4096


class ClaimSources(NamedTuple):
    """Claims, the pods and templates that they are for, and whether pods have been listed."""

    claims: ObjectCache[WatchedClaim]
    pods: ObjectCache[HangingPod]
    templates: ObjectCache[PartialObject]
    has_pods: Callable[[], bool]


class ChangedClaimReconciler:
    """Compares each claim with its template once, when it is first seen."""

    name = NAME

    def __init__(self, sources: ClaimSources, store: ObjectStore, reporter: Reporter) -> None:
        self._claims, self._pods, self._templates, self._has_pods = sources
        self._store = store
        self._reporter = reporter
        # How many runs a claim that was not compared yet can still wait for its pod and template.
        self._left: dict[NamespacedName, int] = {}
        self._queue = FairQueue()
        self._is_first_run = True
        # The field that claims lack, by the uid and version of the template and their content.
        self._lost: BoundedCache[tuple[str, str, bytes], str] = BoundedCache(_MOST_COMPARED)

    def claim_changed(
        self,
        before: WatchedObject[WatchedClaim] | None,
        after: WatchedObject[WatchedClaim] | None,
    ) -> None:
        """Note a generated claim that is new, and forget one that is gone."""
        if after is None:
            if before is not None:
                self._left.pop((before.namespace, before.name), None)
        elif after.value.entry and (before is None or before.uid != after.uid):
            self._left[after.namespace, after.name] = _RUNS

    async def reconcile(self) -> None:
        """Compare the claims that were not compared yet, once pods have been listed."""
        if not self._has_pods():
            return
        if self._is_first_run:
            async for claim in iterate_in_steps(tuple(self._claims.all())):
                self.claim_changed(None, claim)
            self._is_first_run = False
        self._queue.update(self._left)
        await process_each(self._queue.drain(), self._process)

    async def _process(self, key: NamespacedName) -> None:
        left = self._left.pop(key, 0)
        if not left:
            return
        began, failed = time.monotonic(), True
        left -= 1
        try:
            if await self._compare(key):
                left = 0
            failed = False
        except (ApiError, OSError):
            left += 1
            raise
        finally:
            self._queue.note_turn(key[0], time.monotonic() - began, failed=failed)
            if left:
                self._left.setdefault(key, left)

    async def _compare(self, key: NamespacedName) -> bool:
        """Compare a claim; return whether its pod and its template were known."""
        namespace, name = key
        claim = self._claims.get(name, namespace)
        if claim is None or claim.value.owner is None or claim.value.owner.kind != "Pod":
            return True
        owner = claim.value.owner
        pod = self._pods.get(owner.name, namespace)
        if pod is None or pod.uid != owner.uid:
            return False
        named = _find_template(pod.value, claim.value.entry)
        if not has_owned_name(named):
            return True
        template = self._templates.get(named, namespace)
        if template is None:
            return False
        compared = template.uid, template.version, claim.value.content
        field = self._lost.get(compared)
        if field is None:
            field = await self._find_lost(claim, template)
            if field is None:
                return True
            self._lost.put(compared, field)
        if field:
            message = (
                f"ResourceClaim {namespace}/{name} does not have {field} as ResourceClaimTemplate "
                f"{named} says"
            )
            reference = ObjectReference("Pod", pod.name, namespace, pod.uid)
            finding = CLAIM_CHANGED.at(field, message)
            self._reporter.report(finding, reference, "CompareClaim")
            self._reporter.count(NAME, "changed")
        return True

    async def _find_lost(
        self, claim: WatchedObject[WatchedClaim], template: WatchedObject[PartialObject]
    ) -> str | None:
        """Return the field that a claim lacks of a template of ours; None if the claim is gone."""
        raw = template.raw
        # What another client has put there is reported as TemplateTaken.
        if len(raw) > LARGEST_TEMPLATE or not (await asyncio.to_thread(check_content, raw))[0]:
            return ""
        selector = f"metadata.name={claim.name}"
        async for live in self._store.iterate(claim.namespace, fields=selector):
            if live["metadata"]["uid"] == claim.uid:
                return await asyncio.to_thread(_compare_content, raw, live)
        return None


def _compare_content(raw: bytes, live: Unstructured) -> str:
    """Return the field that a claim lacks; "" also if both are nested too deep to be compared."""
    try:
        return find_lost_field(as_mapping(msgspec.json.decode(raw)), live)
    except UNDECODABLE:
        return ""


def _find_template(pod: HangingPod, entry: str) -> str:
    """Return the template that an entry of a pod names; empty without one."""
    entries = (each for each in pod.spec.resource_claims or () if each.name == entry)
    return next((each.resource_claim_template_name or "" for each in entries), "")
