"""Whether a document is a Kubernetes object, and if not, what it is and what to do about it.

Templates, placeholders, patches and values files stand beside manifests in every repository.
Knows how these look, and nothing of any kind of object.
"""

import re
from collections.abc import Iterator

from documents import codes
from documents.paths import Path, format_path, get_value
from documents.problems import DocumentProblem
from documents.values import Value

# {{ .Values.x }}, {% if x %}, <% x %>: never YAML where they stand alone.
TEMPLATE = re.compile(r"\{\{|\{%|<%")
_NOT_IN_COMMENT = re.compile(r"(?m)^(?:[^#\n]|(?<=\S)#)*?(\{\{|\{%|<%)")
# Openings are enough, and cost no search for an end that may not come.
_PLACEHOLDER = re.compile(r"\$\{|\$\([A-Za-z_][\w.-]{0,200}\)|\{\{|<%")
_WHOLE = re.compile(r"(\$\{[^}\n]*\}|\$\([A-Za-z_][\w.-]*\))")
# As bytes, with the escapes that may hide them.
_SIGNS = (b"$", b"{{", b"<%", b"\\u", b"\\x")
# What an object is called and where it goes.
_IDENTITY: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "generateName"),
)
# Below these a text is a quantity or a count, and below the others it may be a script.
_QUANTITIES = frozenset({"resources", "limits", "requests", "capacity"})
_NUMBERS = frozenset({"replicas", "parallelism", "completions", "count"})
_OBJECTS = frozenset({"metadata", "spec", "template", "containers", "initContainers", "labels"})
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/")
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def may_have_placeholders(raw: bytes) -> bool:
    """Whether a text has anything that placeholders and patches are made of; most have not."""
    return any(sign in raw for sign in _SIGNS)


def check_object(value: Value, *, unfinished: bool = True) -> DocumentProblem | None:
    """Return what keeps a value from being a Kubernetes object; None when nothing does.

    Placeholders and patches are looked for where the text `may_be_unfinished`.
    """
    if isinstance(value, list) and value and all(map(_is_operation, value)):
        message = "this is a JSON patch, a list of operations"
        return DocumentProblem(codes.PATCH_NOT_OBJECT, message)
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else "a lone value"
        return DocumentProblem(codes.NOT_AN_OBJECT, f"the document is {what}, not an object")
    problem = _unfinished(value) if unfinished else None
    return problem or _identity(value)


def _unfinished(value: dict[str, Value]) -> DocumentProblem | None:
    for path, text in _placeholders(value):
        code = codes.PLACEHOLDER_NOT_FILLED
        if TEMPLATE.search(text):
            code = codes.TEMPLATE_NOT_RENDERED
        return DocumentProblem(code, f"{format_path(path)} has {_clip(text)}", path)
    for path in _directives(value, ()):
        message = f"{format_path(path)} makes this a strategic merge patch"
        return DocumentProblem(codes.PATCH_NOT_OBJECT, message, path)
    return None


def _identity(value: dict[str, Value]) -> DocumentProblem | None:
    for name in ("apiVersion", "kind"):
        given = value.get(name)
        if given is None:
            message = f"the document has no {name}{_looks_like(value)}"
            return DocumentProblem(codes.NOT_AN_OBJECT, message)
        if not isinstance(given, str) or not given:
            message = f"{name} must be text"
            return DocumentProblem(codes.NOT_AN_OBJECT, message, (name,))
    return None


def _looks_like(value: dict[str, Value]) -> str:
    if value.keys() & {"resources", "patches", "patchesStrategicMerge", "namePrefix", "bases"}:
        return "; it looks like a kustomization, give the output of `kustomize build`"
    if "metadata" in value or "spec" in value:
        return "; it looks like a patch, give the output of `kustomize build`"
    if "name" in value and "version" in value:
        return "; it looks like the Chart.yaml of a Helm chart"
    return "; it looks like the values of a Helm chart, give the output of `helm template`"


def _is_operation(value: Value) -> bool:
    return isinstance(value, dict) and value.get("op") in _OPERATIONS and "path" in value


def _placeholders(value: dict[str, Value]) -> Iterator[tuple[Path, str]]:
    """Yield the texts still to be filled in, where the meaning of the document hangs on them."""
    for path in _IDENTITY:
        text = get_value(value, path)
        if isinstance(text, str) and _PLACEHOLDER.search(text):
            yield path, text
    yield from _below(value, (), quantity=False)


def _below(value: Value, path: Path, *, quantity: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _below(item, (*path, at), quantity=quantity)
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        at_key = (*path, key)
        if _PLACEHOLDER.search(key):
            yield at_key, key
        if isinstance(child, str):
            deciding = quantity or key in _NUMBERS
            pattern = _PLACEHOLDER.search if deciding else _WHOLE.fullmatch
            if (deciding or key in _OBJECTS) and pattern(child):
                yield at_key, child
        else:
            yield from _below(child, at_key, quantity=quantity or key in _QUANTITIES)


def _directives(value: Value, path: Path) -> Iterator[Path]:
    """Yield the keys that only a strategic merge patch has."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _directives(item, (*path, at))
    elif isinstance(value, dict):
        for key, child in value.items():
            if key.startswith("$") and key.startswith(_DIRECTIVES):
                yield (*path, key)
            yield from _directives(child, (*path, key))


def find_template(text: str) -> DocumentProblem | None:
    """Say that a text that is no YAML is a template, where it looks like one."""
    found = _NOT_IN_COMMENT.search(text)
    if found is None:
        return None
    shown = _clip(text[found.start(1) :].split("\n", 1)[0])
    message = f"{shown} is for a template engine to fill in"
    return DocumentProblem(codes.TEMPLATE_NOT_RENDERED, message, offset=found.start(1))


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
