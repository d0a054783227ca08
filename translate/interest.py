"""Which pods are worth looking at: what a pod must carry for any dialect to read anything of it.

Coarse, and never too narrow: what is derived from it keeps pods away from admission altogether, so
a pod that would have been translated must be covered. Knows the keys that dialects read, none of
their meanings.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from config.model import Configuration, Policy
from documents.values import Value
from dra.names import ORIGINAL_ANNOTATION, TEMPLATE_PREFIX
from translate.legacy.codes import NETWORK_UNKNOWN
from translate.legacy.networks import DEFAULT, NETWORKS
from translate.legacy.pod_view import as_list, as_mapping

# Read without any device resource beside them.
_FRACTIONS: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps")
_PREFIXES: Final = ("tensor-fusion.ai/",)
_NATIVE: Final = "kubernetes.io/"
_FIRST_PROPOSAL: Final = ("kubernetes.io/gpu", "kubernetes.io/rdma")


class Interest(msgspec.Struct, frozen=True):
    """What makes a pod worth looking at; any one of these does."""

    # Any resource with a domain that is not Kubernetes' own, but for names that begin with these.
    native: str = _NATIVE
    devices: tuple[str, ...] = _FIRST_PROPOSAL
    annotations: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = _PREFIXES  # of annotations and of labels
    templates: str = TEMPLATE_PREFIX  # of the names of templates that the pod refers to
    mark: str = ORIGINAL_ANNOTATION  # the annotation of a translated pod


def derive_interest(configuration: Configuration) -> Interest:
    """Derive it from a configuration.

    Every device resource counts, because one that nobody knows is told as well. A pod that only
    names networks has nothing to be told once its findings are off and no network is configured.
    """
    silent = str(configuration.findings.get(NETWORK_UNKNOWN.name, "")) == Policy.OFF  # type: ignore[call-overload]  # keys are texts of one form
    networks = () if silent and not configuration.legacy.networks else (DEFAULT, NETWORKS)
    return Interest(annotations=(*networks, *_FRACTIONS))


def may_be_device(name: str, by: Interest) -> bool:
    """Whether a resource may be a device."""
    return "/" in name and (by.native not in name or name.startswith(by.devices))


def covers(pod: Value, by: Interest) -> bool:
    """Whether a pod is worth looking at; what the conditions of the webhook say, in Python."""
    whole = as_mapping(pod)
    spec, metadata = as_mapping(whole.get("spec")), as_mapping(whole.get("metadata"))
    annotations, labels = (
        as_mapping(metadata.get("annotations")),
        as_mapping(metadata.get("labels")),
    )
    return (
        any(_asks(each, by) for part in CONTAINERS for each in as_list(spec.get(part)))
        or any(key in by.annotations or key.startswith(by.prefixes) for key in annotations)
        or any(key.startswith(by.prefixes) for key in labels)
        or is_marked(pod, by)
    )


def is_marked(pod: Value, by: Interest) -> bool:
    """Whether a pod is, or says that it is, a translated one."""
    whole = as_mapping(pod)
    spec, metadata = as_mapping(whole.get("spec")), as_mapping(whole.get("metadata"))
    return by.mark in as_mapping(metadata.get("annotations")) or any(
        str(as_mapping(each).get("resourceClaimTemplateName", "")).startswith(by.templates)
        for each in as_list(spec.get("resourceClaims"))
    )


CONTAINERS: Final = ("containers", "initContainers")
RESOURCES: Final = ("limits", "requests")


def _asks(container: Value, by: Interest) -> bool:
    resources: Mapping[str, Value] = as_mapping(as_mapping(container).get("resources"))
    return any(
        may_be_device(name, by) for part in RESOURCES for name in as_mapping(resources.get(part))
    )
