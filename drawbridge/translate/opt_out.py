"""The label by which a pod, or the template of pods, keeps its requests as they are."""

from collections.abc import Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.names import TRANSLATE_LABEL

_OFF: Final = "off"
# What a finding says of it, and where.
LABEL: Final = f"metadata.labels[{TRANSLATE_LABEL}]"
TEXT: Final = "the label opts out, so the requests for devices stay as they are"


def opts_out(labels: Mapping[str, object]) -> bool:
    """Return whether a pod with these labels opts out."""
    return labels.get(TRANSLATE_LABEL) == _OFF


def is_opted_out(pod: Value) -> bool:
    """Return whether a pod or a pod template opts out by its label."""
    return opts_out(as_mapping(get_value(pod, ("metadata", "labels"))))
