"""Dialects and translations read no field of a pod that they do not declare."""

import functools
from collections.abc import Iterator
from typing import Any

from drawbridge.config.model import Configuration, Legacy, Placement
from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.documents.values import Value, as_mapping
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.essence import METADATA_FIELDS, reduce_to_essence
from drawbridge.translate.legacy import pod_view
from drawbridge.translate.legacy.asks import PodRequests
from drawbridge.translate.legacy.dialects import Dialect
from drawbridge.translate.legacy.pod_view import view_pod
from drawbridge.translate.legacy.read import DIALECTS
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row
from tests.translate.test_interest import pods

Path = tuple[str, ...]
NETWORKED = Legacy(networks={NetworkName("default/a"): ResourceName("intel.com/vf")})
# A value in place of each field that a pod of the tables does not have.
UNREAD: Value = {"value": "1"}
FIELDS_OF_METADATA = (
    "name", "generateName", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
    "managedFields", "finalizers", "namespace",
)  # fmt: skip
FIELDS_OF_CONTAINER = (
    "image", "imagePullPolicy", "command", "args", "ports", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle", "workingDir", "terminationMessagePath", "terminationMessagePolicy",
    "volumeMounts", "volumeDevices", "securityContext", "stdin", "stdinOnce", "tty", "envFrom",
    "resizePolicy", "restartPolicy", "restartPolicyRules",
)  # fmt: skip
FIELDS_OF_POD = (
    "hostname", "subdomain", "serviceAccountName", "serviceAccount", "imagePullSecrets",
    "automountServiceAccountToken", "dnsPolicy", "priorityClassName", "securityContext",
)  # fmt: skip


class RecordingObject(dict[str, Any]):
    """An object of a pod that records which of its fields are read by name."""

    def __init__(self, value: dict[str, Any], path: Path, reads: set[Path]) -> None:
        super().__init__({key: record(each, (*path, key), reads) for key, each in value.items()})
        self._path, self._reads = path, reads

    def __getitem__(self, key: str) -> YamlValue:
        self._reads.add((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: YamlValue = None) -> YamlValue:
        """Record and return a field."""
        self._reads.add((*self._path, key))
        return super().get(key, default)


def record(value: YamlValue, path: Path, reads: set[Path]) -> YamlValue:
    """Replace every object in a value by one that records."""
    if isinstance(value, dict):
        return RecordingObject(value, path, reads)
    if isinstance(value, list):
        return [record(each, (*path, "*"), reads) for each in value]
    return value


def fill(pod: YamlValue) -> YamlValue:
    """Add every field that may be missing."""
    spec = dict(pod["spec"])
    for part in ("containers", "initContainers"):
        if isinstance(spec.get(part), list):
            spec[part] = [
                {**dict.fromkeys(FIELDS_OF_CONTAINER, UNREAD), **one}
                if isinstance(one, dict)
                else one
                for one in spec[part]
            ]
    metadata = pod.get("metadata") or {}
    if isinstance(metadata, dict):
        metadata = {**dict.fromkeys(FIELDS_OF_METADATA, UNREAD), **metadata}
    return {"metadata": metadata, "spec": {**dict.fromkeys(FIELDS_OF_POD, UNREAD), **spec}}


def blanked(before: Value, after: Value, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values that the essence replaced."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield (*path, key)
            else:
                yield from blanked(before[key], after[key], (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        for one, other in zip(before, after, strict=True):
            yield from blanked(one, other, (*path, "*"))
    elif before != after:
        yield path


def test_a_translation_reads_no_field_that_the_essence_leaves_out() -> None:
    for placement in Placement:
        context = TranslationContext(Configuration(placement=placement))
        for plain in pods():
            if not isinstance(plain.get("spec"), dict):
                continue
            reads: set[Path] = set()
            pod = fill(plain)
            translate(record(pod, (), reads), context, "team")
            left_out = {path for path in blanked(pod, reduce_to_essence(pod)) if "env" not in path}
            assert ("metadata", "uid") in left_out
            assert not reads & left_out, (reads & left_out, pod)


def list_fields(reads: set[Path]) -> set[str]:
    """Write the fields of a pod that were read as dialects declare them."""
    fields = set()
    for path in reads:
        if path[:1] == ("spec",) and path[1:2] in {("containers",), ("initContainers",)}:
            fields |= {f"container.{path[3]}"} if len(path) > 3 else set()
        elif len(path) > 1:
            fields.add(f"{path[0]}.{path[1]}")
    return fields


@functools.cache
def views() -> list[tuple[pod_view.PodView, Legacy, set[Path]]]:
    """Return views of all pods, with the set that records what is read from each."""
    recorded = []
    for pod in pods():
        if isinstance(pod.get("spec"), dict):
            for legacy in (Legacy(), NETWORKED):
                reads: set[Path] = set()
                view = view_pod(record(fill(pod), (), reads), legacy)
                recorded.append((view, legacy, reads))
    return recorded


def read_alone(dialect: Dialect) -> set[str]:
    """The fields of all pods that a dialect reads from the view, whatever triggers it."""
    fields: set[str] = set()
    for view, legacy, reads in views():
        reads.clear()
        dialect.read(view, legacy)
        fields |= list_fields(reads)
    return fields


@every_row("dialect", DIALECTS, ids=[each.NAME for each in DIALECTS])
def test_a_dialect_reads_the_fields_that_it_declares_and_no_other(dialect: Dialect) -> None:
    assert read_alone(dialect) - pod_view.READS == dialect.READS


class CarelessDialect:
    """Reads a field that it does not declare."""

    NAME = "careless"
    TRIGGERS = READS = frozenset[str]()
    STANDALONE_KEYS = ALLOCATED = ()

    def read(self, pod: pod_view.PodView, legacy: Legacy) -> PodRequests:
        """Read the host name."""
        del legacy
        return PodRequests(dialects=(str(pod.spec.get("hostname")),))


def test_a_field_that_is_not_declared_is_noticed() -> None:
    assert read_alone(CarelessDialect()) == {"spec.hostname"}


def test_a_translation_edits_only_metadata_that_determines_it() -> None:
    edited: set[str] = set()
    for pod in pods():
        for edit in translate(pod, TranslationContext()).edits:
            if edit.path == ("metadata",):
                edited |= as_mapping(edit.value).keys()
            elif edit.path[0] == "metadata":
                edited.add(str(edit.path[1]))
    assert edited <= set(METADATA_FIELDS)
    assert {"annotations", "finalizers", "labels"} <= edited
