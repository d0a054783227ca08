"""The view of a pod that dialects read: device resources of containers, annotations, labels.

Accepts any plain value and does not raise. An amount that cannot be parsed becomes a finding.
Applies `legacy.renames` of the configuration, so that dialects see known resource names only.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Legacy
from drawbridge.documents.manifest import describe_placeholder
from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.values import Value, as_list, as_mapping, equal_json
from drawbridge.dra.decode_errors import describe_value
from drawbridge.dra.quantity import format_amount, valid_quantity
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import ContainerRole, DeviceUser, SourceField
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    AMOUNT_UNREADABLE,
    AMOUNTS_DISAGREE,
    LIMIT_MISSING,
    REQUESTS_CONTRADICT,
    REQUESTS_ONLY,
)

# The fields of a pod that this view is built from, which all dialects may read.
READS: Final = frozenset(
    {
        "container.name",
        "container.resources",
        "container.restartPolicy",
        "metadata.annotations",
        "metadata.labels",
        "spec.containers",
        "spec.initContainers",
        "spec.schedulerName",
    }
)
ANNOTATIONS: Path = ("metadata", "annotations")
LABELS: Path = ("metadata", "labels")
_REJECTED: Final = frozenset({AMOUNT_REFUSED.name, AMOUNTS_DISAGREE.name})
_MAX_SHOWN = 80  # characters of a value in a message
_INT64_DIGITS = 19  # shorter numbers are below 2**63
NATIVE: Final = "kubernetes.io/"
# Device names in this domain, from Koordinator's first proposal.
KOORDINATOR_PROPOSAL = ("kubernetes.io/gpu", "kubernetes.io/rdma")


class DeviceResource(msgspec.Struct, frozen=True):
    """One device resource of one container."""

    name: str  # after renames
    original_name: str  # as written in the pod
    amount: int
    amount_text: str  # as written in the pod, for messages and for rules about suffixes
    container: Path
    entries: tuple[tuple[str, Value], ...]  # ("limits", value), ("requests", value)

    @property
    def where(self) -> str:
        """The path for findings."""
        part = self.entries[0][0]
        return format_path((*self.container, "resources", part, self.original_name))

    def source_fields(
        self, *, removed: bool = True, asks: tuple[str, ...] = ()
    ) -> tuple[SourceField, ...]:
        """Return its entries in limits and requests as source fields."""
        return tuple(
            [
                SourceField(
                    (*self.container, "resources", part),
                    self.original_name,
                    value,
                    removed,
                    asks=asks,
                )
                for part, value in self.entries
            ]
        )


class Container(msgspec.Struct, frozen=True):
    """A container and its device resources by name, after renames."""

    user: DeviceUser
    resources: Mapping[str, DeviceResource]
    zeros: Mapping[str, DeviceResource]  # entries with the amount zero
    raw: Mapping[str, Value]

    @property
    def where(self) -> str:
        """The path for findings."""
        return format_path(self.user.path)


class PodView(msgspec.Struct, frozen=True):
    """The parts of a pod that dialects read. `findings` are the problems found while parsing."""

    containers: tuple[Container, ...]
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    spec: Mapping[str, Value]
    metadata: Mapping[str, Value]
    findings: tuple[Finding, ...] = ()
    readable: bool = True  # every device amount was parsed

    @property
    def scheduler(self) -> str:
        """The name of the scheduler. Empty for the default scheduler."""
        name = self.spec.get("schedulerName")
        return name if isinstance(name, str) and name != "default-scheduler" else ""

    def metadata_field(
        self, path: Path, key: str, *, removed: bool, asks: tuple[str, ...]
    ) -> SourceField:
        """Return a label or an annotation as a source field."""
        value = as_mapping(self.metadata.get(f"{path[-1]}")).get(key)
        return SourceField(path, key, value, removed, asks=asks)

    def triggers(self) -> set[str]:
        """Return everything that can trigger a dialect.

        This is the scheduler name and the names and domains of resources, annotations and labels.
        """
        words = {self.scheduler}
        for names in (self.annotations, self.labels, *[one.resources for one in self.containers]):
            for name in names:
                words.add(name)
                words.add(name.partition("/")[0])
        return words

    def without(self, source_fields: Collection[SourceField]) -> "PodView":
        """Return the pod without the resources among these source fields."""
        read = {
            (field.path[:-2], field.name) for field in source_fields if "resources" in field.path
        }
        if not read:
            return self
        containers = []
        for container in self.containers:
            left = {
                name: resource
                for name, resource in container.resources.items()
                if (resource.container, resource.original_name) not in read
            }
            containers.append(Container(container.user, left, container.zeros, container.raw))
        return replace(self, containers=tuple(containers))


def annotation_path(key: str) -> str:
    """Return the path of an annotation for findings."""
    return format_path((*ANNOTATIONS, key))


def label_path(key: str) -> str:
    """Return the path of a label for findings."""
    return format_path((*LABELS, key))


def view_pod(pod: Value, legacy: Legacy) -> PodView:
    """Parse a pod or a pod template."""
    root = as_mapping(pod)
    metadata, spec = as_mapping(root.get("metadata")), as_mapping(root.get("spec"))
    findings: list[Finding] = []
    containers = []
    readable = True
    for path, raw, role in list_containers(spec):
        name = raw.get("name")
        user = DeviceUser(path, name if isinstance(name, str) else "", role)
        container, problems, parsed = _read_container(user, raw, legacy)
        readable = readable and parsed
        findings += problems
        containers.append(container)
    return PodView(
        tuple(containers),
        _string_map(metadata.get("annotations")),
        _string_map(metadata.get("labels")),
        spec,
        metadata,
        tuple(findings),
        readable,
    )


def report_rejected_amounts(pod: Value) -> Iterator[Finding]:
    """Report what the API server rejects of the device resources of a pod as it is."""
    for container in view_pod(pod, Legacy()).containers:
        for resource in (*container.resources.values(), *container.zeros.values()):
            if not (is_native(resource.original_name) and _is_accepted_natively(resource)):
                yield from _report_rejected(resource)


def _is_accepted_natively(resource: DeviceResource) -> bool:
    """Whether the API server accepts amounts as those of cpu, which may be overcommitted."""
    values = [valid_quantity(value) for _, value in resource.entries]
    amounts = [each for each in values if each is not None]
    is_within_limit = amounts == sorted(amounts, reverse=True)
    return is_within_limit and all(each.sign() >= 0 for each in amounts)


def _report_rejected(resource: DeviceResource) -> Iterator[Finding]:
    amounts = [_parse_amount(value) for _, value in resource.entries]
    findings = [] if None not in amounts else [_invalid_amount(resource)]
    findings += _check_amounts(resource, amounts[0], amounts[-1], None)
    yield from (finding for finding in findings if finding.code in _REJECTED)
    name = resource.original_name
    if resource.entries[0][0] == "requests" and not is_native(name):
        message = f"{name} has a request but no limit, and stays in the pod"
        yield LIMIT_MISSING.at(resource.where, message)


def format_value(value: Value) -> str:
    """Format a value as written in the pod. Abbreviates long and nested values."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
    return describe_value(value)


