"""Finds the pod templates of workload objects, by a table of paths.

To support a kind, add its line: `{}` matches every value of an object and `[]` every item of a
list. The module also finds device requests outside these paths, so that all are reported.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from drawbridge.documents.paths import Path, format_path, get_value, resolve_path
from drawbridge.documents.values import Value, as_mapping
from drawbridge.translate.legacy.misspelt_names import DOMAINS
from drawbridge.translate.legacy.pod_view import is_device_resource, list_containers
from drawbridge.translate.legacy.read import is_known_domain

_RAY: Final = ("headGroupSpec.template", "workerGroupSpecs[].template")
_REPLICATED: Final = "replicatedJobs[].template.spec.template"


def _ray(under: str) -> tuple[str, ...]:
    return tuple(f"{under}.{path}" for path in _RAY)


# Paths of pod templates, which are objects with metadata and spec, by group and kind.
TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): ("",),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec.template",),
    ("apps", "Deployment"): ("spec.template",),
    ("apps", "StatefulSet"): ("spec.template",),
    ("apps", "DaemonSet"): ("spec.template",),
    ("apps", "ReplicaSet"): ("spec.template",),
    ("batch", "Job"): ("spec.template",),
    ("batch", "CronJob"): ("spec.jobTemplate.spec.template",),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    ("jobset.x-k8s.io", "JobSet"): (f"spec.{_REPLICATED}",),
    ("kubeflow.org", "MPIJob"): ("spec.mpiReplicaSpecs{}.template",),
    ("kubeflow.org", "PyTorchJob"): ("spec.pytorchReplicaSpecs{}.template",),
    ("kubeflow.org", "TFJob"): ("spec.tfReplicaSpecs{}.template",),
    ("kubeflow.org", "XGBoostJob"): ("spec.xgbReplicaSpecs{}.template",),
    ("kubeflow.org", "PaddleJob"): ("spec.paddleReplicaSpecs{}.template",),
    ("kubeflow.org", "MXJob"): ("spec.mxReplicaSpecs{}.template",),
    ("kubeflow.org", "JAXJob"): ("spec.jaxReplicaSpecs{}.template",),
    ("kubeflow.org", "Notebook"): ("spec.template",),
    ("trainer.kubeflow.org", "TrainingRuntime"): (f"spec.template.spec.{_REPLICATED}",),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): (f"spec.template.spec.{_REPLICATED}",),
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): (*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate"),
    ("ray.io", "RayService"): _ray("spec.rayClusterConfig"),
    ("batch.volcano.sh", "Job"): ("spec.tasks[].template",),
    ("batch.volcano.sh", "CronJob"): ("spec.jobTemplate.spec.tasks[].template",),
    ("argoproj.io", "Rollout"): ("spec.template",),
    ("apps.kruise.io", "CloneSet"): ("spec.template",),
    ("apps.kruise.io", "StatefulSet"): ("spec.template",),
    ("apps.kruise.io", "DaemonSet"): ("spec.template",),
    ("apps.kruise.io", "BroadcastJob"): ("spec.template",),
    ("apps.openshift.io", "DeploymentConfig"): ("spec.template",),
    ("flow.volcano.sh", "JobTemplate"): ("spec.tasks[].template",),
    ("workload.serving.volcano.sh", "ModelServing"): (
        "spec.template.roles[].entryTemplate",
        "spec.template.roles[].workerTemplate",
    ),
    ("orchestration.aibrix.ai", "PodSet"): ("spec.template",),
    ("orchestration.aibrix.ai", "RoleSet"): ("spec.roles[].template",),
    ("orchestration.aibrix.ai", "StormService"): ("spec.template.spec.roles[].template",),
    ("keda.sh", "ScaledJob"): ("spec.jobTargetRef.template",),
}
# Paths of pod specs with annotations and labels next to their containers; `model` is one more
# container. Not listed are containers without a field for `resourceClaims` (of a ServingRuntime) or
# for annotations (of its workers), because the API server drops unknown fields.
SPECS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("serving.kserve.io", "InferenceService"): (
        "spec.predictor",
        "spec.transformer",
        "spec.explainer",
    ),
}
# Pod specs below an object with their annotations and labels: the object, and the spec in it. Two
# specs that share the annotations of one object are not translated.
SPECS_BELOW: Final[Mapping[tuple[str, str], tuple[tuple[str, Path], ...]]] = {
    ("grove.io", "PodCliqueSet"): (("spec.template.cliques[]", ("spec", "podSpec")),),
    ("serving.kserve.io", "LLMInferenceService"): (
        ("spec", ("template",)),
        ("spec.prefill", ("template",)),
    ),
}
_BESIDE: Final = "worker"
# Fields that name a device next to its count: Spark's executors, KubeVirt's machines.
_NAMED: Final = ("name", "deviceName")
_NUMBERED: Final = frozenset({"gpu", "gpus", "hostDevices"})
# Objects of these groups describe devices or claims, not the requests of pods.
_IGNORED_GROUPS: Final = frozenset({"resource.k8s.io", "karpenter.sh"})
_MODEL: Final = "model"
# Argo's workflows and kustomizations contain patches as text, which are not translated.
_PATCHES: Final = frozenset({"podSpecPatch", "patch", "manifest"})
_CONFIG_MAP: Final = ("", "ConfigMap")
# Dynamo's graphs name their GPUs without a domain.
_DYNAMO: Final = "nvidia.com"
# Fields of operators that count GPUs without a resource name, as of November 2026.
_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "production-stack.vllm.ai": frozenset({"gpu", "requestGPU"}),
    "run.ai": frozenset(
        {
            "gpu",
            "gpuDevices",
            "gpuDevicesRequest",
            "gpuMemory",
            "gpuMemoryRequest",
            "gpuPortion",
            "gpuPortionRequest",
            "migProfile",
            "deservedGpus",
        }
    ),
}
_NOTHING: Final[tuple[Value, ...]] = (None, "", 0, "0", {}, [])
# An object that names a device by its value, next to an amount: `{resource: ..., quantity: 1}`.
_NAMES: Final = ("resource", "resourceName", *_NAMED)
_AMOUNTS: Final = frozenset({"quantity", "amount", "count"})
_SPARK: Final = re.compile(r"spark\.(driver|executor)\.resource\.\w+\.amount")
# In a text: a placeholder or a comment, the indentation of a line, a key above amounts, the end of
# amounts in braces, or the name of a key after its slash, with the domain before it. Searching for
# the slash takes linear time.
_KEYS: Final = re.compile(
    r"\{\{[^{}\n]*\}\}|\{%[^%\n]*%\}|\$\{(?:\$\{[^{}\n]*\}|[^{}\n])*+\}"
    r"|^[ \t]*+#.*|(?<=[ \t])#[^\n\"'#]*$"
    r"|^(?P<indent>[ \t]*+)(?P<dashes>(?:-[ \t]++)*+)(?=[^\s{#])"
    r"|(?P<amounts>(?<![A-Za-z])(?:limits|requests)[\"']?\s*+(?:[:=]\s*+(?P<flow>\{(?![{%]))|:))"
    r"|(?P<end>[{}\[\]])|/(?P<name>[A-Za-z0-9._-]+)[\"']?\s*(?=:)",
    re.MULTILINE,
)
# What follows a key that requests devices, in the text of a ConfigMap: a number, or a placeholder.
_AMOUNT: Final = re.compile(r":\s*[\"']?[\d${]")
_ANYTHING: Final = re.compile("")
_DOMAIN_BACKWARDS: Final = re.compile(r"[a-z0-9-]++(?:\.[a-z0-9-]++)*+(?![\w/])")
_MAX_DOMAIN: Final = 253
# Instead of the column of the key above amounts.
_IN_BRACES: Final = -1
_NO_AMOUNTS: Final = sys.maxsize
# Deeper than any Kubernetes object, and less than the document reader accepts.
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A pod template of an object: its pod, and the path in the object of each part of the pod."""

    pod: Value = field(repr=False)
    path: Path
    positions: Mapping[Path, Path] = field(repr=False)
    is_pod: bool = False  # a pod itself, not a template
    # Set if claims are written as text: the fields of the spec that other templates share.
    inherited: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class UntranslatedRequest:
    """A device request at a path that is not translated."""

    path: Path
    name: str


