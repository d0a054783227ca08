"""Describes what a legacy pod requests, in the words of its fields."""

from collections.abc import Iterator, Mapping
from typing import Final

from drawbridge.documents.paths import Path
from drawbridge.documents.values import as_mapping
from drawbridge.translate.legacy.asks import PodRequests, SourceField

_MAX_VALUE: Final = 64
# What a person calls fields of Kubernetes.
_NAMES: Final = {"schedulerName": "scheduler"}
_NAMES_OF_LISTS: Final = {
    "schedulingGates": "scheduling gate",
    "finalizers": "finalizer",
    "preferredDuringSchedulingIgnoredDuringExecution": "node affinity",
}
_PRINTED: Final = (str, int, float)


def describe_requests(requests: PodRequests) -> Iterator[str]:
    """Yield the fields that request devices; a number of devices is that of the whole pod."""
    numbers = {ask.resources[0] for ask in requests.asks if ask.resources}
    amounts: dict[str, dict[Path, str]] = {}
    for field in requests.source_fields:
        name, text = _describe_field(field)
        amounts.setdefault(name, {})[field.path[:-1] if name == field.name else field.path] = text
    for name, texts in amounts.items():
        if name in numbers and all(text.isdecimal() for text in texts.values()):
            yield f"{name} {_sum_containers(texts)}"
        else:
            yield f"{name} {_truncate(', '.join(dict.fromkeys(texts.values())))}".rstrip()


def _sum_containers(texts: Mapping[Path, str]) -> int:
    """Sum what the containers of a pod use at the same time; init containers run before."""
    init = [int(text) for path, text in texts.items() if path[1] == "initContainers"]
    total = sum(int(text) for path, text in texts.items() if path[1] != "initContainers")
    return max(total, *init) if init else total


def _describe_field(field: SourceField) -> tuple[str, str]:
    """Return the name and the text of a field as a person calls it."""
    text = f"{field.value}" if isinstance(field.value, _PRINTED) else ""
    name = f"{field.name}"
    if isinstance(field.name, int):
        name = _NAMES_OF_LISTS.get(f"{field.path[-1]}", f"{field.path[-1]}")
        text = text or f"{as_mapping(field.value).get('name', '')}"
    elif field.path[-1:] == ("nodeAffinity",):
        name = "node affinity"
    return _NAMES.get(name, name), " ".join(text.split())


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."
