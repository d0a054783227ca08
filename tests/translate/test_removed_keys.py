"""No key of a pod goes in silence: what a translation removes is in a claim, or a finding names it.

A key is in a claim if the claims change with it: without the key, or with another amount. The pods
are those of the tables, and pods of random parts of them.
"""

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest

from drawbridge.config.model import Configuration, Decisions, Placement
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import Path as FieldPath
from drawbridge.documents.paths import get_value
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from drawbridge.translate.context import Translation, TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn
from tests.translate import worlds
from tests.translate.test_dialects import TABLES, build_pod

OURS: Final = {ORIGINAL_ANNOTATION, FACTS_ANNOTATION}
# A setting with its default value says nothing, and nothing is lost with it; nor with a zero.
DEFAULTS: Final = {
    ("nvidia.com/numa-bind", "0"),
    ("nvidia.com/numa-bind", "false"),
    ("tensor-fusion.ai/is-local-gpu", "true"),
    ("tensor-fusion.ai/isolation", "shared"),
    ("nvidia.com/vgpu-mode", "hami-core"),
    ("volcano.sh/vgpu-mode", "hami-core"),
    ("tensor-fusion.ai/enabled", "true"),
    ("tensor-fusion.ai/isolation", "soft"),
    ("tensor-fusion.ai/vendor", "nvidia"),
    ("mps", "false"),
    ("kai.scheduler/gpu-compute-sharing-mode", "time-slicing"),
    # HAMi packs nodes and spreads over their GPUs. Some annotations choose a strategy for both.
    ("hami.io/node-scheduler-policy", "binpack"),
    ("hami.io/gpu-scheduler-policy", "spread"),
}


class Key(NamedTuple):
    """A key of a pod: the object or list that has it, its place there, its name, and its value."""

    path: FieldPath
    place: str | int
    name: str
    value: YamlValue


def list_contexts() -> list[TranslationContext]:
    """Nothing known; a driver that shares GPUs; partitions and NICs; and our own allocator."""
    decisions = Decisions(allow_loss_of=("isolation", "exclusivity"))
    facts = [
        None,
        worlds.facts(("hgx-h100 hami-core-gpu.project-hami.io",)),
        worlds.facts(("hgx-h100 gpu.nvidia.com memory", "dgx-a100 gpu.nvidia.com static-mig")),
    ]
    bridge = Configuration(placement=Placement.BRIDGE, decisions=decisions)
    plain = Configuration(decisions=decisions)
    return [*(make_context(plain, each) for each in facts), make_context(bridge, facts[1])]


CONTEXTS = list_contexts()


