"""Recognize the ResourceClaimTemplates that Drawbridge owns.

The name of an owned template is the hash of its content. Labels and annotations do not prove
ownership, because any user can write them.
"""

import re
from collections.abc import Mapping
from typing import Final

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import FIELD_MANAGER, MANAGED_BY, TEMPLATE_PREFIX, USED_ANNOTATION
from drawbridge.translate.changes.template import make_template

_NAME: Final = re.compile(rf"{re.escape(TEMPLATE_PREFIX)}[0-9a-f]{{32}}")
_CLAIM_METADATA: Final = ("spec", "metadata")
# Bytes. Tenants write larger ones; what only describes or compares templates leaves them out.
LARGEST_TEMPLATE: Final = 65_536


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


def is_exclusively_owned(stored: Value) -> bool:
    """Return whether only Drawbridge created and changed a stored template.

    `drawbridge translate` prints templates with the same names, which other clients apply and keep
    without any pod. Such a template has another field manager. A template with a foreign label,
    annotation, owner or finalizer is managed by another client as well.
    """
    metadata = as_mapping(get_value(stored, ("metadata",)))
    managers = [as_mapping(each).get("manager") for each in as_list(metadata.get("managedFields"))]
    if set(managers) != {FIELD_MANAGER}:
        return False
    if metadata.get("ownerReferences") or metadata.get("finalizers"):
        return False
    labels = _read_strings(stored, ("metadata", "labels"))
    annotations = _read_strings(stored, ("metadata", "annotations"))
    annotations.pop(USED_ANNOTATION, None)
    own_labels = {key: text for key, text in labels.items() if MANAGED_BY.get(key) != text}
    template = make_template(
        as_mapping(get_value(stored, ("spec", "spec"))),
        labels=own_labels,
        annotations=annotations,
        claim_labels=_read_strings(stored, (*_CLAIM_METADATA, "labels")),
        claim_annotations=_read_strings(stored, (*_CLAIM_METADATA, "annotations")),
    )
    return metadata.get("name") == template.name


def _read_strings(stored: Value, path: tuple[str, ...]) -> dict[str, str]:
    values: Mapping[str, Value] = as_mapping(get_value(stored, path))
    return {key: value for key, value in values.items() if isinstance(value, str)}
