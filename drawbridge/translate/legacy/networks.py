"""Reads the secondary networks of a pod from the annotations of Multus.

The value is a comma-separated list of `[namespace/]name[@interface]`, or a JSON list.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.facts.model import NetworkFacts
from drawbridge.finding import Finding
from drawbridge.translate.legacy import annotation_json
from drawbridge.translate.legacy.pod_view import PodView, format_value

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
DEFAULT: Final = "v1.multus-cni.io/default-network"
_ENTRY: Final = re.compile(r"(?:([a-z0-9][a-z0-9.-]*)/)?([a-z0-9][a-z0-9.-]*)(?:@([^\s/@,]+))?")
_IDENTITY_FIELDS: Final = ("name", "namespace", "interface")


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """A secondary network that the pod refers to."""

    name: str  # namespace/name
    key: str  # the annotation
    interface: str = ""
    parameters: tuple[tuple[str, Value], ...] = ()


def add_networks(configuration: Configuration, networks: Iterable[NetworkFacts]) -> Configuration:
    """Return the configuration with more networks in `legacy.networks`; its own take precedence."""
    legacy = configuration.legacy
    resources = {NetworkName(each.name): ResourceName(each.resource) for each in networks}
    if not resources.keys() - legacy.networks.keys():
        return configuration
    return replace(configuration, legacy=replace(legacy, networks={**resources, **legacy.networks}))


def read_networks(pod: PodView) -> tuple[tuple[PodNetwork, ...], tuple[Finding, ...]]:
    """Read the networks of a pod in order. An invalid annotation gives a finding, no networks."""
    networks: list[PodNetwork] = []
    problems: list[Finding] = []
    namespace = pod.metadata.get("namespace")
    home = namespace if isinstance(namespace, str) and namespace else "default"
    for key in (DEFAULT, NETWORKS):
        text = pod.annotations.get(key, "").strip()
        if not text:
            continue
        if text[0] in "[{":
            read, problem = _parse_json(key, text, home)
        else:
            read, problem = _parse_names(key, text, home)
        if problem:
            problems.append(problem)
        else:
            networks += read
    return tuple(networks), tuple(problems)


def _parse_names(key: str, text: str, home: str) -> tuple[list[PodNetwork], Finding | None]:
    networks = []
    for part in text.split(","):
        match = _ENTRY.fullmatch(part.strip())
        if match is None:
            return [], annotation_json.unreadable_annotation(
                key,
                f"{format_value(part.strip())!r} does not have the form "
                "[namespace/]name[@interface]",
            )
        space, name, interface = match.groups(default="")
        networks.append(PodNetwork(f"{space or home}/{name}", key, interface))
    return networks, None


def _parse_json(key: str, text: str, home: str) -> tuple[list[PodNetwork], Finding | None]:
    value, problem = annotation_json.parse_annotation(key, text)
    if problem is not None:
        return [], problem
    networks = []
    for i, raw in enumerate(as_list(value) if isinstance(value, list) else [value]):
        entry = as_mapping(raw)
        name, space = entry.get("name"), entry.get("namespace") or home
        interface = entry.get("interface") or ""
        if not (isinstance(name, str) and isinstance(space, str) and isinstance(interface, str)):
            return [], annotation_json.unreadable_annotation(
                key,
                f"entry {i} has no name, or its name, namespace or interface is not a string",
            )
        parameters = tuple((k, v) for k, v in entry.items() if k not in _IDENTITY_FIELDS)
        networks.append(PodNetwork(f"{space}/{name}", key, interface, parameters))
    return networks, None
