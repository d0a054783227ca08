"""A pod as dialects look at it: containers with the devices they ask for, annotations, labels.

Takes any plain value and never raises; what cannot be read becomes a finding. Applies the renames
of the configuration, so that dialects see known names only. Knows no dialect.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import cast

import msgspec
from msgspec.structs import replace

from config.model import Legacy
from documents.paths import Path, show
from documents.values import Value, same
from dra.decode_errors import shown
from dra.finding import Finding
from dra.quantity import QuantityError, from_json
from translate.legacy.asks import Role, Trace, User
from translate.legacy.codes import (
    AMOUNT_UNREADABLE,
    AMOUNTS_DISAGREE,
    REQUESTS_CONTRADICT,
    REQUESTS_ONLY,
)

_ANNOTATIONS: Path = ("metadata", "annotations")
_LABELS: Path = ("metadata", "labels")
_LONGEST = 80  # what a message shows of a text
_DIGITS = 19  # shorter numbers are below 2**63
# Names in Kubernetes' own domain that are devices all the same, by Koordinator's first proposal.
_FIRST_PROPOSAL = ("kubernetes.io/gpu", "kubernetes.io/rdma")


class Resource(msgspec.Struct, frozen=True):
    """One device resource of one container, with an amount above zero."""

    name: str  # as dialects know it
    written: str
    amount: int
    text: str  # as the pod says it, for messages and for rules about suffixes
    holder: Path  # the container
    places: tuple[tuple[str, Value], ...]  # ("limits", value), ("requests", value)

    @property
    def where(self) -> str:
        """The path for findings."""
        return show((*self.holder, "resources", self.places[0][0], self.written))

    def traces(self, *, removed: bool = True, asks: tuple[str, ...] = ()) -> tuple[Trace, ...]:
        """Say what becomes of it."""
        return tuple(
            [
                Trace((*self.holder, "resources", part), self.written, value, removed, asks=asks)
                for part, value in self.places
            ]
        )


class Container(msgspec.Struct, frozen=True):
    """A container and its device resources by known name."""

    user: User
    resources: Mapping[str, Resource]
    zeros: Mapping[str, Resource]  # written with an amount of none, which mostly means nothing
    raw: Mapping[str, Value]

    @property
    def where(self) -> str:
        """The path for findings."""
        return show(self.user.path)


class PodView(msgspec.Struct, frozen=True):
    """What dialects see of a pod; `findings` are those of looking at it."""

    containers: tuple[Container, ...]
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    spec: Mapping[str, Value]
    metadata: Mapping[str, Value]
    findings: tuple[Finding, ...] = ()
    readable: bool = True  # every device amount could be read

    @property
    def scheduler(self) -> str:
        """The scheduler by name; empty for the default one."""
        name = self.spec.get("schedulerName")
        return name if isinstance(name, str) and name != "default-scheduler" else ""

    def annotation(self, key: str, *, removed: bool = True, asks: tuple[str, ...] = ()) -> Trace:
        """Say what becomes of an annotation."""
        return Trace(_ANNOTATIONS, key, _at(self.metadata, "annotations", key), removed, asks=asks)

    def label(self, key: str, *, removed: bool = True, asks: tuple[str, ...] = ()) -> Trace:
        """Say what becomes of a label."""
        return Trace(_LABELS, key, _at(self.metadata, "labels", key), removed, asks=asks)

    def words(self) -> set[str]:
        """What may call a dialect: its scheduler; resources, annotations, labels, and domains."""
        found = {self.scheduler}
        for names in (self.annotations, self.labels, *[one.resources for one in self.containers]):
            for name in names:
                found.add(name)
                found.add(name.partition("/")[0])
        return found

    def without(self, traces: Collection[Trace]) -> "PodView":
        """Return the pod without the resources that a dialect has read."""
        read = {(trace.path[:-2], trace.name) for trace in traces if "resources" in trace.path}
        if not read:
            return self
        rest = []
        for one in self.containers:
            left = {n: r for n, r in one.resources.items() if (r.holder, r.written) not in read}
            rest.append(Container(one.user, left, one.zeros, one.raw))
        return replace(self, containers=tuple(rest))


def annotation_path(key: str) -> str:
    """The path of an annotation for findings."""
    return show((*_ANNOTATIONS, key))


def label_path(key: str) -> str:
    """The path of a label for findings."""
    return show((*_LABELS, key))


def view(pod: Value, legacy: Legacy) -> PodView:
    """Look at a pod, or at a pod template."""
    whole = mapping(pod)
    metadata, spec = mapping(whole.get("metadata")), mapping(whole.get("spec"))
    findings: list[Finding] = []
    containers = []
    readable = True
    for path, raw, role in _containers(spec):
        name = raw.get("name")
        user = User(path, name if isinstance(name, str) else "", role)
        container, found, fine = _container(user, raw, legacy)
        readable = readable and fine
        findings += found
        containers.append(container)
    return PodView(
        tuple(containers),
        _texts(metadata.get("annotations")),
        _texts(metadata.get("labels")),
        spec,
        metadata,
        tuple(findings),
        readable,
    )


def mapping(value: Value) -> Mapping[str, Value]:
    """Return the value if it is a map, else an empty one: `requests:` alone is null."""
    return value if isinstance(value, dict) else {}


def items(value: Value) -> list[Value]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Value) -> str:
    """Write a value as a pod has it; what is long or deep is written in a few words."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
    return shown(value)


