"""What the owners of pods say of them: how many they want, on which node, and how a Job ends."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drawbridge.audit.managed import find_manager
from drawbridge.audit.objects import controllers_of, namespace_of, text_at
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.models.jobs import JobRules, read_job
from drawbridge.models.pods import PodKind
from drawbridge.models.rollouts import PodRollout, read_rollout
from drawbridge.translate.manifests.replicas import count_pods
from drawbridge.translate.manifests.workloads import find_places

# Labels that alike pods do not share, or that binding adds.
_OF_ONE_POD: Final = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
# Those that `kubectl rollout restart` takes, without DaemonSets.
RESTARTED: Final = ("Deployment", "StatefulSet")


class OwnerTemplate(NamedTuple):
    """What an owner says of its pods. `selector` selects them, as kubectl takes it."""

    wanted: int = 0
    named_node: str = ""
    job: JobRules | None = None
    selector: str = ""
    manager: str = ""  # who suspends a Job and lets it go on
    rollout: PodRollout | None = None
    owned_by: str = ""  # the chart or the tool that can take a patch back


class Templates:
    """The owners of the pods of a cluster."""

    def __init__(self, workloads: Iterable[Value]) -> None:
        self._known: Mapping[tuple[str, str], OwnerTemplate] = {
            (namespace_of(each), name_workload(each)): _read(each) for each in workloads
        }

    def find(self, namespace: str, owner: str) -> OwnerTemplate:
        """Return what an owner says, or nothing if it was not read."""
        return self._known.get((namespace, owner), OwnerTemplate())

    def find_selector(self, kind: PodKind) -> str:
        """Return what selects the pods of an owner: what it says, or their labels."""
        labels = (f"{key}={text}" for key, text in kind.labels.items() if key not in _OF_ONE_POD)
        return self.find(kind.namespace, kind.owner).selector or ",".join(labels)


def make_pod(workload: Value, template: Value) -> Value:
    """Return a pod as its owner creates it, but with the name of the owner."""
    name = text_at(workload, "metadata", "name")
    owner: Value = {"kind": text_at(workload, "kind"), "name": name, "controller": True}
    fields = as_mapping(template)
    metadata: Value = {
        **as_mapping(fields.get("metadata")),
        "name": name,
        "namespace": namespace_of(workload),
        "ownerReferences": [owner],
    }
    return {**fields, "metadata": metadata}


def name_workload(workload: Value) -> str:
    """Return `Kind/name` of a workload."""
    return f"{text_at(workload, 'kind')}/{text_at(workload, 'metadata', 'name')}"


def _read(workload: Value) -> OwnerTemplate:
    places = find_places(workload)
    named = [text_at(each.pod, "spec", "nodeName") for each in places]
    wanted = sum(count_pods(workload, each).number for each in places)
    kind, group = text_at(workload, "kind"), text_at(workload, "apiVersion").partition("/")[0]
    # Volcano has Jobs, too: the Job controller knows nothing of them, nor does their spec.
    is_job = (kind, group) == ("Job", "batch")
    labels = as_mapping(get_value(workload, ("spec", "selector", "matchLabels")))
    more = get_value(workload, ("spec", "selector", "matchExpressions"))
    return OwnerTemplate(
        wanted,
        next(filter(None, named), ""),
        read_job(workload) if is_job else None,
        "" if more else ",".join(f"{key}={text}" for key, text in labels.items()),
        _find_resuming(workload),
        read_rollout(workload, wanted) if group == "apps" and kind in RESTARTED else None,
        find_manager(workload).text if is_job else "",
    )


def _find_resuming(workload: Value) -> str:
    """Return who sets `suspend` of a Job, so that nobody else can; a CronJob never does."""
    if queue := text_at(workload, "metadata", "labels", "kueue.x-k8s.io/queue-name"):
        return f"Kueue's queue {queue}"
    for owner in controllers_of(workload):
        if owner.get("kind") != "CronJob":
            return f"{owner.get('kind')}/{owner.get('name')}"
    return ""
