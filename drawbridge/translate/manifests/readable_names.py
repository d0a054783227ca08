"""Gives the templates of an object readable names, for manifests that people read and commit.

A name has the object, the role of the pod in it, the kinds of devices, and the beginning of the
content hash: `train-worker-gpu-41bcef07`. So it is stable, differs from the names of other objects
and roles, and never gets other content. Such a template belongs to those who applied it: the
controller neither creates nor deletes it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import TEMPLATE_PREFIX
from drawbridge.translate.changes.template import READABLE_DIGITS, ClaimTemplate, generate_name
from drawbridge.translate.context import Translation
from drawbridge.translate.manifests.replicas import count_pods
from drawbridge.translate.manifests.workloads import Place

_MOST: Final = 200  # letters before the hash; the name of an object has at most 253
_NUMBER: Final = re.compile(r"-\d+$")
_OTHER_LETTERS: Final = re.compile(r"[^a-z0-9]+")


def rename_templates(value: Value, place: Place, translation: Translation) -> Translation:
    """Rename the templates of one pod template, also in the edits that refer to them."""
    names = {each.name: _make_name(value, place, each) for each in translation.templates}
    return replace(
        translation,
        edits=tuple(Edit(e.op, e.path, _rename(e.value, names)) for e in translation.edits),
        templates=tuple(_rename_template(each, names) for each in translation.templates),
    )


def _make_name(value: Value, place: Place, template: ClaimTemplate) -> str:
    metadata = as_mapping(get_value(value, ("metadata",)))
    kind = as_mapping(value).get("kind")
    owner = metadata.get("name") or metadata.get("generateName") or kind
    parts = [f"{owner}", count_pods(value, place).name, *_device_kinds(template)]
    text = _OTHER_LETTERS.sub("-", "-".join(filter(None, parts)).lower()).strip("-")
    return f"{text[:_MOST]}-{_digest(template.name)}"


def _device_kinds(template: ClaimTemplate) -> Iterator[str]:
    """Yield the names of the requests without their numbers."""
    requests = as_list(get_value(template.object, ("spec", "spec", "devices", "requests")))
    yield from dict.fromkeys(_NUMBER.sub("", f"{as_mapping(e).get('name')}") for e in requests)


def _digest(name: str) -> str:
    return name.removeprefix(TEMPLATE_PREFIX)[:READABLE_DIGITS]


def has_readable_name(stored: Mapping[str, Value]) -> bool:
    """Whether the name of a template ends with the hash of its content, as readable names do."""
    metadata, spec = as_mapping(stored.get("metadata")), as_mapping(stored.get("spec"))
    return f"{metadata.get('name')}".endswith(f"-{_digest(generate_name(metadata, spec))}")


def _rename_template(template: ClaimTemplate, names: Mapping[str, str]) -> ClaimTemplate:
    name = names[template.name]
    metadata = {**as_mapping(template.object["metadata"]), "name": name}
    return ClaimTemplate(name, {**template.object, "metadata": metadata})


def _rename(value: Value, names: Mapping[str, str]) -> Value:
    """Replace generated names in all texts of a value, which also are in the undo patch."""
    if isinstance(value, dict):
        return {key: _rename(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rename(inner, names) for inner in value]
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value
