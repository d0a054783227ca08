"""Starts a cluster for the reproductions. No other module here imports anything of ours."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from e2e.bridge.placement import OWNED
from e2e.controlplane.build import DEFAULT
from e2e.controlplane.plane import ControlPlane
from e2e.nodes.fleet import Fleet
from e2e.scenarios.bridge_gangs import gang_options
from e2e.upstream.dra import BRIDGE, installed


class Started(NamedTuple):
    """How to reach a cluster, and the labels that its nodes need."""

    kubeconfig: Path
    kubectl: str
    labels: Mapping[str, str]


@contextlib.contextmanager
def started(version: str, *, ours: bool) -> Iterator[Started]:
    """Start a control plane, stock or with Drawbridge's scheduler in the place of the stock one."""
    options = gang_options(version or DEFAULT)
    if ours:
        options = replace(options, schedulers={})
    with ControlPlane(options) as plane, contextlib.ExitStack() as stack:
        if ours:
            fleet = stack.enter_context(Fleet(plane.admin))
            stack.enter_context(installed(BRIDGE, plane, fleet))
        kubectl = str(plane.bin / "kubectl")
        yield Started(plane.user_config(), kubectl, OWNED)
