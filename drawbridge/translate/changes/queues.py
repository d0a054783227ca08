"""What the queue of a pod or a job says about its claims.

Kueue admits a workload with claims only if its configuration maps their DeviceClasses to the name
of a quota, and only for requests with `exactly` and a count. The name of the mapping should be the
legacy name: then a job that is charged before its pods are translated, and a pod that is charged
after it, use one quota. A share of a device counts as a device, unless the mapping names the
capacity that it takes, which Kueue 0.19 has behind a feature gate. Run with Kueue 0.19.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import list_some
from drawbridge.dra.families import Family, serves_name
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.translate.changes.codes import QUEUE_COUNTS_NAMES, QUEUE_MAPPING_MISSING
from drawbridge.translate.legacy.asks import PodRequests
from drawbridge.translate.legacy.codes import SCHEDULER_KEPT
from drawbridge.translate.legacy.kept_labels import report_kept
from drawbridge.translate.legacy.pod_view import format_value
from drawbridge.translate.targets.codes import QUEUE_REFUSES_REQUEST

_API: Final = "kueue.x-k8s.io"
LOCAL_QUEUE: Final = "LocalQueue"
KUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
# Kueue has charged the owner of such a pod, before the pod exists.
_OF_JOB: Final = "kueue.x-k8s.io/podset"
_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
_CHARGED_PARENTS: Final = ("statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")
DEFAULT_QUEUE: Final = "default"
_OTHERS: Final = {
    "labels": ("kai.scheduler/queue", "runai/queue"),
    "annotations": ("scheduling.volcano.sh/queue-name",),
}
_MAX_NAMES: Final = 3
SHARES_GATE: Final = "KueueDRAIntegrationConsumableCapacity"
# What Kueue compares with the labels of a flavor.
_NODE_CONDITIONS: Final = (("spec", "nodeSelector"), ("spec", "affinity", "nodeAffinity"))
# The API server refuses longer labels, but after admission, whose messages have the name.
_MAX_LABEL: Final = 63


class MappedClass(NamedTuple):
    """A DeviceClass of claims; of shares, the driver and the capacity that a claim takes."""

    name: str
    driver: str = ""
    capacity: str = ""


# The DeviceClasses of claims by the legacy name that they replace.
Mappings = Mapping[str, tuple[MappedClass, ...]]


def find_kueue_queue(value: Value, default_queue: str = "") -> str:
    """Return the queue of Kueue that charges an object by its claims; empty without one.

    `default_queue` is that of the namespace. It has no part in a pod whose owner is charged.
    """
    metadata = as_mapping(get_value(value, ("metadata",)))
    labels = as_mapping(metadata.get("labels"))
    if (
        _OF_JOB in labels
        or as_mapping(metadata.get("annotations")).get(_PARENT) in _CHARGED_PARENTS
    ):
        return ""
    queue = labels.get(KUEUE_LABEL)
    is_label = isinstance(queue, str) and 0 < len(queue) <= _MAX_LABEL
    return f"{queue}" if is_label else default_queue


def find_default_queues(objects: Iterable[Value]) -> dict[str, str]:
    """Return the default queue of Kueue by namespace, from objects of any kind."""
    queues = {}
    for value in map(as_mapping, objects):
        metadata = as_mapping(value.get("metadata"))
        group = f"{value.get('apiVersion')}".partition("/")[0]
        if (group, value.get("kind"), metadata.get("name")) == (_API, LOCAL_QUEUE, DEFAULT_QUEUE):
            queues[f"{metadata.get('namespace') or 'default'}"] = DEFAULT_QUEUE
    return queues


def is_managed(pod: Value) -> bool:
    """Whether Kueue manages a pod, or the job of a pod."""
    labels = as_mapping(get_value(pod, ("metadata", "labels")))
    return any(key.startswith(f"{_API}/") for key in labels)


def charge_to_queue(requests: PodRequests, queue: str) -> PodRequests:
    """Let the asks of a pod become claims that a queue of Kueue charges.

    Kueue chooses the flavor by what the pod requires of its node, so the pod keeps that, too.
    """
    if not queue:
        return requests
    kept = [each for each in requests.source_fields if each.path in _NODE_CONDITIONS]
    return replace(
        requests,
        asks=tuple(replace(ask, queue=queue) for ask in requests.asks),
        source_fields=tuple(
            replace(each, removed=False, replacement=None)
            if each.path in _NODE_CONDITIONS
            else each
            for each in requests.source_fields
        ),
        findings=(*requests.findings, *report_kept(kept, f"for queue {queue} of Kueue, ")),
    )


def report_named_claims(pod: Value, queue: str) -> Iterator[Finding]:
    """Warn of claims by name of a pod in a queue; without Kueue, the label has no effect."""
    claims = as_list(get_value(pod, ("spec", "resourceClaims"))) if queue else []
    for number, claim in enumerate(map(as_mapping, claims)):
        if name := claim.get("resourceClaimName"):
            path = ("spec", "resourceClaims", number, "resourceClaimName")
            message = f"queue {queue} of Kueue refuses a claim by name: {format_value(name)}"
            finding = QUEUE_REFUSES_REQUEST.at(
                format_path(path), message, remedy="Refer to a ResourceClaimTemplate."
            )
            yield replace(finding, severity=Severity.WARNING)


def report_queue(
    value: Value, mappings: Mappings, findings: Iterable[Finding] = (), queue: str = ""
) -> Iterator[Finding]:
    """Report what the queues of an object need.

    `queue` is that of Kueue for objects without one: of the owner, or of the namespace. What a
    scheduler's own queue counts is part of a finding about the scheduler, where there is one.
    """
    metadata = as_mapping(as_mapping(value).get("metadata"))
    own = find_kueue_queue(value)
    if own or queue:
        path = format_path(("metadata", "labels", KUEUE_LABEL)) if own else ""
        listed = ", ".join(_list_classes(mappings))
        yield QUEUE_COUNTS_NAMES.at(
            path,
            f"queue {format_value(own or queue)} of Kueue does not admit claims of {listed} unless "
            f"it maps the {'class' if ', ' not in listed else 'classes'}",
            remedy=f"Add to `resources` of Kueue's configuration: {describe_mappings(mappings)}",
        )
    if any(each.code == SCHEDULER_KEPT.name for each in findings):
        return
    for part, keys in _OTHERS.items():
        texts = as_mapping(metadata.get(part))
        for key in keys:
            if isinstance(name := texts.get(key), str) and name:
                yield _report_other_queue(format_path(("metadata", part, key)), name, mappings)


def _report_other_queue(path: str, queue: str, mappings: Mappings) -> Finding:
    names = ", ".join(filter(None, mappings))
    counted = f"counted {names} and " if names else ""
    classes = _list_classes(mappings)
    noun, pronoun = ("DeviceClass", "it") if len(classes) == 1 else ("DeviceClasses", "them")
    return QUEUE_COUNTS_NAMES.at(
        path,
        f"queue {format_value(queue)} {counted}does not charge {noun} {', '.join(classes)} unless "
        f"it maps {pronoun}",
    )


def merge_mappings(several: Iterable[Mappings]) -> Mappings:
    """Return the mappings of several pods; a class belongs to the name that most of them have."""
    several = tuple(several)
    by_name: dict[str, MappedClass] = {}
    for class_ in (each for mappings in several for row in mappings.values() for each in row):
        if not by_name.get(class_.name, MappedClass("")).capacity:
            by_name[class_.name] = class_
    merged: dict[str, tuple[MappedClass, ...]] = {}
    for class_name, names in _count_names(several).items():
        name = max(filter(None, names), key=names.__getitem__, default="")
        merged[name] = (*merged.get(name, ()), by_name[class_name])
    return merged


def find_collisions(several: Iterable[Mappings]) -> dict[str, list[str]]:
    """Return the classes that replace several names, of which a mapping can have one."""
    counts = {class_: [*filter(None, names)] for class_, names in _count_names(several).items()}
    return {class_: sorted(names) for class_, names in counts.items() if len(names) > 1}


def _count_names(several: Iterable[Mappings]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for mappings in several:
        for name, classes in mappings.items():
            for class_ in classes:
                counts.setdefault(class_.name, Counter())[name] += 1
    return counts


def _list_classes(mappings: Mappings) -> list[str]:
    return [*dict.fromkeys(class_.name for row in mappings.values() for class_ in row)]


def describe_mappings(mappings: Mappings) -> str:
    """Write mappings as the field of Kueue's Configuration, and those of shares by capacity."""
    shares = {"": tuple(each for row in mappings.values() for each in row if each.capacity)}
    if not shares[""]:
        return f"{_format_mappings(mappings)}."
    return (
        f"{_format_mappings(mappings)}. Kueue 0.19 with the feature gate {SHARES_GATE} charges what"
        f" shares take, and not their number: {_format_mappings(shares, by_capacity=True)}."
    )


