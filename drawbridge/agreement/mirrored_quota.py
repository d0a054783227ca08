"""Reads the mirrored ResourceQuota of a namespace: which classes its claims count for, by name.

The controller writes it, and admission tells users of the limits that it divides.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import msgspec

from drawbridge.names import MANAGED_BY, MIRRORED_QUOTA, QUOTA_CLASSES_ANNOTATION

Classes: TypeAlias = Mapping[str, AbstractSet[str]]  # by name
# A tenant can write the annotation: admission reads no longer one, and memory keeps none of a quota
# that is too large.
MAX_CLASSES_TEXT: Final = 4096


def is_managed(labels: Mapping[str, str] | None) -> bool:
    """Tell whether labels say that Drawbridge manages an object."""
    return MANAGED_BY.items() <= (labels or {}).items()


def is_mirrored(name: str, labels: Mapping[str, str] | None) -> bool:
    """Tell whether a ResourceQuota is labelled as that of Drawbridge."""
    return name == MIRRORED_QUOTA and is_managed(labels)


def read_classes(annotations: Mapping[str, str] | None) -> Classes:
    """Return the classes whose claims count for a name, as the last write noted them."""
    text = (annotations or {}).get(QUOTA_CLASSES_ANNOTATION, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, frozenset[str]])
    except (msgspec.MsgspecError, UnicodeError):
        return {}


def group_by_class(classes: Classes) -> list[set[str]]:
    """Group the names that become devices of a common class: they share a limit."""
    names = defaultdict[str, set[str]](set)
    for name, own in classes.items():
        for each in own:
            names[each].add(name)
    groups, left = list[set[str]](), set(classes)
    for first in classes:
        group, pending = set[str](), [first]
        while pending:
            if (name := pending.pop()) in left:
                left.remove(name)
                group.add(name)
                # Each class once: a tenant can write the annotation.
                pending += (other for each in classes[name] for other in names.pop(each, ()))
        if group:
            groups.append(group)
    return groups