def group_kind(value: Mapping[str, Value]) -> tuple[str, str]:
    """Return the API group and kind of an object."""
    return str(value.get("apiVersion")).rpartition("/")[0], str(value.get("kind"))


def find_places(value: Value) -> tuple[Place, ...]:
    """Return the pod templates of an object, in the order of the tables."""
    if not isinstance(value, dict):
        return ()
    key = group_kind(value)
    places = [
        _template_place(template, path)
        for pattern in TEMPLATES.get(key, ())
        for path, template in follow_path(value, pattern)
    ]
    places += [
        _spec_place(spec, path)
        for pattern in SPECS.get(key, ())
        for path, spec in follow_path(value, pattern)
    ]
    places += [
        _spec_below(held, path, below)
        for pattern, below in SPECS_BELOW.get(key, ())
        for path, held in follow_path(value, pattern)
    ]
    return tuple(place for place in places if place is not None)


def find_other_requests(
    value: Value, places: tuple[Place, ...], configured: Collection[str] = ()
) -> tuple[UntranslatedRequest, ...]:
    """Return the device requests of an object outside the known places.

    `configured` are names of devices besides those of known domains.
    """
    if not isinstance(value, dict) or group_kind(value)[0] in _IGNORED_GROUPS:
        return ()
    covered = frozenset(
        map_path(path, place)
        for place in places
        for path, _, _ in list_containers(as_mapping(get_value(place.pod, ("spec",))))
    )
    requests = list(_find_requests(value, (), covered, configured))
    if group_kind(value)[0] == _DYNAMO:
        requests += _find_plain_gpus(value, ())
    plain = _PLAIN.get(group_kind(value)[0], frozenset())
    requests += _find_plain_keys(value.get("spec"), ("spec",), plain) if plain else ()
    if group_kind(value) == _CONFIG_MAP:
        for key, text in _items(value.get("data")):
            names = _find_keys(text, configured, _AMOUNT) if isinstance(text, str) else ()
            requests += (UntranslatedRequest(("data", key), name) for name in dict.fromkeys(names))
    return tuple(requests)


