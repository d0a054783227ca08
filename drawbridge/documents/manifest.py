"""Checks whether a document is a Kubernetes object, and reports what it is otherwise.

Repositories mix manifests with templates, placeholders, patches and values files, which this module
recognizes.
"""

import re
from collections.abc import Iterator

from drawbridge.documents import codes
from drawbridge.documents.construct import clip
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.problems import DocumentProblem
from drawbridge.documents.values import Value

# {{ .Values.x }}, {% if x %}, <% x %>: not valid YAML on their own.
TEMPLATE = re.compile(r"\{\{|\{%|<%")
_NOT_IN_COMMENT = re.compile(r"(?m)^(?:[^#\n]|(?<=\S)#)*?(\{\{|\{%|<%)")
# Matching the opening is enough, and needs no search for a missing end.
_PLACEHOLDER = re.compile(r"\$\{|\$\([A-Za-z_][\w.-]{0,200}\)|\{\{|<%")
# A variable as envsubst replaces it. Keys may begin with a dollar sign.
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
_ONLY_PLACEHOLDER = re.compile(r"(\$\{[^}\n]*\}|\$\([A-Za-z_][\w.-]*\))")
# As bytes, with the escapes that can encode them.
_MARKERS = (b"$", b"{{", b"<%", b"\\u", b"\\x")
# Parameters that the controller of an object fills in at run time, by API group of the object.
_PARAMETERS = {
    "argoproj.io": (
        "an Argo parameter",
        re.compile(
            r"\{\{(?:=|\s*(?:inputs|outputs|workflow|cronworkflow|item|steps|tasks|pod|node|retries"
            r"|lastRetry)\b)[^{}]*\}\}"
        ),
    ),
    "tekton.dev": (
        "a Tekton parameter",
        re.compile(r"\$\((?:params|tasks|context|workspaces|steps)\b[\w.*'\"\[\]-]*\)"),
    ),
}
_HELM = re.compile(
    r"\{\{-?\s*(?:[.$(/]|(?:if|else|end|range|with|include|template|define|block|tpl|default"
    r"|required|quote|toYaml|fromYaml|printf|lookup|index|int|mul|add)\b)"
)
_ENGINES = (("{%", "a Jinja template"), ("<%", "an ERB template"), ("{{", "a template"))
# The fields that identify an object.
_IDENTITY: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "generateName"),
)
# Strings below these fields are quantities or counts; elsewhere they may be scripts.
_QUANTITIES = frozenset({"resources", "limits", "requests", "capacity"})
_NUMBERS = frozenset({"replicas", "parallelism", "completions", "count"})
_OBJECTS = frozenset({"metadata", "spec", "template", "containers", "initContainers", "labels"})
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/")
_KUSTOMIZATION = ("resources", "bases", "components", "patches", "patchesStrategicMerge")
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def may_have_placeholders(raw: bytes) -> bool:
    """Whether a text contains characters of placeholders or patches; most texts do not."""
    # A single character is found much faster than two.
    return any(marker[:1] in raw and marker in raw for marker in _MARKERS)


def describe_placeholder(text: str) -> str:
    """Name what a text with a placeholder is: an Argo parameter, a Helm template; empty if none."""
    for name, pattern in _PARAMETERS.values():
        if pattern.search(text):
            return name
    if _HELM.search(text):
        return "a Helm template"
    engine = next((name for sign, name in _ENGINES if sign in text), "")
    is_placeholder = _PLACEHOLDER.search(text) or _VARIABLE.search(text)
    return engine or ("a placeholder" if is_placeholder else "")


def check_object(value: Value, *, unfinished: bool = True) -> DocumentProblem | None:
    """Return why a value is not a Kubernetes object; None if it is one.

    Looks for placeholders and patches only if `unfinished` is set.
    """
    if isinstance(value, list) and value and all(map(_is_operation, value)):
        message = "the document is a JSON patch, not an object"
        return DocumentProblem(codes.PATCH_NOT_OBJECT, message)
    if not isinstance(value, dict):
        actual = "a list" if isinstance(value, list) else "a single value"
        return DocumentProblem(codes.NOT_AN_OBJECT, f"the document is {actual}, not an object")
    problem = _find_unfinished(value) if unfinished else None
    return problem or _check_identity(value)


