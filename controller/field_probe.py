"""Probes which fields of a claim the API server stores, by dry-run creates.

An API server silently drops a field whose feature gate is off. A claim that loses its requested
capacity takes a whole device. The server version only tells the default gates.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, NamedTuple

import msgspec

from controller.new_findings import NewFindings
from controller.protocols import ObjectReference, ObjectStore, Reporter, Unstructured
from controller.reconcile import process_each
from drawbridge.agreement import operation_codes
from drawbridge.api_error import ApiError
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.gates import Gates, gates_of_version, nearest_version
from drawbridge.facts.model import GATE_OF_FIELD, Cluster, observe_gates
from drawbridge.names import PROBE_ANNOTATION, PROBE_TEMPLATE

NAME: Final = "probe"
_REFERENCE: Final = ObjectReference(
    "ResourceClaimTemplate", PROBE_TEMPLATE, api_version="resource.k8s.io/v1"
)
_CLASS: Final = "drawbridge-probe"
_INVALID: Final = 422
# What the API server says if an authorizer refuses a request. It does not see the fields.
_NO_RIGHT: Final = "cannot create resource"
# What it says for a webhook or a ValidatingAdmissionPolicy, which can have any code.
_DENIED: Final = ("denied the request", "denied request")
# A policy that is being replaced can refuse a probe for a moment.
ENOUGH_REFUSALS: Final = 3
# The answers of a run that failed count for so long: two of the longest pauses between runs.
_RUN_SECONDS: Final = 120.0
# While API servers of two versions share an address, each connection can meet another one, so each
# run has a new one. What the last runs have in common, at two a minute, is what both do.
COMPARED_RUNS: Final = 10


class FieldProbe(msgspec.Struct, frozen=True):
    """A claim that uses one field, and the path of that field.

    `known_words`: a rejection with one of these words comes from the validation of the field, so
    the server knows the field. `required`: the claim is invalid without the field, so any other
    rejection means that the server dropped the field.
    """

    devices: Mapping[str, Value]
    path: tuple[str | int, ...]
    known_words: tuple[str, ...] = ()
    required: bool = False


def _exactly(**more: Value) -> list[Value]:
    return [{"name": "probe", "exactly": {"deviceClassName": _CLASS, **more}}]


FIELD_PROBES: Final[Mapping[str, FieldProbe]] = {
    # Admin access needs a labelled namespace; a rejection for that reason proves that the field is
    # known.
    "exactly.adminAccess": FieldProbe(
        {"requests": _exactly(adminAccess=True)},
        ("requests", 0, "exactly", "adminAccess"),
        known_words=("admin access", "adminAccess"),
    ),
    "exactly.capacity": FieldProbe(
        {"requests": _exactly(capacity={"requests": {PROBE_ANNOTATION: "1"}})},
        ("requests", 0, "exactly", "capacity", "requests", PROBE_ANNOTATION),
    ),
    "exactly.tolerations": FieldProbe(
        {"requests": _exactly(tolerations=[{"key": PROBE_ANNOTATION, "operator": "Exists"}])},
        ("requests", 0, "exactly", "tolerations", 0, "key"),
    ),
    "firstAvailable": FieldProbe(
        {
            "requests": [
                {"name": "probe", "firstAvailable": [{"name": "one", "deviceClassName": _CLASS}]}
            ]
        },
        ("requests", 0, "firstAvailable", 0, "name"),
        required=True,
    ),
    "constraints.distinctAttribute": FieldProbe(
        {
            "requests": _exactly(),
            "constraints": [{"requests": ["probe"], "distinctAttribute": PROBE_ANNOTATION}],
        },
        ("constraints", 0, "distinctAttribute"),
        required=True,
    ),
    "exactly.derivedAttributes": FieldProbe(
        {
            "requests": _exactly(derivedAttributes=[{"name": PROBE_ANNOTATION, "expression": "1"}]),
            "constraints": [{"requests": ["probe"], "matchAttribute": PROBE_ANNOTATION}],
        },
        ("requests", 0, "exactly", "derivedAttributes", 0, "name"),
        known_words=("derivedAttributes",),
    ),
}


def probe_template(probe: FieldProbe) -> Unstructured:
    """Build the template for a dry-run create; it is never stored."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": PROBE_TEMPLATE},
        "spec": {"spec": {"devices": dict(probe.devices)}},
    }


def is_field_stored(probe: FieldProbe, response: Unstructured) -> bool:
    """Whether the object that the API server returned still has the field."""
    return get_value(response, ("spec", "spec", "devices", *probe.path)) is not None


def interpret_rejection(probe: FieldProbe, error: ApiError) -> bool | None:
    """Whether a rejection shows that the server stores the field; None if it does not tell.

    Only validation misses a field. Rights, quotas and policies are independent of it, and change.
    """
    if any(word in error.message for word in probe.known_words):
        return True
    is_validation = error.code == _INVALID and not any(word in error.message for word in _DENIED)
    return False if probe.required and is_validation else None


def is_denied(error: ApiError) -> bool:
    """Whether admission refused a probe; a right that is missing refuses all requests alike."""
    return error.refused and _NO_RIGHT not in error.message


def infer_gates(version: str, stored_fields: tuple[str, ...] | None = None) -> tuple[Gates, bool]:
    """Return the default gates of a version, corrected by the fields that the server stores.

    The second value tells whether the version is known; the nearest known version replaces an
    unknown one.
    """
    gates = gates_of_version(version)
    is_known = isinstance(gates, Gates)
    if not isinstance(gates, Gates):
        gates = gates_of_version(nearest_version(version))
    if not isinstance(gates, Gates):
        raise TypeError(f"{version} has no gates")
    if stored_fields is None:
        return gates, is_known
    return observe_gates(gates, stored_fields).with_groups(), is_known


