"""Which templates are ours: those whose name stands for their content.

Anybody may write a label or an annotation; nobody finds another content for a name. Knows nothing
of pods.
"""

import re
from collections.abc import Mapping
from typing import Final

from documents.paths import get
from documents.values import Value
from dra.names import TEMPLATE_PREFIX, USED_ANNOTATION
from translate.changes.template import template
from translate.legacy.pod_view import mapping

# When a pod last referred to it, as admission notes; the content does not say it.
_NAME: Final = re.compile(rf"{re.escape(TEMPLATE_PREFIX)}[0-9a-f]{{32}}")
_INNER: Final = ("spec", "metadata")


def may_be_ours(name: str) -> bool:
    """Whether a template may be ours by its name."""
    return _NAME.fullmatch(name) is not None


def stands_for_content(stored: Value) -> bool:
    """Whether the name of a stored template is the hash of what it says.

    Labels and annotations that somebody put on it later are passed over, if it had none before.
    """
    name = get(stored, ("metadata", "name"))
    spec = mapping(get(stored, ("spec", "spec")))
    inner = {
        "claim_labels": _texts(stored, (*_INNER, "labels")),
        "claim_annotations": _texts(stored, (*_INNER, "annotations")),
    }
    labels = _texts(stored, ("metadata", "labels"))
    annotations = _texts(stored, ("metadata", "annotations"))
    annotations.pop(USED_ANNOTATION, None)
    own = template(spec, **inner)
    marked = template(spec, labels=labels, annotations=annotations, **inner)
    return name in (own.name, marked.name)


def _texts(stored: Value, path: tuple[str, ...]) -> dict[str, str]:
    held: Mapping[str, Value] = mapping(get(stored, path))
    return {key: value for key, value in held.items() if isinstance(value, str)}