def list_keys(pod: YamlValue) -> Iterator[Key]:
    """Yield the keys of a pod that a translation may remove."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    yield from _list_items(metadata.get("annotations"), ("metadata", "annotations"))
    yield from _list_items(metadata.get("labels"), ("metadata", "labels"))
    yield from _list_items(spec.get("nodeSelector"), ("spec", "nodeSelector"))
    fields = {name: spec[name] for name in ("schedulerName", "runtimeClassName") if name in spec}
    yield from _list_items(fields, ("spec",))
    for position, name in enumerate(metadata.get("finalizers") or ()):
        yield Key(("metadata", "finalizers"), position, name, name)
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        yield Key(("spec", "schedulingGates"), position, gate["name"], gate)
    yield from _list_expressions(spec.get("affinity") or {}, ("spec", "affinity"))
    for part in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(part) or ()):
            if isinstance(container, dict):
                yield from _list_container(container, ("spec", part, number))


def _list_items(fields: Mapping[str, YamlValue] | None, path: FieldPath) -> Iterator[Key]:
    for name, value in (fields or {}).items():
        yield Key(path, name, name, value)


def _list_container(container: Mapping[str, YamlValue], path: FieldPath) -> Iterator[Key]:
    resources = container.get("resources")
    for part in ("limits", "requests"):
        listed = resources.get(part) if isinstance(resources, dict) else None
        yield from _list_items(listed, (*path, "resources", part))
    for position, variable in enumerate(container.get("env") or ()):
        yield Key((*path, "env"), position, variable["name"], variable)


def _list_expressions(value: YamlValue, path: FieldPath) -> Iterator[Key]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        if key == "matchExpressions":
            for position, term in enumerate(child):
                yield Key((*path, key), position, term["key"], term)
        elif isinstance(child, dict | list):
            yield from _list_expressions(child, (*path, key))


def find_removed(pod: YamlValue, after: YamlValue) -> list[Key]:
    """Return the keys that a pod no longer has."""
    left = {(key.path[:3], key.name) for key in list_keys(after)}
    return [key for key in list_keys(pod) if (key.path[:3], key.name) not in left]


def strip(pod: YamlValue, key: Key) -> YamlValue:
    """Return a translated pod without our annotations and without a key."""
    stripped = copy.deepcopy(pod)
    metadata = stripped.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    for name in OURS | {key.name}:
        annotations.pop(name, None)
    for part in ("annotations", "labels"):
        (metadata.get(part) or {}).pop(key.name, None)
        if not metadata.get(part):
            metadata.pop(part, None)
    return [metadata, stripped["spec"]]


def alter(pod: YamlValue, key: Key) -> Iterator[YamlValue]:
    """Yield the pod without a key, and with other amounts."""
    without: YamlValue = copy.deepcopy(pod)
    holder: YamlValue = get_value(without, key.path)
    del holder[key.place]
    yield without
    text = f"{key.value}".removeprefix("+")
    number = text.removesuffix("Gi")
    for amount in (
        (int(number) + 1, int(number) // 2, int(number) * 16) if number.isdecimal() else ()
    ):
        other: YamlValue = copy.deepcopy(pod)
        holder = get_value(other, key.path)
        unit = text.removeprefix(number)
        holder[key.place] = amount if isinstance(key.value, int) else f"{amount}{unit}"
        yield other


def is_in_claim(pod: YamlValue, key: Key, done: Translation, context: TranslationContext) -> bool:
    """Whether the claims and the rest of the pod change with a key."""
    result = (done.templates, strip(apply_edits(pod, done.edits), key))
    for other in alter(pod, key):
        changed = translate(other, context)
        if (changed.templates, strip(apply_edits(other, changed.edits), key)) != result:
            return True
    return key.value in (0, "0") or (key.name, f"{key.value}") in DEFAULTS


def find_silent(pod: YamlValue, context: TranslationContext) -> list[str]:
    """Return the removed keys that are in no claim and that no finding names."""
    done = translate(pod, context)
    if not done.edits:
        return []
    told = "\n".join(f"{each.path} {each.message}" for each in done.findings)
    removed = find_removed(pod, apply_edits(pod, done.edits))
    return [
        f"{key.name}: {key.value}"
        for key in removed
        if key.name not in told and not is_in_claim(pod, key, done, context)
    ]


class Parts(NamedTuple):
    """The parts of the pods of one table."""

    annotations: list[tuple[str, YamlValue]]
    labels: list[tuple[str, YamlValue]]
    limits: list[YamlValue]
    specs: list[tuple[str, YamlValue]]


def collect_parts(cases: list[YamlValue]) -> Parts:
    parts = Parts([], [], [], [])
    for case in cases:
        pod = build_pod(case)
        if not isinstance(pod, dict):
            continue
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        parts.annotations.extend((metadata.get("annotations") or {}).items())
        parts.labels.extend((metadata.get("labels") or {}).items())
        for listed in (spec.get("containers"), spec.get("initContainers")):
            for container in listed if isinstance(listed, list) else ():
                resources = container.get("resources") if isinstance(container, dict) else None
                limits = resources.get("limits") if isinstance(resources, dict) else None
                if isinstance(limits, dict) and limits:
                    parts.limits.append(limits)
        parts.specs.extend(
            (name, value)
            for name, value in spec.items()
            if name not in ("containers", "initContainers", "nodeName")
        )
    return parts


PARTS = [collect_parts(load_cases(table)) for table in TABLES]
LABELS = PARTS[[table.stem for table in TABLES].index("labels")]


def make_pod(number: int) -> YamlValue:
    """Make a pod of random parts of one table, some with the node labels of another one."""
    random_ = random.Random(number)  # a reproducible pod
    parts = random_.choice(PARTS)
    containers: YamlValue = [
        {"name": name, "resources": {"limits": random_.choice(parts.limits)}}
        for name in ("main", "side")[: random_.choice((1, 1, 1, 2))]
    ]
    spec: YamlValue = {"containers": containers}
    if random_.random() < 0.2:
        limits = random_.choice(parts.limits)
        restart = {"restartPolicy": "Always"} if random_.random() < 0.3 else {}
        spec["initContainers"] = [{"name": "init", "resources": {"limits": limits}, **restart}]
    for name, value in random_.sample(parts.specs, min(len(parts.specs), random_.choice((0, 1)))):
        spec[name] = value
    if random_.random() < 0.3:
        name, value = random_.choice(LABELS.specs)
        spec[name] = value
    if random_.random() < 0.2:
        containers[0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    metadata = {
        part: dict(random_.sample(listed, min(len(listed), random_.choice((0, 1, 1, 2, 3, 4)))))
        for part, listed in (("annotations", parts.annotations), ("labels", parts.labels))
    }
    if "tensor-fusion.ai/enabled" in f"{parts.annotations}":
        metadata["annotations"]["tensor-fusion.ai/is-local-gpu"] = "true"
    return copy.deepcopy({"metadata": metadata, "spec": spec})


CASES = [
    pytest.param(build_pod(case), id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in load_cases(table)
]


@every_row("pod", CASES)
def test_no_key_of_the_tables_goes_in_silence(pod: YamlValue) -> None:
    for context in CONTEXTS:
        assert find_silent(pod, context) == []


def test_no_key_of_random_pods_goes_in_silence() -> None:
    translated = 0
    silent: dict[str, int] = {}
    for number in range(drawn(100, 40_000)):
        pod = make_pod(number)
        context = CONTEXTS[number % len(CONTEXTS)]
        translated += bool(translate(pod, context).edits)
        for key in find_silent(pod, context):
            silent.setdefault(key, number)
    assert silent == {}
    assert translated > drawn(100, 40_000) // 10
