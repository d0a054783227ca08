"""Checks the allocations of a running cluster by the specification (`e2e.checker`)."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from e2e.checker import check
from e2e.checker.expressions import Expressions
from e2e.controlplane.client import ApiError, Client
from e2e.oracle.build import binary
from e2e.scenarios.objects import JSON, RESOURCE, taint_rules_path

FENCE_KEY = "drawbridge.dev/owned"


def broken_rules(
    client: Client, version: str, claims: list[JSON], gates: Mapping[str, bool] | None = None
) -> list[str]:
    """List what is wrong with the allocations of claims, each on its node.

    `gates` are those of the control plane, if they are not the usual ones.
    """
    if not claims:
        return []
    world = read_world(client, version)
    if gates is not None:
        world["gates"] = dict(gates)
    by_node = defaultdict(list)
    for claim in claims:
        by_node[node_of(claim)].append(claim)
    with Expressions(binary()) as expressions:
        return [
            f"{node}: {problem}"
            for node, some in by_node.items()
            for problem in check(
                {**seen_from(node, world), "claims": some},
                node,
                [each["status"]["allocation"] for each in some],
                expressions,
            )
        ]


def seen_from(node: str, world: dict[str, Any]) -> dict[str, Any]:
    """Leave out what belongs to other nodes."""
    local = (None, node)
    return {
        **world,
        "nodes": [each for each in world["nodes"] if each["metadata"]["name"] == node],
        "slices": [each for each in world["slices"] if each["spec"].get("nodeName") in local],
    }


def read_world(client: Client, version: str) -> dict[str, Any]:
    """Read what an allocator sees of a cluster, without claims."""
    rules = []
    try:
        rules = client.get(taint_rules_path(version))["items"]
    except ApiError as problem:
        if problem.code != 404:
            raise
    return {
        "version": version,
        "gates": {"DRADeviceTaintRules": True} if version == "1.36" else {},
        "nodes": client.get("/api/v1/nodes")["items"],
        "slices": client.get(f"{RESOURCE}/resourceslices")["items"],
        "classes": client.get(f"{RESOURCE}/deviceclasses")["items"],
        # The fence of owned pools keeps others away.
        "rules": [each for each in rules if each["spec"]["taint"]["key"] != FENCE_KEY],
        "allocated": [],
    }


def node_of(claim: JSON) -> str:
    """Return the node that an allocation of local devices is tied to."""
    (term,) = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    return str(field["values"][0])