def _items(value: Value) -> Iterable[tuple[str, Value]]:
    return value.items() if isinstance(value, dict) else ()


def _find_plain_gpus(value: Value, path: Path) -> Iterator[UntranslatedRequest]:
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_plain_gpus(item, (*path, number))
    for key, child in _items(value):
        if key == "limits" and isinstance(child, dict) and "gpu" in child:
            yield UntranslatedRequest((*path, key), "gpu")
        yield from _find_plain_gpus(child, (*path, key))


def _find_plain_keys(
    value: Value, path: Path, keys: frozenset[str]
) -> Iterator[UntranslatedRequest]:
    """Find the fields of an operator that count GPUs without naming a resource."""
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_plain_keys(item, (*path, number), keys)
    for key, child in _items(value):
        if key in keys and child not in _NOTHING:
            yield UntranslatedRequest(path, key)
        else:
            yield from _find_plain_keys(child, (*path, key), keys)


def find_fields(
    value: Value, table: Mapping[tuple[str, str], tuple[str, ...]]
) -> Iterator[tuple[str, Path, Value]]:
    """Yield the kind of an object with the path and value of each field in the table's row."""
    if not isinstance(value, dict):
        return
    kind = group_kind(value)
    for pattern in table.get(kind, ()):
        for path, content in follow_path(value, pattern):
            yield kind[1], path, content