def _format_mappings(mappings: Mappings, *, by_capacity: bool = False) -> str:
    """Write mappings in one line.

    Classes without a legacy name are one mapping each: one quota would count a NIC as a GPU.
    """
    listed = [(name, classes) for name, classes in mappings.items() if name]
    listed += [("NAME", (class_,)) for class_ in mappings.get("", ())]
    rows = ", ".join(
        f"{{name: {name}, deviceClassNames: [{', '.join(each.name for each in classes)}]"
        f"{_format_source(classes[0]) if by_capacity else ''}}}"
        for name, classes in listed
    )
    return f"deviceClassMappings: [{rows}]"


def _format_source(class_: MappedClass) -> str:
    every = '{cel: {expression: "true"}}'
    return (
        f", sources: [{{capacity: {{name: {class_.capacity}, driver: {class_.driver}, "
        f"deviceSelector: {every}}}}}]"
    )


def read_mappings(configuration: Value) -> Mappings:
    """Return the mappings of Kueue's Configuration."""
    rows = as_list(get_value(configuration, ("resources", "deviceClassMappings")))
    return {
        f"{row.get('name')}": tuple(map(MappedClass, _texts(as_list(row.get("deviceClassNames")))))
        for row in map(as_mapping, rows)
    }


def find_covered(cluster_queues: Iterable[Value]) -> frozenset[str]:
    """Return the names for which ClusterQueues of Kueue have quotas."""
    return frozenset(
        name
        for queue in cluster_queues
        for group in as_list(get_value(queue, ("spec", "resourceGroups")))
        for name in _texts(as_list(as_mapping(group).get("coveredResources")))
    )