def _string_map(value: Value) -> dict[str, str]:
    """Read a map of strings. Converts unquoted booleans and numbers to strings."""
    strings = {}
    for key, item in as_mapping(value).items():
        if isinstance(item, str):
            strings[key] = item
        elif isinstance(item, bool):
            strings[key] = str(item).lower()
        elif isinstance(item, int | float):
            strings[key] = format_value(item)
    return strings


def list_containers(
    spec: Mapping[str, Value],
) -> Iterator[tuple[Path, Mapping[str, Value], ContainerRole]]:
    """Yield the containers of a pod's spec, each with its path and its role."""
    for i, raw in enumerate(as_list(spec.get("initContainers"))):
        if isinstance(raw, dict):
            role = (
                ContainerRole.SIDECAR
                if raw.get("restartPolicy") == "Always"
                else ContainerRole.INIT
            )
            yield ("spec", "initContainers", i), raw, role
    for i, raw in enumerate(as_list(spec.get("containers"))):
        if isinstance(raw, dict):
            yield ("spec", "containers", i), raw, ContainerRole.APP


def is_device_resource(name: str) -> bool:
    """Whether a resource is a device, and not counted by Kubernetes itself."""
    if "/" not in name or name.startswith(("requests.", "limits.", "hugepages-")):
        return False
    return not is_native(name) or name.startswith(KOORDINATOR_PROPOSAL)


def is_requested(resources: Mapping[str, Value], name: str) -> bool:
    """Whether a container has a limit or request other than 0, as an unreadable one can be."""
    parts = (as_mapping(resources.get(part)) for part in ("limits", "requests"))
    amounts = (valid_quantity(each[name]) for each in parts if name in each)
    return any(amount is None or amount.sign() for amount in amounts)


