"""Recognize the ResourceClaimTemplates that Drawbridge owns.

The name of an owned template is the hash of its content. Labels and annotations do not prove
ownership, because any user can write them.
"""

import re
from collections.abc import Mapping
from typing import Final

from documents.paths import get_value
from documents.values import Value
from dra.names import TEMPLATE_PREFIX, USED_ANNOTATION
from translate.changes.template import make_template
from translate.legacy.pod_view import as_mapping

_NAME: Final = re.compile(rf"{re.escape(TEMPLATE_PREFIX)}[0-9a-f]{{32}}")
_CLAIM_METADATA: Final = ("spec", "metadata")


def has_owned_name(name: str) -> bool:
    """Return whether a name has the format of an owned template's name."""
    return _NAME.fullmatch(name) is not None


def name_matches_content(stored: Value) -> bool:
    """Return whether the name of a stored template is the hash of its content.

    If the template had no labels and annotations when it was created, those that were added later
    do not matter.
    """
    name = get_value(stored, ("metadata", "name"))
    spec = as_mapping(get_value(stored, ("spec", "spec")))
    claim_metadata = {
        "claim_labels": _read_strings(stored, (*_CLAIM_METADATA, "labels")),
        "claim_annotations": _read_strings(stored, (*_CLAIM_METADATA, "annotations")),
    }
    labels = _read_strings(stored, ("metadata", "labels"))
    annotations = _read_strings(stored, ("metadata", "annotations"))
    # The time of the last use is not part of the content.
    annotations.pop(USED_ANNOTATION, None)
    plain = make_template(spec, **claim_metadata)
    annotated = make_template(spec, labels=labels, annotations=annotations, **claim_metadata)
    return name in (plain.name, annotated.name)


def _read_strings(stored: Value, path: tuple[str, ...]) -> dict[str, str]:
    values: Mapping[str, Value] = as_mapping(get_value(stored, path))
    return {key: value for key, value in values.items() if isinstance(value, str)}