def _at(metadata: Mapping[str, Value], part: str, key: str) -> Value:
    return mapping(metadata.get(part)).get(key)


def _texts(value: Value) -> dict[str, str]:
    """Read a map of texts; an unquoted `true` or number stands for the text it looks like."""
    texts = {}
    for key, item in mapping(value).items():
        if isinstance(item, str):
            texts[key] = item
        elif isinstance(item, bool):
            texts[key] = str(item).lower()
        elif isinstance(item, int | float):
            texts[key] = text(item)
    return texts


def _containers(spec: Mapping[str, Value]) -> Iterator[tuple[Path, Mapping[str, Value], Role]]:
    for i, raw in enumerate(items(spec.get("initContainers"))):
        if isinstance(raw, dict):
            role = Role.SIDECAR if raw.get("restartPolicy") == "Always" else Role.INIT
            yield ("spec", "initContainers", i), raw, role
    for i, raw in enumerate(items(spec.get("containers"))):
        if isinstance(raw, dict):
            yield ("spec", "containers", i), raw, Role.APP


def is_device(name: str) -> bool:
    """Tell device resources from those that Kubernetes itself counts."""
    if "/" not in name or name.startswith(("requests.", "limits.", "hugepages-")):
        return False
    return "kubernetes.io/" not in name or name.startswith(_FIRST_PROPOSAL)


def _container(
    user: User, raw: Mapping[str, Value], legacy: Legacy
) -> tuple[Container, list[Finding], bool]:
    resources = mapping(raw.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    renames = cast("Mapping[str, str]", legacy.renames)
    known: dict[str, Resource] = {}
    zeros: dict[str, Resource] = {}
    findings: list[Finding] = []
    readable = True
    for written in {**limits, **requests}:
        if not is_device(written):
            continue
        places = _places(written, limits, requests)
        said = places[0][1]
        amount = other = _amount(said)
        # Mostly the request is the limit, written twice.
        if len(places) > 1 and not same(places[1][1], said):
            other = _amount(places[1][1])
        name = renames.get(written, written)
        most = max(amount or 0, other or 0)
        one = Resource(name, written, most, text(said), user.path, places)
        if amount is None or other is None:
            readable = False
            findings.append(_unreadable(one))
        if amount != other or places[0][0] == "requests" or name in known:
            findings += _odd(one, amount, other, known.get(name))
        (known if most else zeros)[name] = one
    return Container(user, known, zeros, raw), findings, readable


def _places(
    written: str, limits: Mapping[str, Value], requests: Mapping[str, Value]
) -> tuple[tuple[str, Value], ...]:
    if written not in requests:
        return (("limits", limits[written]),)
    if written not in limits:
        return (("requests", requests[written]),)
    return ("limits", limits[written]), ("requests", requests[written])


def _unreadable(one: Resource) -> Finding:
    written = ", ".join([text(value) or "the empty text" for _, value in one.places])
    return AMOUNT_UNREADABLE.at(
        one.where, f"{one.written} is {written}, where a whole number from 0 on is needed"
    )


def _odd(
    one: Resource, amount: int | None, other: int | None, before: Resource | None
) -> Iterator[Finding]:
    if amount is not None and other is not None and amount != other:
        yield AMOUNTS_DISAGREE.at(
            show((*one.holder, "resources")),
            f"{one.written} has limit {one.text} and request {text(one.places[1][1])}",
        )
    if one.places[0][0] == "requests" and amount:
        yield REQUESTS_ONLY.at(one.where, f"there is no limit of {one.written}; the request counts")
    if before is not None and (amount or other):
        yield REQUESTS_CONTRADICT.at(
            one.where, f"{one.written} and {before.written} are names of the same resource"
        )


def _amount(value: Value) -> int | None:
    """Read the amount of a device: null and zero are none; None where it is no whole number."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < _DIGITS:
        return int(value)
    try:
        quantity = from_json(value)
    except QuantityError:
        return None
    whole = quantity.whole()
    return whole if whole is not None and 0 <= whole < 2**63 else None