def is_native(name: str) -> bool:
    """Whether a resource with a domain is Kubernetes' own: it may be fractional and overcommitted.

    Its limit is optional, and its request may be lower.
    """
    return NATIVE in name


def _read_container(
    user: DeviceUser, raw: Mapping[str, Value], legacy: Legacy
) -> tuple[Container, list[Finding], bool]:
    resources = as_mapping(raw.get("resources"))
    limits, requests = as_mapping(resources.get("limits")), as_mapping(resources.get("requests"))
    renames = cast("Mapping[str, str]", legacy.renames)
    requested: dict[str, DeviceResource] = {}
    zeros: dict[str, DeviceResource] = {}
    findings: list[Finding] = []
    readable = True
    for written in {**limits, **requests}:
        if not is_device_resource(written):
            continue
        entries = _resource_entries(written, limits, requests)
        first = entries[0][1]
        amount = other = _parse_amount(first)
        # Usually the request equals the limit.
        if len(entries) > 1 and not equal_json(entries[1][1], first):
            other = _parse_amount(entries[1][1])
        name = renames.get(written, written)
        largest = max(amount or 0, other or 0)
        resource = DeviceResource(name, written, largest, _format(first), user.path, entries)
        if amount is None or other is None:
            readable = False
            findings.append(_invalid_amount(resource))
        if amount != other or entries[0][0] == "requests" or name in requested:
            findings += _check_amounts(resource, amount, other, requested.get(name))
        (requested if largest else zeros)[name] = resource
    return Container(user, requested, zeros, raw), findings, readable


def _resource_entries(
    written: str, limits: Mapping[str, Value], requests: Mapping[str, Value]
) -> tuple[tuple[str, Value], ...]:
    if written not in requests:
        return (("limits", limits[written]),)
    if written not in limits:
        return (("requests", requests[written]),)
    return ("limits", limits[written]), ("requests", requests[written])


def _invalid_amount(resource: DeviceResource) -> Finding:
    """Return the finding about an amount that is not a non-negative integer.

    The API server rejects other quantities. A text that is not a quantity may be a placeholder.
    """
    texts = [_quote_word(value) for _, value in resource.entries]
    written = ", ".join(dict.fromkeys(texts))
    placeholder = describe_placeholder(written)
    quantities = all(valid_quantity(value) is not None for _, value in resource.entries)
    return (AMOUNT_REFUSED if quantities else AMOUNT_UNREADABLE).at(
        resource.where,
        f"{resource.original_name} must be a non-negative integer, not {written}"
        + (f", which is {placeholder}" if placeholder else ""),
        remedy="Set the amount to a non-negative integer." if quantities else None,
    )


def _format(amount: Value) -> str:
    return format_amount(amount) if isinstance(amount, float) else format_value(amount)


def _quote_word(value: Value) -> str:
    """Format an amount as written in the pod, in quotes unless it is a quantity or placeholder."""
    shown = _format(value)
    is_word = isinstance(value, str) and valid_quantity(value) is None
    return f'"{shown}"' if is_word and not describe_placeholder(shown) else shown


def _check_amounts(
    resource: DeviceResource, amount: int | None, other: int | None, before: DeviceResource | None
) -> Iterator[Finding]:
    name = resource.original_name
    if amount is not None and other is not None and amount != other:
        request = _format(resource.entries[1][1])
        yield AMOUNTS_DISAGREE.at(
            format_path((*resource.container, "resources")),
            f"{name} has the limit {resource.amount_text} but the request {request}",
        )
    if resource.entries[0][0] == "requests" and amount is not None:
        yield REQUESTS_ONLY.at(
            resource.where, f"{name} has a request but no limit; the request is used"
        )
    if before is not None and (amount or other):
        yield REQUESTS_CONTRADICT.at(
            resource.where, f"{name} and {before.original_name} are names of the same resource"
        )


def _parse_amount(value: Value) -> int | None:
    """Parse the amount of a device. Null is 0. Returns None if it is not a non-negative integer."""
    if (
        isinstance(value, str)
        and value.isdecimal()
        and value.isascii()
        and len(value) < _INT64_DIGITS
    ):
        return int(value)
    quantity = valid_quantity(value)
    whole = None if quantity is None else quantity.exact_int()
    return whole if whole is not None and 0 <= whole < 2**63 else None