def _find_unfinished(value: dict[str, Value]) -> DocumentProblem | None:
    group = f"{value.get('apiVersion')}".partition("/")[0]
    _, parameter = _PARAMETERS.get(group, ("", None))
    for path, text in _placeholders(value):
        if parameter and not _PLACEHOLDER.search(parameter.sub("", text)):
            continue
        code = codes.PLACEHOLDER_NOT_FILLED
        if TEMPLATE.search(text):
            code = codes.TEMPLATE_NOT_RENDERED
        message = f"{format_path(path)} is {describe_placeholder(text)}: {clip(text)}"
        return DocumentProblem(code, message, path)
    for path in _directives(value, ()):
        message = f"{format_path(path)} makes this document a strategic merge patch"
        return DocumentProblem(codes.PATCH_NOT_OBJECT, message, path)
    return None


def _check_identity(value: dict[str, Value]) -> DocumentProblem | None:
    for name in ("apiVersion", "kind"):
        field = value.get(name)
        if field is None:
            message = f"the document has no {name}{_guess_kind(value)}"
            return DocumentProblem(codes.NOT_AN_OBJECT, message)
        if not isinstance(field, str) or not field:
            message = f"{name} must be text"
            return DocumentProblem(codes.NOT_AN_OBJECT, message, (name,))
    return None


def _guess_kind(value: dict[str, Value]) -> str:
    # The values of a chart often have `resources` too, but those are an object.
    if "namePrefix" in value or any(isinstance(value.get(key), list) for key in _KUSTOMIZATION):
        return "; it looks like a kustomization: pass the output of `kustomize build`"
    if "metadata" in value or "spec" in value:
        return "; it looks like a patch: pass the output of `kustomize build`"
    if "name" in value and "version" in value:
        return "; it looks like the Chart.yaml of a Helm chart"
    return "; it looks like the values of a Helm chart: pass the output of `helm template`"


def _is_operation(value: Value) -> bool:
    return isinstance(value, dict) and value.get("op") in _OPERATIONS and "path" in value


def _placeholders(value: dict[str, Value]) -> Iterator[tuple[Path, str]]:
    """Yield the placeholders in fields that determine the meaning of the document."""
    for path in _IDENTITY:
        text = get_value(value, path)
        if isinstance(text, str) and _holds_placeholder(text):
            yield path, text
    yield from _placeholders_below(value, (), quantity=False)


def _holds_placeholder(text: str) -> bool:
    return bool(_PLACEHOLDER.search(text) or _VARIABLE.search(text))


def _placeholders_below(value: Value, path: Path, *, quantity: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _placeholders_below(item, (*path, at), quantity=quantity)
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        at_key = (*path, key)
        if _PLACEHOLDER.search(key):
            yield at_key, key
        if isinstance(child, str):
            decides_meaning = quantity or key in _NUMBERS
            pattern = _holds_placeholder if decides_meaning else _ONLY_PLACEHOLDER.fullmatch
            if (decides_meaning or key in _OBJECTS) and pattern(child):
                yield at_key, child
        else:
            yield from _placeholders_below(child, at_key, quantity=quantity or key in _QUANTITIES)


def _directives(value: Value, path: Path) -> Iterator[Path]:
    """Yield the paths of keys that only a strategic merge patch has."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _directives(item, (*path, at))
    elif isinstance(value, dict):
        for key, child in value.items():
            if key.startswith("$") and key.startswith(_DIRECTIVES):
                yield (*path, key)
            yield from _directives(child, (*path, key))


def find_template(text: str) -> DocumentProblem | None:
    """Report that a text that is not YAML looks like a template; None if it does not."""
    template = _NOT_IN_COMMENT.search(text)
    if template is None:
        return None
    shown = text[template.start(1) :].split("\n", 1)[0]
    name = describe_placeholder(shown)
    code = codes.TEMPLATE_NOT_RENDERED
    if any(pattern.match(shown) for _, pattern in _PARAMETERS.values()):
        code = codes.PARAMETER_NOT_QUOTED
    return DocumentProblem(code, f"{clip(shown)} is {name}", offset=template.start(1))
