"""Reports generated claims that lack what the template of their pod says.

The name of a template is the hash of its content. kube-controller-manager makes the claim, perhaps
through an API server that drops a field which the one of the webhook keeps, and a policy can change
claims. Without its capacity, a request for a part of a device takes the whole device.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from controller.device_users import WatchedClaim
from controller.fair_queue import FairQueue, NamespacedName
from controller.protocols import (
    ObjectCache,
    ObjectReference,
    Reporter,
    Unstructured,
    WatchedObject,
)
from controller.reconcile import process_each
from controller.watched_objects import PartialObject
from drawbridge.agreement.generated_claims import find_lost_field
from drawbridge.agreement.operation_codes import CLAIM_CHANGED
from drawbridge.agreement.owned_templates import has_owned_name, name_matches_content
from drawbridge.bounded_cache import BoundedCache
from drawbridge.documents.values import Value, as_mapping
from drawbridge.foreign_json import decode_foreign
from drawbridge.report.stuck.objects import HangingPod

NAME: Final = "claims"
# The watches of pods and templates can be behind that of claims. Anybody can write a claim that
# names a pod which never comes.
_RUNS: Final = 12
_MOST_COMPARED: Final = 4096
_CLAIMS_PER_STEP: Final = 200


class ClaimStore(Protocol):
    """Reads claims from the API server."""

    def iterate(self, namespace: str = "", *, fields: str = "") -> AsyncIterator[Unstructured]:
        """Yield the claims of a namespace that match a field selector."""


class ChangedClaimReconciler:
    """Compares each claim with its template once, when it is first seen."""

    name = NAME

    def __init__(
        self,
        claims: ObjectCache[WatchedClaim],
        pods: ObjectCache[HangingPod],
        templates: ObjectCache[PartialObject],
        store: ClaimStore,
        reporter: Reporter,
    ) -> None:
        self._claims, self._pods, self._templates = claims, pods, templates
        self._store = store
        self._reporter = reporter
        # How many runs a claim that was not compared yet can still wait for its pod and template.
        self._left: dict[NamespacedName, int] = {}
        self._queue = FairQueue()
        self._is_first_run = True
        # The field that contents of claims lack of a template, by the names of both.
        self._lost: BoundedCache[tuple[str, str], str] = BoundedCache(_MOST_COMPARED)

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
        """Compare the claims that were not compared yet."""
        if self._is_first_run:
            for number, claim in enumerate(tuple(self._claims.all()), 1):
                self.claim_changed(None, claim)
                if number % _CLAIMS_PER_STEP == 0:
                    await asyncio.sleep(0)  # others run
            self._is_first_run = False
        self._queue.update(self._left)
        await process_each(self._queue.drain(), self._process)

    async def _process(self, key: NamespacedName) -> None:
        if key not in self._left:
            return
        began = time.monotonic()
        is_compared = await self._compare(key)
        self._queue.note_turn(key[0], time.monotonic() - began)
        left = self._left.get(key, 0) - 1
        if is_compared or left <= 0:
            self._left.pop(key, None)
        else:
            self._left[key] = left

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
        if not has_owned_name(named) or named == claim.value.template:
            return True
        template = self._templates.get(named, namespace)
        if template is None:
            return False
        stored: Value = decode_foreign(msgspec.json.decode, template.raw)[1]
        # What another client has put there is reported as TemplateTaken.
        field = await self._find_lost(claim, named, stored) if name_matches_content(stored) else ""
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
        self, claim: WatchedObject[WatchedClaim], named: str, stored: Value
    ) -> str:
        """Return the field that a claim lacks; claims of one content are read once."""
        key = named, claim.value.template
        field = self._lost.get(key)
        if field is None:
            selector = f"metadata.name={claim.name}"
            async for live in self._store.iterate(claim.namespace, fields=selector):
                if live["metadata"]["uid"] == claim.uid:
                    field = find_lost_field(as_mapping(stored), live)
                    self._lost.put(key, field)
        return field or ""


def _find_template(pod: HangingPod, entry: str) -> str:
    """Return the template that an entry of a pod names; empty without one."""
    entries = (each for each in pod.spec.resource_claims or () if each.name == entry)
    return next((each.resource_claim_template_name or "" for each in entries), "")
