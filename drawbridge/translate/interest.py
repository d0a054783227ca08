"""Selects the pods that admission must see: those from which any dialect reads something.

The webhook's match conditions are derived from this. They keep all other pods away from admission,
so the selection is coarse but never too narrow: it covers every pod that would be translated.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

import msgspec

from drawbridge.config.model import Configuration, Placement, Policy
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.names import ORIGINAL_ANNOTATION, TEMPLATE_PREFIX
from drawbridge.pod_groups import FIELDS, LABELS
from drawbridge.translate.legacy.codes import NETWORK_UNKNOWN
from drawbridge.translate.legacy.dialects import sriov
from drawbridge.translate.legacy.pod_view import KOORDINATOR_PROPOSAL, is_native
from drawbridge.translate.legacy.read import DIALECTS

# The reverse order, in which clusters have the match conditions already.
_KEYS: Final = tuple(key for dialect in reversed(DIALECTS) for key in dialect.STANDALONE_KEYS)
PREFIXES: Final = tuple(key for key in _KEYS if key.endswith(("/", ".")))


class Interest(msgspec.Struct, frozen=True):
    """What of the configuration decides which pods are selected; the rest is constant."""

    annotations: tuple[str, ...]
    bridge: bool  # whether claims and groups select a pod, whatever it requests


def derive_interest(configuration: Configuration) -> Interest:
    """Derive the interest from a configuration.

    Every device resource counts, because an unknown one is reported as well. A pod that only names
    networks needs no report if its finding is off and no network is configured. In bridge
    placement, pods with claims of their own and members of groups may need another scheduler.
    """
    silent = str(configuration.findings.get(NETWORK_UNKNOWN.name, "")) == Policy.OFF  # type: ignore[call-overload]  # keys are strings of one form
    unread = sriov.STANDALONE_KEYS if silent and not configuration.legacy.networks else ()
    annotations = tuple(key for key in _KEYS if key not in (*PREFIXES, *unread))
    return Interest(annotations, configuration.placement is Placement.BRIDGE)


def _may_be_device(name: str) -> bool:
    """Whether a resource has a domain, and one outside of kubernetes.io or a name of devices."""
    return "/" in name and (not is_native(name) or name.startswith(KOORDINATOR_PROPOSAL))


def covers(pod: Value, interest: Interest) -> bool:
    """Whether the interest selects a pod; the same rule as the webhook's match conditions."""
    fields = as_mapping(pod)
    spec, metadata = as_mapping(fields.get("spec")), as_mapping(fields.get("metadata"))
    annotations, labels = (
        as_mapping(metadata.get("annotations")),
        as_mapping(metadata.get("labels")),
    )
    return (
        any(map(_requests_device, chain.from_iterable(as_list(spec.get(p)) for p in CONTAINERS)))
        or any(key in interest.annotations or key.startswith(PREFIXES) for key in annotations)
        or any(key.startswith(PREFIXES) for key in labels)
        or _is_marked(spec, annotations)
        or (interest.bridge and _may_move(spec, labels))
    )


def _may_move(spec: Mapping[str, Value], labels: Mapping[str, Value]) -> bool:
    """Whether a pod has claims or is a member of a group, so that it may need our scheduler."""
    is_member = any(as_mapping(spec.get(field)) for field in FIELDS) or any(
        key in LABELS for key in labels
    )
    return bool(as_list(spec.get("resourceClaims"))) or is_member


def _is_marked(spec: Mapping[str, Value], annotations: Mapping[str, Value]) -> bool:
    """Whether a pod has the marks of a translated pod; anybody may have set them."""
    return ORIGINAL_ANNOTATION in annotations or any(
        str(as_mapping(reference).get("resourceClaimTemplateName", "")).startswith(TEMPLATE_PREFIX)
        for reference in as_list(spec.get("resourceClaims"))
    )


CONTAINERS: Final = ("containers", "initContainers")
RESOURCES: Final = ("limits", "requests")


def _requests_device(container: Value) -> bool:
    resources: Mapping[str, Value] = as_mapping(as_mapping(container).get("resources"))
    return any(
        _may_be_device(name) for part in RESOURCES for name in as_mapping(resources.get(part))
    )
