"""Explains a workload: which of its pods have their node and devices, and what one of them lacks.

Takes plain objects, as `drawbridge.report.explain` does. The pods are found by the selector of the
workload, by the label that its controller writes, or by the controller that they name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.documents.document import name_object
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Trait, find_names
from drawbridge.ledger.pods import FINISHED
from drawbridge.report import codes
from drawbridge.report.events import SeenEvent, describe_events, event_subject, is_about
from drawbridge.report.explain import Explanation, PodObjects, explain, is_stuck
from drawbridge.report.not_translated import ENFORCE, FindMode, advise, find_no_mode
from drawbridge.report.stuck.found import Stuck
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.replicas import count_pods
from drawbridge.translate.manifests.workloads import (
    Place,
    find_places,
    group_kind,
    map_finding_path,
)

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
MAX_NAMES: Final = 20


class WorkloadKind(NamedTuple):
    """A kind of workload: its API, the words for it, and how its pods are found.

    `label` has the name of the workload, or the value at `named_by`. Without it, the selector of
    the workload finds the pods.
    """

    group: str
    version: str
    plural: str
    kind: str
    words: tuple[str, ...] = ()
    label: str = ""
    named_by: Path = ("metadata", "name")


KINDS: Final = (
    WorkloadKind("apps", "v1", "deployments", "Deployment", ("deploy",)),
    WorkloadKind("apps", "v1", "replicasets", "ReplicaSet", ("rs",)),
    WorkloadKind("apps", "v1", "statefulsets", "StatefulSet", ("sts",)),
    WorkloadKind("apps", "v1", "daemonsets", "DaemonSet", ("ds",)),
    WorkloadKind("", "v1", "replicationcontrollers", "ReplicationController", ("rc",)),
    WorkloadKind("batch", "v1", "jobs", "Job", (), _JOB_NAME),
    WorkloadKind("batch", "v1", "cronjobs", "CronJob", ("cj",), _JOB_NAME),
    WorkloadKind(
        "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", (), "jobset.sigs.k8s.io/jobset-name"
    ),
    WorkloadKind(
        "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", ("lws",),
        "leaderworkerset.sigs.k8s.io/name",
    ),
    WorkloadKind(
        "kubeflow.org", "v2beta1", "mpijobs", "MPIJob", (), "training.kubeflow.org/job-name"
    ),
    WorkloadKind(
        "kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", (), "training.kubeflow.org/job-name"
    ),
    WorkloadKind("kubeflow.org", "v1", "tfjobs", "TFJob", (), "training.kubeflow.org/job-name"),
    WorkloadKind("ray.io", "v1", "rayclusters", "RayCluster", (), "ray.io/cluster"),
    WorkloadKind(
        "ray.io", "v1", "rayjobs", "RayJob", (), "ray.io/cluster", ("status", "rayClusterName")
    ),
    WorkloadKind(
        "batch.volcano.sh", "v1alpha1", "jobs", "Job", ("vcjob", "vj"), "volcano.sh/job-name"
    ),
    WorkloadKind("argoproj.io", "v1alpha1", "rollouts", "Rollout", ("ro",)),
)  # fmt: skip


class WorkloadReference(NamedTuple):
    """A workload that a person names."""

    kind: WorkloadKind
    name: str


@dataclass(frozen=True)
class WorkloadObjects:
    """A workload, its pods, and the claims, templates and events of its namespace."""

    workload: Value
    kind: WorkloadKind
    pods: Sequence[Value]
    claims: Mapping[str, Value] = field(default_factory=dict)
    templates: Mapping[str, Value] = field(default_factory=dict)
    events: Sequence[Value] = ()
    namespace: Value = None
    groups: Sequence[Value] = ()
    find_mode: FindMode = find_no_mode  # as of PodObjects
    stuck: Sequence[Stuck] = ()
    is_live: bool = False
    nodes: Mapping[str, Value] = field(default_factory=dict)
    configuration: Configuration | None = None


class WorkloadExplanation(msgspec.Struct, frozen=True):
    """How many pods have their node and devices, and one pod or each template in detail.

    `wanted` is the number of pods that should run; None if it depends on the nodes.
    """

    workload: str
    wanted: int | None
    pods: int
    placed: int
    finished: int
    not_placed: tuple[str, ...]  # the first names
    explained: tuple[Explanation, ...]
    events: tuple[SeenEvent, ...]

    @property
    def complete(self) -> bool:
        """Whether all wanted pods exist and have their node and devices."""
        return (
            self.placed + self.finished == self.pods > 0
            if self.wanted is None
            else self.placed + self.finished == self.pods >= self.wanted
        )


def parse_reference(text: str) -> WorkloadReference | None:
    """Parse `deploy/train`; None if the text is not the name of a workload."""
    word, slash, name = text.partition("/")
    lower = word.lower()
    for kind in KINDS:
        full = (f"{kind.plural}.{kind.group}", f"{kind.kind.lower()}.{kind.group}")
        if slash and lower in (kind.plural, kind.kind.lower(), *kind.words, *full):
            return WorkloadReference(kind, name)
    return None


def find_reference(text: str, objects: Iterable[Value]) -> WorkloadReference | None:
    """Find the workload that `text` names among objects of any kind that has pods.

    The text is TYPE/NAME as in kubectl, or the name alone of the only such object.
    """
    word, slash, name = text.rpartition("/")
    named = {
        group_kind(value): f"{value.get('apiVersion')}".rpartition("/")[2]
        for value in map(as_mapping, objects)
        if get_value(dict(value), ("metadata", "name")) == name
        and value.get("kind") != "Pod"
        and (find_places(dict(value)) or argo.find_places(dict(value)))
    }
    for (group, kind), version in named.items():
        lower = kind.lower()
        words = (lower, f"{lower}s", f"{lower}.{group}", f"{lower}s.{group}")
        if word.lower() in words or (not slash and len(named) == 1):
            row = next((each for each in KINDS if (each.group, each.kind) == (group, kind)), None)
            return WorkloadReference(row or WorkloadKind(group, version, f"{lower}s", kind), name)
    return None


def parse_node(text: str) -> str:
    """Return the name in `node/NAME`; empty if the text does not name a node."""
    word, slash, name = text.partition("/")
    return name if slash and word.lower() in ("node", "nodes", "no") else ""


def is_kind(value: Value, kind: WorkloadKind) -> bool:
    """Tell whether an object is a workload of this kind, in any version."""
    group, _, _ = f"{get_value(value, ('apiVersion',))}".rpartition("/")
    return (group, get_value(value, ("kind",))) == (kind.group, kind.kind)


def pod_labels(workload: Value, kind: WorkloadKind) -> Mapping[str, str]:
    """Return the labels that all pods of a workload have; none if they are unknown."""
    if kind.kind == "CronJob":
        return {}
    if kind.label:
        name = get_value(workload, kind.named_by)
        return {kind.label: name} if isinstance(name, str) else {}
    selector = as_mapping(get_value(workload, ("spec", "selector")))
    # A ReplicationController has the labels themselves.
    labels = as_mapping(selector.get("matchLabels")) if kind.group else selector
    return {key: text for key, text in labels.items() if isinstance(text, str)}


def find_pods(workload: Value, kind: WorkloadKind, pods: Sequence[Value]) -> Iterator[Value]:
    """Yield the pods of a workload among those of its namespace."""
    wanted = pod_labels(workload, kind)
    name = re.escape(f"{get_value(workload, ('metadata', 'name'))}")
    job_name = re.compile(rf"{name}-\d{{8,}}")
    for pod in pods:
        labels = as_mapping(get_value(pod, ("metadata", "labels")))
        if kind.kind == "CronJob":
            if job_name.fullmatch(f"{labels.get(_JOB_NAME)}"):
                yield pod
        elif _is_controlled(pod, workload, kind) or (
            wanted and all(labels.get(key) == text for key, text in wanted.items())
        ):
            yield pod


def _is_controlled(pod: Value, workload: Value, kind: WorkloadKind) -> bool:
    """Whether the workload is the controller of the pod, also of one that lacks the labels."""
    name = get_value(workload, ("metadata", "name"))
    owners = map(as_mapping, as_list(get_value(pod, ("metadata", "ownerReferences"))))
    return any(
        each.get("controller") is True and each.get("name") == name and is_kind(dict(each), kind)
        for each in owners
    )


def explain_workload(objects: WorkloadObjects) -> WorkloadExplanation:
    """Explain a workload: its first pod that lacks something, or its templates without a pod."""
    workload = objects.workload
    places = (*find_places(workload), *argo.find_places(workload))
    running = [pod for pod in objects.pods if _phase(pod) not in FINISHED]
    explained = [explain(_objects_of(pod, objects)) for pod in running]
    lacking = [each for each in explained if not each.placed]
    hanging = [each for each in explained if is_stuck(each)]
    shown = (lacking or hanging or explained)[:1]
    if not objects.pods:
        shown = [_explain_template(place, objects) for place in places]
    return WorkloadExplanation(
        workload=name_object(workload, 1),
        wanted=_count_wanted(workload, places),
        pods=len(objects.pods),
        placed=len(explained) - len(lacking),
        finished=len(objects.pods) - len(running),
        not_placed=tuple(each.pod for each in lacking[:MAX_NAMES]),
        explained=tuple(shown),
        events=tuple(describe_events(_events_of(objects))),
    )


def _phase(pod: Value) -> Value:
    return get_value(pod, ("status", "phase"))


def _count_wanted(workload: Value, places: Sequence[Place]) -> int | None:
    counts = [count_pods(workload, place) for place in places]
    return (
        None if any(each.on_each_node for each in counts) else sum(each.number for each in counts)
    )


def _objects_of(pod: Value, objects: WorkloadObjects) -> PodObjects:
    return PodObjects(
        pod,
        objects.claims,
        objects.templates,
        objects.events,
        objects.namespace,
        pods=objects.pods,
        groups=objects.groups,
        find_mode=objects.find_mode,
        stuck=objects.stuck,
        is_live=objects.is_live,
        nodes=objects.nodes,
        configuration=objects.configuration,
    )


def _explain_template(place: Place, objects: WorkloadObjects) -> Explanation:
    """Explain a template as a pod that does not exist yet."""
    metadata = as_mapping(get_value(place.pod, ("metadata",)))
    owner = as_mapping(get_value(objects.workload, ("metadata",)))
    names: dict[str, Value] = {key: owner[key] for key in ("name", "namespace") if key in owner}
    kind = get_value(objects.workload, ("kind",))
    names["ownerReferences"] = [{"kind": kind, "name": names.get("name"), "controller": True}]
    spec = get_value(place.pod, ("spec",))
    pod: dict[str, Value] = {"kind": "Pod", "metadata": {**metadata, **names}, "spec": spec}
    parts = PodObjects(
        pod,
        objects.claims,
        objects.templates,
        (),
        objects.namespace,
        find_mode=objects.find_mode,
        configuration=objects.configuration,
    )
    explanation = _explain_absent(parts, name_object(objects.workload, 1), place)
    path = format_path(place.path)
    return msgspec.structs.replace(explanation, pod=f"template {path}", phase="no pod")


def is_created(objects: PodObjects) -> bool:
    """Whether a pod exists, and is not only a manifest. Manifests have no Lease with them."""
    metadata = as_mapping(get_value(objects.pod, ("metadata",)))
    in_cluster = objects.lease is not None
    return bool(metadata.get("uid") or get_value(objects.pod, ("status",))) or in_cluster


def explain_manifest(objects: PodObjects) -> Explanation:
    """Explain a pod that is only a manifest."""
    place = Place(objects.pod, (), {(): ()}, is_pod=True)
    explanation = _explain_absent(objects, name_object(objects.pod, 1), place)
    return msgspec.structs.replace(explanation, phase="not created")


def _explain_absent(objects: PodObjects, owner: str, place: Place) -> Explanation:
    """Explain a pod that does not exist; findings are about the object of its manifest."""
    explanation = explain(objects)
    # Pods are translated when they are created, and wait only then.
    absent = find_names((codes.CODES,), Trait.ONLY_FOR_PODS)
    if explanation.mode == ENFORCE:
        absent |= {codes.NOT_TRANSLATED.name}
    about = name_object(objects.pod, 1)
    advice = advise(codes.ADVICE_TO_AUTHORS, objects.find_mode(objects.pod))
    kept = []
    for finding in explanation.findings:
        remedy = advice if finding.code == codes.NOT_TRANSLATED.name else None
        if finding.code not in absent:
            path = map_finding_path(finding.path, place) if finding.object == about else ""
            kept.append(
                msgspec.structs.replace(
                    finding,
                    object=owner if finding.object == about else finding.object,
                    path=path or finding.path,
                    remedy=remedy or finding.remedy,
                )
            )
    return msgspec.structs.replace(explanation, findings=tuple(kept))


def _events_of(objects: WorkloadObjects) -> list[Value]:
    """Return the events of a workload, and of the ReplicaSets or Jobs that it creates."""
    metadata = as_mapping(get_value(objects.workload, ("metadata",)))
    events = []
    for event in objects.events:
        subject = event_subject(event)
        kind, name = subject.get("kind"), f"{subject.get('name')}"
        made = kind in ("ReplicaSet", "Job") and name.startswith(f"{metadata.get('name')}-")
        if made or is_about(event, objects.kind.kind, metadata):
            events.append(event)
    return events
