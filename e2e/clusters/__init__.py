"""Clusters with surprises, by seed: what administrators have, in any mix, from 5 to 500 nodes.

    python -m e2e.clusters 7 --nodes 20         prints the objects of a cluster as YAML

A cluster is ordinary nodes, plugins and workloads, and then some of the surprises of
`node_surprises`, `pod_surprises`, `owner_surprises` and `cluster_surprises`. Each is a fact about
objects; the list was drawn up without knowledge of what rehearses a plan. This package imports
nothing of ours, so that it shares none of our mistakes. The same seed gives the same cluster.
"""

from e2e.clusters import (  # the surprises register themselves
    cluster_surprises,
    node_surprises,
    owner_surprises,
    pod_surprises,
)
from e2e.clusters.drawn import DrawnCluster, draw
from e2e.clusters.surprise import SURPRISES

__all__ = [
    "SURPRISES",
    "DrawnCluster",
    "cluster_surprises",
    "draw",
    "node_surprises",
    "owner_surprises",
    "pod_surprises",
]
