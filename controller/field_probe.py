"""Which fields of a claim this API server keeps: it is asked, by creates that are dry runs.

A server drops a field whose feature is off without a word, and a claim without the amount it asked
takes a whole device. A version alone tells only what is usual. Knows nothing of what the fields
are good for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from controller.protocols import About, Object, Store, Told, refused
from documents.paths import get
from documents.values import Value
from dra.finding import Finding
from dra.gates import NEWEST, VERSIONS, Gates, gates
from dra.names import PROBE_ANNOTATION, PROBE_TEMPLATE
from facts.gather import KEPT_BY
from registration import controller_codes

DUTY: Final = "probe"
_CLASS: Final = "drawbridge-probe"


class Trial(msgspec.Struct, frozen=True):
    """A claim that uses one field, and where the field is if it was kept.

    `words`: a refusal with one of these words comes from the rules of the field itself, so the
    server knows it. `needed`: without the field the claim is not valid, so a refusal says that it
    was dropped.
    """

    devices: Mapping[str, Value]
    where: tuple[str | int, ...]
    words: tuple[str, ...] = ()
    needed: bool = False


def _exactly(**more: Value) -> list[Value]:
    return [{"name": "probe", "exactly": {"deviceClassName": _CLASS, **more}}]


TRIALS: Final[Mapping[str, Trial]] = {
    # Only a namespace with a label of its own may ask this; being told so is an answer.
    "exactly.adminAccess": Trial(
        {"requests": _exactly(adminAccess=True)},
        ("requests", 0, "exactly", "adminAccess"),
        words=("admin access", "adminAccess"),
    ),
    "exactly.capacity": Trial(
        {"requests": _exactly(capacity={"requests": {PROBE_ANNOTATION: "1"}})},
        ("requests", 0, "exactly", "capacity", "requests", PROBE_ANNOTATION),
    ),
    "exactly.tolerations": Trial(
        {"requests": _exactly(tolerations=[{"key": PROBE_ANNOTATION, "operator": "Exists"}])},
        ("requests", 0, "exactly", "tolerations", 0, "key"),
    ),
    "firstAvailable": Trial(
        {
            "requests": [
                {"name": "probe", "firstAvailable": [{"name": "one", "deviceClassName": _CLASS}]}
            ]
        },
        ("requests", 0, "firstAvailable", 0, "name"),
        needed=True,
    ),
    "constraints.distinctAttribute": Trial(
        {
            "requests": _exactly(),
            "constraints": [{"requests": ["probe"], "distinctAttribute": PROBE_ANNOTATION}],
        },
        ("constraints", 0, "distinctAttribute"),
        needed=True,
    ),
    "exactly.derivedAttributes": Trial(
        {
            "requests": _exactly(derivedAttributes=[{"name": PROBE_ANNOTATION, "expression": "1"}]),
            "constraints": [{"requests": ["probe"], "matchAttribute": PROBE_ANNOTATION}],
        },
        ("requests", 0, "exactly", "derivedAttributes", 0, "name"),
        words=("derivedAttributes",),
    ),
}


def template(trial: Trial) -> Object:
    """The object to try; it is never stored."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": PROBE_TEMPLATE},
        "spec": {"spec": {"devices": dict(trial.devices)}},
    }


def kept(trial: Trial, answer: Object) -> bool:
    """Whether what came back still has the field."""
    return get(answer, ("spec", "spec", "devices", *trial.where)) is not None


def knows(trial: Trial, message: str) -> bool | None:
    """What a refusal says about the field; None where it says nothing."""
    if any(word in message for word in trial.words):
        return True
    return False if trial.needed else None


def gates_of(version: str, keeps: tuple[str, ...] | None = None) -> tuple[Gates, bool]:
    """The gates of a server: as usual for its version, and as the fields that it keeps show.

    Also tells whether the version is known; for another one the nearest is taken.
    """
    found = gates(version)
    known = isinstance(found, Gates)
    if not isinstance(found, Gates):
        found = gates(VERSIONS[0] if _number(version) < _number(VERSIONS[0]) else NEWEST)
    if not isinstance(found, Gates):
        raise TypeError(f"{NEWEST} has no gates")
    if keeps is None:
        return found, known
    shown: dict[str, bool] = {}
    for field, gate in KEPT_BY.items():
        shown[gate] = shown.get(gate, False) or field in keeps
    return msgspec.structs.replace(found, **shown), known


def _number(version: str) -> tuple[int, ...]:
    parts = version.lstrip("v").split(".")[:2]
    return tuple(int(each) if each.isdigit() else 0 for each in parts)


class Probed(msgspec.Struct, frozen=True):
    """What is known of the API server."""

    version: str
    keeps: tuple[str, ...]
    gates: Gates


class ProbeDuty:
    """Asks with every step; what is found, and what there is to say of it, is told when it is new.

    Often, because a server that comes back with a feature off drops what it kept a moment before,
    and whoever asked for a part of a device would have all of it until somebody notices.
    """

    name = DUTY

    def __init__(self, templates: Store, version: Callable[[], Awaitable[str]], told: Told) -> None:
        self.probed: Probed | None = None
        self.listener: Callable[[], None] = lambda: None
        self._templates = templates
        self._version = version
        self._told = told
        self._findings: tuple[Finding, ...] = ()
        self._answered = asyncio.Event()

    async def known(self) -> Probed:
        """What is known, as soon as anything is."""
        await self._answered.wait()
        if self.probed is None:
            raise AssertionError
        return self.probed

    async def step(self) -> None:
        """Ask; an answer that the world keeps back is an exception."""
        version = await self._version()
        found, findings = [], []
        for name in sorted(TRIALS):
            keeps, finding = await self._keeps(name)
            found += [name] * keeps
            findings += [finding] if finding else []
        known = gates_of(version, tuple(found))
        if not known[1]:
            message = f"the API server is {version}, and {known[0].version} is assumed"
            findings.append(controller_codes.VERSION_UNKNOWN.at("", message))
        self._tell(tuple(findings))
        before, self.probed = self.probed, Probed(version, tuple(found), known[0])
        self._answered.set()
        self._told.count(DUTY, "probed")
        if self.probed != before:
            self.listener()

    async def _keeps(self, name: str) -> tuple[bool, Finding | None]:
        trial = TRIALS[name]
        try:
            return kept(trial, await self._templates.create(template(trial), dry_run=True)), None
        except Exception as error:
            if not refused(error, 400, 403, 422):
                raise
            said = knows(trial, f"{error}")
            # A right or a quota that is missing says nothing about fields, and may come.
            if said is None and not refused(error, 422):
                raise
            untold = (
                controller_codes.PROBE_REFUSED.at(name, f"{name}: {error}")
                if said is None
                else None
            )
            return bool(said), untold

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        about = About("ResourceClaimTemplate", PROBE_TEMPLATE, api_version="resource.k8s.io/v1")
        for finding in findings:
            if finding not in self._findings:
                self._told.say(finding, about, "Probe")
        self._findings = findings