def follow_path(value: Value, pattern: str, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Yield the paths that match a pattern and exist, each with its value."""
    if not pattern:
        yield path, value
        return
    step, _, rest = pattern.partition(".")
    name = step.removesuffix("[]").removesuffix("{}")
    child = value.get(name) if isinstance(value, dict) else None
    if step.endswith("[]"):
        for number, item in enumerate(child if isinstance(child, list) else ()):
            yield from follow_path(item, rest, (*path, name, number))
    elif step.endswith("{}"):
        for key, item in (child if isinstance(child, dict) else {}).items():
            yield from follow_path(item, rest, (*path, name, key))
    elif child is not None:
        yield from follow_path(child, rest, (*path, name))


def _template_place(template: Value, path: Path) -> Place | None:
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return None
    return Place(template, path, {(): path}, is_pod=not path)


def _spec_place(spec: Value, path: Path) -> Place | None:
    """Return a spec with annotations next to its containers in the form of a pod template."""
    if not isinstance(spec, dict):
        return None
    containers = spec.get("containers")
    listed = list(containers) if isinstance(containers, list) else []
    at: dict[Path, Path] = {("metadata",): path, ("spec",): path}
    if isinstance(spec.get(_MODEL), dict):
        at["spec", "containers", len(listed)] = (*path, _MODEL)
        listed.append(spec[_MODEL])
    if not listed:
        return None
    metadata: dict[str, Value] = {k: spec[k] for k in ("annotations", "labels") if k in spec}
    inner: dict[str, Value] = {**spec, "containers": listed}
    return Place({"metadata": metadata, "spec": inner}, path, at)


def _spec_below(held: Value, path: Path, below: Path) -> Place | None:
    """Return a pod spec with the annotations of the object above it as a pod template."""
    spec = get_value(held, below)
    if not isinstance(held, dict) or not isinstance(spec, dict) or _BESIDE in held:
        return None
    metadata: dict[str, Value] = {k: held[k] for k in ("annotations", "labels") if k in held}
    at: Path = (*path, *below)
    return Place({"metadata": metadata, "spec": spec}, at, {("metadata",): path, ("spec",): at})


def map_path(path: Path, place: Place) -> Path:
    """Map a path of the pod to its path in the object, by its longest known prefix."""
    for size in range(len(path), -1, -1):
        if path[:size] in place.positions:
            return (*place.positions[path[:size]], *path[size:])
    return path


def map_finding_path(path: str, place: Place) -> str:
    """Map the path of a finding about the pod to its path in the object."""
    return format_path(map_path(resolve_path(place.pod, path), place))


def _find_requests(
    value: Value, path: Path, covered: frozenset[Path], configured: Collection[str]
) -> Iterator[UntranslatedRequest]:
    if path in covered or len(path) > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_requests(item, (*path, number), covered, configured)
    if not isinstance(value, dict):
        return
    yield from _find_counted(value, path)
    for key, child in value.items():
        if key in {"limits", "requests"} and isinstance(child, dict):
            yield from (
                UntranslatedRequest((*path, key), name)
                for name in child
                if is_device_resource(name)
            )
        elif key in _PATCHES and isinstance(child, str):
            names = dict.fromkeys(_find_keys(child, configured))
            yield from (UntranslatedRequest((*path, key), name) for name in names)
        else:
            if key in _NUMBERED:
                yield from _find_named(child, (*path, key))
            yield from _find_requests(child, (*path, key), covered, configured)


def _find_counted(value: Mapping[str, Value], path: Path) -> Iterator[UntranslatedRequest]:
    """Find a device that an object names next to its amount, and the amounts of Spark."""
    for key, _ in _items(value.get("sparkConf")):
        if _SPARK.fullmatch(key):
            yield UntranslatedRequest((*path, "sparkConf"), key)
    # A list of devices in a field of its own is found there.
    counted = not _AMOUNTS.isdisjoint(value) and _NUMBERED.isdisjoint(map(str, path[-2:]))
    for key in _NAMES if counted else ():
        name = value.get(key)
        if isinstance(name, str) and name.partition("/")[0] in DOMAINS and "/" in name:
            yield UntranslatedRequest((*path, key), name)


def _find_keys(
    text: str, configured: Collection[str], value: re.Pattern[str] = _ANYTHING
) -> Iterator[str]:
    """Yield the names of devices that are keys with such a value, in a text of YAML or JSON.

    Of a domain that is not known, only the keys below limits and requests are names of devices:
    those in the braces after it, or the lines that are indented deeper.
    """
    column, above = 0, _NO_AMOUNTS
    for match in _KEYS.finditer(text):
        if match["indent"] is not None:
            column = len(match.group())
            above = above if len(match["indent"]) > above else _NO_AMOUNTS
        elif match["amounts"]:
            above = _IN_BRACES if match["flow"] else column
        elif match["end"]:
            above = _NO_AMOUNTS
        if not match["name"] or not value.match(text, match.end()):
            continue
        slash = match.start()
        backwards = text[max(0, slash - _MAX_DOMAIN) : slash][::-1]
        domain = _DOMAIN_BACKWARDS.match(backwards)
        if domain:
            name = f"{domain.group()[::-1]}/{match['name']}"
            is_known = name in configured or is_known_domain(name)
            # Below `limits` of anything else, such as of routes, keys have a slash as well.
            is_requested = above != _NO_AMOUNTS and "." in domain.group()
            if (is_known or is_requested) and is_device_resource(name):
                yield name


def _find_named(value: Value, path: Path) -> Iterator[UntranslatedRequest]:
    """Find devices that are named by values: `gpu: {name: nvidia.com/gpu, quantity: 1}`."""
    listed = value if isinstance(value, list) else [value]
    for number, item in enumerate(listed):
        at: Path = (*path, number) if isinstance(value, list) else path
        for key in _NAMED:
            name = item.get(key) if isinstance(item, dict) else None
            if isinstance(name, str) and is_device_resource(name):
                yield UntranslatedRequest(at, name)