def find_unmapped_classes(
    mappings: Mappings, covered: Iterable[str], facts: Facts, configuration: Configuration
) -> Iterator[Finding]:
    """Report the DeviceClasses with devices that Kueue does not charge, or by a second quota.

    `covered` are the names with a quota. A workload that requests another name is not admitted, so
    the name of a mapping may be any one while no quota is for a legacy name of the devices.
    """
    names = {class_.name: name for name, classes in mappings.items() for class_ in classes}
    families, covered = known_families(configuration), sorted(covered)
    for row in facts.classes:
        if not row.devices:
            continue
        of_drivers = [families[each] for each in row.drivers if each in families]
        name, legacy = names.get(row.name), [*_find_counting(of_drivers, row.extended, covered)]
        if name is None:
            message = f"Kueue maps no name to DeviceClass {row.name}, so it admits no claims of it"
            yield QUEUE_MAPPING_MISSING.at("", message, object=f"DeviceClass/{row.name}")
        elif legacy and name not in legacy:
            message = (
                f"Kueue charges claims of DeviceClass {row.name} to {name}, and has a quota for "
                f"{list_some(legacy, _MAX_NAMES, 'name')}: two quotas for the same devices"
            )
            yield QUEUE_MAPPING_MISSING.at("", message, object=f"DeviceClass/{row.name}")


def _find_counting(
    families: Sequence[Family], extended: str, names: Iterable[str]
) -> Iterator[str]:
    """Return those of the names that count devices of a class before their translation."""
    for name in names:
        if name == extended or any(serves_name(each, name) for each in families):
            yield name


def _texts(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(each for each in values if isinstance(each, str))
