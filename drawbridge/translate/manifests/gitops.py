"""Reports values and patches that a GitOps tool applies to objects that it renders itself.

A table lists the fields of each kind. What they change is known after the tool has rendered it, so
the fields stay as they are, and the finding names the devices in them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.document import Source
from drawbridge.documents.paths import Path, format_path
from drawbridge.documents.read import read_documents
from drawbridge.documents.values import Value
from drawbridge.finding import Finding
from drawbridge.translate.manifests.codes import RENDERED_LATER
from drawbridge.translate.manifests.workloads import find_fields, find_other_requests

_KUSTOMIZE: Final = ("patches", "patchesStrategicMerge", "patchesJson6902", "components")
_ARGO_SOURCE: Final = (
    *(f"helm.{key}" for key in ("values", "valuesObject", "valueFiles", "parameters")),
    *(f"kustomize.{key}" for key in _KUSTOMIZE),
    "plugin.env",
    "plugin.parameters",
)


def _argo(under: str) -> tuple[str, ...]:
    sources = (f"{under}.source", f"{under}.sources[]")
    return tuple(f"{source}.{key}" for source in sources for key in _ARGO_SOURCE)


_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("helm.toolkit.fluxcd.io", "HelmRelease"): (
        "spec.values",
        "spec.valuesFrom",
        "spec.postRenderers",
    ),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): (
        *(f"spec.{key}" for key in _KUSTOMIZE),
        "spec.postBuild",
    ),
    ("argoproj.io", "Application"): _argo("spec"),
    ("argoproj.io", "ApplicationSet"): (*_argo("spec.template.spec"), "spec.templatePatch"),
    ("helm.cattle.io", "HelmChart"): ("spec.valuesContent", "spec.set"),
    ("helm.cattle.io", "HelmChartConfig"): ("spec.valuesContent",),
}
# `limits.nvidia\.com/gpu` of a Helm parameter, `/limits/nvidia.com~1gpu` of a JSON patch.
_IN_PATH: Final = re.compile(
    r"(?:limits|requests)[./]((?:[a-z0-9-]{1,63}\\?\.){1,8}[a-z0-9-]{1,63})(?:/|~1)([\w.\\-]{1,63})"
)


def report_carried(value: Value) -> Iterator[Finding]:
    """Yield a finding for each field of an object with values or patches for other objects."""
    for kind, path, carried in find_fields(value, _FIELDS):
        if carried:
            yield _report(kind, path, carried)


def _report(kind: str, path: Path, carried: Value) -> Finding:
    names = sorted(set(_find_names(carried)))
    devices = f"; it names {', '.join(names)}" if names else ""
    message = f"{kind} changes what it renders by {path[-1]}, which is not translated{devices}"
    return RENDERED_LATER.at(format_path(path), message)


def _find_names(value: Value) -> Iterator[str]:
    """Yield the devices that a value requests, also in the YAML that its texts contain."""
    yield from (each.name for each in find_other_requests({"": value}, ()))
    for text in _texts(value):
        for domain, name in _IN_PATH.findall(text):
            yield f"{domain}/{name}".replace("\\", "")
        for document in read_documents(Source("", text.encode(errors="replace"))):
            yield from (each.name for each in find_other_requests({"": document.value}, ()))


def _texts(value: Value) -> Iterator[str]:
    """Yield the texts in a value that can be YAML."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str) and "/" in value:
        yield value