def _rank_version(version: str) -> tuple[str, bool, str]:
    """Return what is least for an old version, and for an unknown one before what replaces it."""
    nearest = nearest_version(version)
    return nearest, version == nearest, version


class ProbedServer(NamedTuple):
    """An API server, and the templates in it that are never stored."""

    templates: ObjectStore
    read_version: Callable[[], Awaitable[str]]


class ServerSupport(msgspec.Struct, frozen=True):
    """The version, stored fields and feature gates of the API server."""

    version: str
    stored_fields: tuple[str, ...]
    gates: Gates


class FieldProbeReconciler:
    """Probes all fields in every run and calls the listener when a result changes.

    It runs often, because an API server that restarts with a disabled gate drops a field that it
    stored before. Until a probe detects this, a pod that requests a part of a device gets a whole
    device. What a server does not store counts at once, and what it stores after some runs. What
    the last leader published counts as a run before the first one.

    A probe that admission refuses says nothing about its field: the last answer goes on to count.
    """

    name = NAME

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[ProbedServer]],
        read_published: Callable[[], Awaitable[Cluster | None]],
        reporter: Reporter,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.support: ServerSupport | None = None
        self.listener: Callable[[], None] = lambda: None
        self._connect = connect
        self._read_published = read_published
        self._reporter = reporter
        self._elapsed = elapsed
        self._new_findings = NewFindings(reporter, "Probe")
        # Of the last runs; a run that failed goes on in the next one.
        self._versions: deque[str] = deque(maxlen=COMPARED_RUNS)
        self._answers: dict[str, deque[bool]] = {}
        # Since the last answer of a probe: how often it was refused, and why.
        self._refusals: dict[str, tuple[int, str]] = {}
        # What the run has still to probe, because an API server can fail often.
        self._left: set[str] = set()
        self._began = 0.0
        self._probed = asyncio.Event()

    async def wait_for_support(self) -> ServerSupport:
        """Wait for the first probe, and return the latest result."""
        await self._probed.wait()
        if self.support is None:
            raise AssertionError
        return self.support

    async def reconcile(self) -> None:
        """Probe all fields, or those that a failed run left; propagates API errors at the end."""
        if not self._versions:
            self._begin(await self._read_published())
        async with self._connect() as server:
            self._note_version(await server.read_version())
            probe = partial(self._probe, server.templates)
            try:
                await process_each([name for name in FIELD_PROBES if name in self._left], probe)
            finally:
                self._conclude()

    def _begin(self, published: Cluster | None) -> None:
        """Count what was published as a run; that a field was stored is for a probe to say.

        A field that was dropped turned its gate off. One that is neither stored nor turned its gate
        off was not probed, because another version of Drawbridge published.
        """
        if published is not None:
            self._versions.append(published.version)
            gates = published.feature_gates
            for name in FIELD_PROBES.keys() - set(published.keeps):
                if not getattr(gates, GATE_OF_FIELD[name]):
                    self._answers[name] = deque([False], maxlen=COMPARED_RUNS)

    def _note_version(self, version: str) -> None:
        """Go on with a run that failed lately, or begin one."""
        now = self._elapsed()
        if self._left and now - self._began <= _RUN_SECONDS:
            self._versions[-1] = min(self._versions[-1], version, key=_rank_version)
            return
        self._left, self._began = set(FIELD_PROBES), now
        self._versions.append(version)

    async def _probe(self, templates: ObjectStore, name: str) -> None:
        """Note the answer of one probe; raises what says nothing about the field."""
        probe = FIELD_PROBES[name]
        is_stored: bool | None
        try:
            response = await templates.create(probe_template(probe), dry_run=True)
            is_stored = is_field_stored(probe, response)
        except ApiError as error:
            is_stored = interpret_rejection(probe, error)
            if is_stored is None and not self._note_refusal(name, error):
                raise
        if is_stored is not None:
            self._answers.setdefault(name, deque(maxlen=COMPARED_RUNS)).append(is_stored)
            self._refusals.pop(name, None)
        self._left.discard(name)

    def _note_refusal(self, name: str, error: ApiError) -> bool:
        """Return whether admission has refused a probe so often that no answer is to come."""
        if not is_denied(error):
            return False
        times, _ = self._refusals.get(name, (0, ""))
        self._refusals[name] = times + 1, f"{error}"
        return times + 1 >= ENOUGH_REFUSALS

    def _conclude(self) -> None:
        """Report refusals, and publish what the answers say once each probe has one."""
        findings = [
            operation_codes.PROBE_REFUSED.at(name, f"{name}: {reason}")
            for name, (times, reason) in self._refusals.items()
            if times >= ENOUGH_REFUSALS
        ]
        if self._left and self.support is None:
            self._new_findings.report(dict.fromkeys(findings, _REFERENCE))
            return
        version = min(self._versions, key=_rank_version)
        stored_fields = tuple(sorted(name for name, told in self._answers.items() if all(told)))
        inferred, is_known = infer_gates(version, stored_fields)
        if not is_known:
            message = (
                f"the API server has version {version}, which Drawbridge does not know; assuming "
                f"{inferred.version}"
            )
            findings.append(operation_codes.SERVER_VERSION_UNKNOWN.at("", message))
        self._new_findings.report(dict.fromkeys(findings, _REFERENCE))
        before = self.support
        self.support = ServerSupport(version, stored_fields, inferred)
        self._probed.set()
        if not self._left:
            self._reporter.count(NAME, "probed")
        if self.support != before:
            self.listener()
