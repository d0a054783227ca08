"""Generates the templates of the Helm chart from the kustomize base and components.

The base is the source: a change there reaches the chart by `make docs`. `tools.chart_values` says
which fields the values of the chart control. Tests render both and compare the objects. The schema
of the values is written by hand, except for the schema of the configuration in it, and for what is
required.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from drawbridge.config.schema import configuration_schema
from tools import chart_readme, chart_values
from tools.chart_text import Placeholders

JSON = dict[str, Any]
MANIFESTS: Final = Path(__file__).parent.parent / "manifests"
CHART: Final = MANIFESTS / "chart" / "drawbridge"
NAMESPACE: Final = "drawbridge-system"
# kustomize sets the namespace of all kinds but these.
_CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "FlowSchema",
        "MutatingWebhookConfiguration",
        "Namespace",
        "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
# Values that a null removes, as in other charts: without them, less is set.
_REMOVABLE: Final = frozenset({"configuration", "resources"})
# Helm creates the namespace of a release itself.
_LEFT_OUT: Final = frozenset({"Namespace"})
HEADER: Final = "{{/* Generated from manifests/%s by `make docs`. Do not edit. */}}\n"


def read_base(folder: Path) -> Iterable[tuple[Path, list[JSON]]]:
    """Yield each file of a kustomization with its objects, as kustomize completes them."""
    kustomization = yaml.load((folder / "kustomization.yaml").read_text("utf-8"), yaml.CSafeLoader)
    pairs = [each["pairs"] for each in kustomization.get("labels", ())]
    for name in kustomization.get("resources", ()):
        path = folder / name
        objects = list(yaml.load_all(path.read_text("utf-8"), yaml.CSafeLoader))
        for obj in objects:
            metadata = obj["metadata"]
            for labels in pairs:
                metadata["labels"] = {**metadata.get("labels", {}), **labels}
            if "namespace" in kustomization and obj["kind"] not in _CLUSTER_SCOPED:
                metadata["namespace"] = kustomization["namespace"]
        yield path, objects


def render_file(path: Path, objects: list[JSON]) -> str:
    """Return the template of one file of the base."""
    texts = [_render_object(each) for each in objects if each["kind"] not in _LEFT_OUT]
    if not texts:
        return ""
    return HEADER % path.relative_to(MANIFESTS) + "".join(texts)


def _render_object(source: JSON) -> str:
    holders = Placeholders()
    condition = chart_values.edit(source, holders)
    text = holders.dump(_with_namespace(source, holders))
    if condition:
        return f"{{{{- if {condition} }}}}\n---\n{text}{{{{- end }}}}\n"
    return f"---\n{text}"


def _with_namespace(value: Any, holders: Placeholders) -> Any:  # noqa: ANN401  # JSON
    """Replace the namespace of the base by that of the release, everywhere."""
    if isinstance(value, dict):
        return {
            _with_namespace(key, holders): _with_namespace(item, holders)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_with_namespace(each, holders) for each in value]
    if isinstance(value, str) and NAMESPACE in value:
        return holders.quote(value, NAMESPACE, "{{ .Release.Namespace }}")
    return value


def render_all() -> dict[Path, Callable[[], str]]:
    """Return the generated files of the chart, each with the function that renders it."""
    files: dict[Path, Callable[[], str]] = {
        CHART / "README.md": lambda: chart_readme.render(
            (CHART / "values.yaml").read_text("utf-8")
        ),
        CHART / "values.schema.json": _render_values_schema,
    }
    folders = [MANIFESTS / "base", *sorted((MANIFESTS / "components").iterdir())]
    for folder in folders:
        for path, objects in read_base(folder):
            if text := render_file(path, objects):
                files[CHART / "templates" / path.name] = lambda text=text: text  # type: ignore[misc]
    return files


def _render_values_schema() -> str:
    """Return the schema of the values with the current schema of the configuration."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.load((CHART / "values.yaml").read_text("utf-8"), yaml.CSafeLoader)
    _require_values(schema, values)
    # Older versions of Helm read draft 7 only, which ignores what stands beside a reference.
    text = json.dumps(configuration_schema()).replace("#/$defs/", "#/definitions/")
    configuration = json.loads(text)
    schema["properties"]["configuration"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: field for name, field in configuration["properties"].items() if "not" not in field
        },
    }
    schema["definitions"] = configuration["$defs"]
    # Helm reads `off` as false, and so does the loader.
    schema["definitions"]["Policy"]["enum"].append(False)
    return json.dumps(schema, indent=2) + "\n"


def _require_values(schema: JSON, values: JSON) -> None:
    """Require each value that has a default: Helm drops nulls and their defaults first."""
    defaults = {name: value for name, value in values.items() if name not in _REMOVABLE}
    schema["required"] = [n for n, value in defaults.items() if value not in (None, "", [], {})]
    for name, value in defaults.items():
        if "properties" in schema["properties"][name]:
            _require_values(schema["properties"][name], value)


def find_unknown_values(templates: Mapping[str, str], values: Mapping[str, Any]) -> set[str]:
    """Return the paths that the templates use and the values do not have."""
    used = {path for text in templates.values() for path in re.findall(r"\.Values\.([\w.]+)", text)}
    return {path for path in used if not _exists(values, path.split("."))}


def _exists(value: Any, names: list[str]) -> bool:  # noqa: ANN401  # JSON
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True
