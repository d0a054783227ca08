"""Selects the pods that admission must see: those from which any dialect reads something.

The webhook's match conditions are derived from this. They keep all other pods away from admission,
so the selection is coarse but never too narrow: it covers every pod that would be translated.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from drawbridge.config.model import Configuration, Placement, Policy
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import ORIGINAL_ANNOTATION, TEMPLATE_PREFIX
from drawbridge.pod_groups import FIELDS, LABELS
from drawbridge.translate.legacy.codes import NETWORK_UNKNOWN
from drawbridge.translate.legacy.dialects import sriov
from drawbridge.translate.legacy.pod_view import KOORDINATOR_PROPOSAL, NATIVE
from drawbridge.translate.legacy.read import DIALECTS

# The reverse order, in which clusters have the match conditions already.
_KEYS: Final = tuple(key for dialect in reversed(DIALECTS) for key in dialect.STANDALONE_KEYS)
_PREFIXES: Final = tuple(key for key in _KEYS if key.endswith(("/", ".")))


class Interest(msgspec.Struct, frozen=True):
    """The keys that select a pod; any one of them is enough."""

    # Any resource with a domain outside kubernetes.io, or with one of these prefixes.
    native: str = NATIVE
    devices: tuple[str, ...] = KOORDINATOR_PROPOSAL
    annotations: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = _PREFIXES  # prefixes of annotations and labels
    templates: str = TEMPLATE_PREFIX  # prefix of the templates that the pod refers to
    mark: str = ORIGINAL_ANNOTATION  # the annotation of a translated pod
    claims: bool = False  # whether any claim of a pod selects it
    group_fields: tuple[str, ...] = ()  # fields of the spec that name a group
    group_labels: tuple[str, ...] = ()


def derive_interest(configuration: Configuration) -> Interest:
    """Derive the interest from a configuration.

    Every device resource counts, because an unknown one is reported as well. A pod that only names
    networks needs no report if its finding is off and no network is configured. In bridge
    placement, pods with claims of their own and members of groups may need another scheduler.
    """
    silent = str(configuration.findings.get(NETWORK_UNKNOWN.name, "")) == Policy.OFF  # type: ignore[call-overload]  # keys are strings of one form
    unread = sriov.STANDALONE_KEYS if silent and not configuration.legacy.networks else ()
    annotations = tuple(key for key in _KEYS if key not in (*_PREFIXES, *unread))
    if configuration.placement is not Placement.BRIDGE:
        return Interest(annotations=annotations)
    return Interest(annotations=annotations, claims=True, group_fields=FIELDS, group_labels=LABELS)


def may_be_device(name: str, interest: Interest) -> bool:
    """Whether a resource name may be a device."""
    return "/" in name and (interest.native not in name or name.startswith(interest.devices))


def covers(pod: Value, interest: Interest) -> bool:
    """Whether the interest selects a pod; the same rule as the webhook's match conditions."""
    fields = as_mapping(pod)
    spec, metadata = as_mapping(fields.get("spec")), as_mapping(fields.get("metadata"))
    annotations, labels = (
        as_mapping(metadata.get("annotations")),
        as_mapping(metadata.get("labels")),
    )
    return (
        any(
            _requests_device(container, interest)
            for part in CONTAINERS
            for container in as_list(spec.get(part))
        )
        or any(
            key in interest.annotations or key.startswith(interest.prefixes) for key in annotations
        )
        or any(key.startswith(interest.prefixes) for key in labels)
        or is_marked(pod, interest)
        or (interest.claims and bool(as_list(spec.get("resourceClaims"))))
        or any(as_mapping(spec.get(field)) for field in interest.group_fields)
        or any(key in interest.group_labels for key in labels)
    )


def is_marked(pod: Value, interest: Interest) -> bool:
    """Whether a pod has the marks of a translated pod; anybody may have set them."""
    fields = as_mapping(pod)
    spec, metadata = as_mapping(fields.get("spec")), as_mapping(fields.get("metadata"))
    return interest.mark in as_mapping(metadata.get("annotations")) or any(
        str(as_mapping(reference).get("resourceClaimTemplateName", "")).startswith(
            interest.templates
        )
        for reference in as_list(spec.get("resourceClaims"))
    )


CONTAINERS: Final = ("containers", "initContainers")
RESOURCES: Final = ("limits", "requests")


def _requests_device(container: Value, interest: Interest) -> bool:
    resources: Mapping[str, Value] = as_mapping(as_mapping(container).get("resources"))
    return any(
        may_be_device(name, interest)
        for part in RESOURCES
        for name in as_mapping(resources.get(part))
    )
