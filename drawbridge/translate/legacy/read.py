"""Reads the device requests of a pod by all dialects.

The dialects read one after the other. A resource belongs to the first dialect in the order that
reads it. A device resource that no dialect reads is reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from drawbridge.config.model import Configuration, Legacy
from drawbridge.documents.paths import Path
from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.legacy import misspelt_names, named_devices, rdma_tokens
from drawbridge.translate.legacy.asks import NO_REQUESTS, Ask, PodRequests, SourceField
from drawbridge.translate.legacy.codes import DIALECTS_MIXED
from drawbridge.translate.legacy.dialects import (
    Dialect,
    aliyun,
    amd,
    hami,
    intel,
    kai,
    koordinator,
    metax,
    nos,
    nvidia,
    rdma,
    sriov,
    tensor_fusion,
    vendors,
    volcano,
)
from drawbridge.translate.legacy.init_containers import AskNames, share_devices
from drawbridge.translate.legacy.node_labels import apply_node_labels
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView, view_pod

# They read all names of some form, or names without a known driver, unless the configuration or a
# class gives the name a meaning.
_READ_LAST: Final[tuple[Dialect, ...]] = (metax, vendors, sriov)
# In the order in which they read a pod. The type states that each module is a Dialect.
DIALECTS: Final[tuple[Dialect, ...]] = (
    koordinator,
    volcano,
    kai,
    aliyun,
    nos,
    tensor_fusion,
    hami,
    nvidia,
    amd,
    intel,
    rdma,
    *_READ_LAST,
)
# The names whose unit, or whose amount by default, a dialect reads from the configuration.
UNITS: Final = frozenset((*aliyun.UNITS, *hami.UNITS, *metax.UNITS, *volcano.UNITS))
DEFAULTS: Final = frozenset((*hami.DEFAULTS, *volcano.DEFAULTS))
# The positions in that order of the dialects that a word triggers.
_TRIGGERED: Final[Mapping[str, Sequence[int]]] = {
    word: [position for position, other in enumerate(DIALECTS) if word in other.TRIGGERS]
    for dialect in DIALECTS
    for word in dialect.TRIGGERS
}
# What schedulers write on a pod when they allocate its devices.
_ALLOCATED: Final = frozenset(key for dialect in DIALECTS for key in dialect.ALLOCATED)
# Each of these projects allocates GPUs by itself and does not see the allocations of the others.
_ALLOCATING_PROJECTS: Final[Mapping[str, str]] = {
    dialect.NAME: dialect.PROJECT for dialect in DIALECTS if dialect.PROJECT
}


def read_hints(pod: Value) -> dict[str, Value]:
    """Return the annotations and labels of a pod that request devices, or say which."""
    requests = read_pod(as_created(pod))
    fields = requests.source_fields if requests.asks else ()
    return {f"{each.name}": each.value for each in fields if each.path[0] == "metadata"}


def as_created(pod: Value) -> Value:
    """Return a pod as it was created: without its status, its node and its allocated devices.

    A translation leaves pods as they are whose devices somebody has allocated.
    """
    fields = as_mapping(pod)
    metadata, spec = fields.get("metadata"), as_mapping(fields.get("spec"))
    annotations = as_mapping(as_mapping(metadata).get("annotations"))
    if not _ALLOCATED.isdisjoint(annotations):
        kept: Value = {key: text for key, text in annotations.items() if key not in _ALLOCATED}
        metadata = {**as_mapping(metadata), "annotations": kept}
    unbound: Value = {key: value for key, value in spec.items() if key != "nodeName"}
    created = {key: value for key, value in fields.items() if key != "status"}
    return {**created, "metadata": metadata, "spec": unbound}


def read_pod(pod: Value, configuration: Configuration | None = None) -> PodRequests:
    """Read the device requests of a pod or pod template. Accepts any plain value."""
    configuration = configuration or Configuration()
    view = view_pod(pod, configuration.legacy)
    if not view.readable:
        # An amount that cannot be parsed is not the same as no request: translate nothing.
        return PodRequests(findings=view.findings)
    parts, unread = _read_dialects(view, configuration)
    if not parts and not view.findings and not any(one.resources for one in unread.containers):
        return NO_REQUESTS
    with_labels = apply_node_labels(view, tuple([ask for part in parts for ask in part.asks]))
    parts.append(with_labels)
    if any(container.zeros for container in view.containers):
        zeros = _find_zeros(view, with_labels.asks, configuration)
        parts.append(PodRequests(source_fields=tuple(zeros)))
    inits = view.spec.get("initContainers")  # only init containers reuse devices of others
    asks, merged, shared = share_devices(with_labels.asks) if inits else (with_labels.asks, {}, ())
    dialects = tuple([name for part in parts for name in part.dialects])
    return PodRequests(
        rdma_tokens.join_tokens_to_gpus(asks),
        _update_asks([field for part in parts for field in part.source_fields], merged),
        (
            *view.findings,
            *_check_mixed_dialects(dialects),
            *[finding for part in parts for finding in part.findings],
            *shared,
            *rdma_tokens.report_apart(asks),
            *misspelt_names.report_unknown(_list_resources(unread)),
        ),
        dialects,
    )


def _read_dialects(
    view: PodView, configuration: Configuration
) -> tuple[list[PodRequests], PodView]:
    """Run the dialects in order. Also returns the pod without the resources they read."""
    triggered = _triggered(view.triggers(), configuration.legacy)
    reads = [dialect.read for dialect in triggered]
    if configuration.named_devices:
        last = sum(dialect in _READ_LAST for dialect in triggered)

        def read_names(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # as dialects
            return named_devices.read(pod, configuration)

        reads.insert(len(reads) - last, read_names)
    unread = view
    parts = []
    for read in reads:
        part = read(unread, configuration.legacy)
        if part is not NO_REQUESTS:
            parts.append(part)
            unread = unread.without(part.source_fields)
    return parts, unread


def find_dialects(
    name: str, configuration: Configuration | None = None, *, by_form: bool = False
) -> tuple[str, ...]:
    """Return the dialects that know a resource name by itself, or also only `by_form`."""
    dialects = read_pod(make_pod(name), configuration).dialects
    last = set() if by_form else {dialect.NAME for dialect in _READ_LAST}
    return tuple(dialect for dialect in dialects if dialect not in last)


def is_known_domain(name: str) -> bool:
    """Whether dialects read resources of the domain of this name."""
    return name.partition("/")[0] in _TRIGGERED


def make_pod(name: str) -> Value:
    """Return a pod that requests one of a resource, and nothing else."""
    return {"spec": {"containers": [{"resources": {"limits": {name: "1"}}}]}}


def _find_zeros(
    view: PodView, asks: Iterable[Ask], configuration: Configuration
) -> Iterator[SourceField]:
    """Find amounts of zero, which request nothing but are traces of a dialect.

    HAMi's webhook adds a GPU to a container that has any of its resources, whatever the amount. A
    zero belongs to the asks of its container in its domain. Without such asks it goes with any.
    """
    owners: dict[tuple[Path, str], list[str]] = {}
    for ask in asks:
        for user in ask.users:
            for domain in {name.partition("/")[0] for name in ask.resources}:
                owners.setdefault((user.path, domain), []).append(ask.name)
    for container in view.containers:
        for name, zero in container.zeros.items():
            domain = name.partition("/")[0]
            if {domain, name} & _TRIGGERED.keys() or name in configuration.named_devices:
                written = zero.original_name.partition("/")[0]
                names = owners.get((container.user.path, written), ())
                yield from zero.source_fields(asks=tuple(names))


def _triggered(words: Iterable[str], legacy: Legacy) -> Sequence[Dialect]:
    """Return the dialects that can apply to a pod with these triggers, in order."""
    positions = {position for word in words if word in _TRIGGERED for position in _TRIGGERED[word]}
    if legacy.networks:
        positions.add(DIALECTS.index(sriov))
    return [DIALECTS[position] for position in sorted(positions)]


def _update_asks(fields: Iterable[SourceField], merged: AskNames) -> tuple[SourceField, ...]:
    """Let source fields refer to the asks that theirs were merged into."""
    if not merged:
        return tuple(fields)
    updated: dict[int, tuple[str, ...]] = {}  # by id: many fields have one tuple of asks
    listed = tuple(fields)
    for field in listed:
        if id(field.asks) not in updated:
            names = dict.fromkeys(new for old in field.asks for new in merged.get(old, (old,)))
            updated[id(field.asks)] = tuple(names)
    return tuple([replace(field, asks=updated[id(field.asks)]) for field in listed])


def _check_mixed_dialects(dialects: tuple[str, ...]) -> tuple[Finding, ...]:
    projects = [_ALLOCATING_PROJECTS[name] for name in dialects if name in _ALLOCATING_PROJECTS]
    if len(projects) < 2:
        return ()
    names = f"{', '.join(projects[:-1])} and {projects[-1]}"
    return (DIALECTS_MIXED.at("spec", f"the pod requests devices in the dialects of {names}"),)


def _list_resources(view: PodView) -> Iterator[DeviceResource]:
    for container in view.containers:
        yield from container.resources.values()
