"""Which secondary networks a pod names, as Multus reads its annotation.

A comma list of `[namespace/]name[@interface]`, or a list in JSON. Knows nothing of devices.
"""

import re
from dataclasses import dataclass
from typing import Final

from documents.values import Value
from dra.finding import Finding
from translate.legacy import annotation_json
from translate.legacy.pod_view import PodView, items, mapping
from translate.legacy.pod_view import text as shortened

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
DEFAULT: Final = "v1.multus-cni.io/default-network"
_ENTRY: Final = re.compile(r"(?:([a-z0-9][a-z0-9.-]*)/)?([a-z0-9][a-z0-9.-]*)(?:@([^\s/@,]+))?")
_OWN: Final = ("name", "namespace", "interface")


@dataclass(frozen=True, slots=True)
class Network:
    """A network as the pod names it."""

    name: str  # namespace/name
    key: str  # the annotation
    interface: str = ""
    fixed: tuple[tuple[str, Value], ...] = ()


def networks(pod: PodView) -> tuple[tuple[Network, ...], tuple[Finding, ...]]:
    """Read the networks of a pod in their order; those of an annotation that is none are lost."""
    found: list[Network] = []
    problems: list[Finding] = []
    said = pod.metadata.get("namespace")
    home = said if isinstance(said, str) and said else "default"
    for key in (DEFAULT, NETWORKS):
        text = pod.annotations.get(key, "").strip()
        if not text:
            continue
        read, problem = _listed(key, text, home) if text[0] in "[{" else _named(key, text, home)
        if problem:
            problems.append(problem)
        else:
            found += read
    return tuple(found), tuple(problems)


def _named(key: str, text: str, home: str) -> tuple[list[Network], Finding | None]:
    found = []
    for part in text.split(","):
        match = _ENTRY.fullmatch(part.strip())
        if match is None:
            return [], annotation_json.unreadable(
                key, f"{shortened(part.strip())!r} is no [namespace/]name[@interface]"
            )
        space, name, interface = match.groups(default="")
        found.append(Network(f"{space or home}/{name}", key, interface))
    return found, None


def _listed(key: str, text: str, home: str) -> tuple[list[Network], Finding | None]:
    value, problem = annotation_json.read(key, text)
    if problem is not None:
        return [], problem
    found = []
    for i, raw in enumerate(items(value) if isinstance(value, list) else [value]):
        one = mapping(raw)
        name, space = one.get("name"), one.get("namespace") or home
        interface = one.get("interface") or ""
        if not (isinstance(name, str) and isinstance(space, str) and isinstance(interface, str)):
            return [], annotation_json.unreadable(
                key, f"entry {i} has no name, or one that is no text"
            )
        fixed = tuple((k, v) for k, v in one.items() if k not in _OWN)
        found.append(Network(f"{space}/{name}", key, interface, fixed))
    return found, None
