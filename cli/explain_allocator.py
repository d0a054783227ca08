"""What the allocator of bridge placement says about a pod, for `drawbridge explain`."""

import argparse
from collections.abc import Iterator
from typing import Final

from cli.allocator_api import Json, ask_allocator
from cli.live_cluster import ClusterReadError
from documents.document import LocatedFinding
from dra.counted import count_noun
from report.explain import Explanation
from translate.changes.scheduler import OURS

NOT_ASKED: Final = "  allocator: not asked; `--allocator-url` says why the pod waits (docs/api.md)"


def ask_about(
    options: argparse.Namespace, pod: Explanation, findings: list[LocatedFinding]
) -> Json | None:
    """Ask about a pod, if there is a URL; without an answer, the output is that of the others."""
    if not options.allocator_url:
        return None
    namespace, _, name = pod.pod.partition("/")
    try:
        return ask_allocator(options, "/v1/explain", {"namespace": namespace, "name": name})
    except ClusterReadError as error:
        findings.append(error.located)
        return None


def format_told(pod: Explanation, told: Json | None, *, is_live: bool) -> Iterator[str]:
    """Format what the allocator said, or that it was not asked about a pod that waits for it."""
    if told is None:
        if is_live and pod.scheduler == OURS and not pod.placed:
            yield NOT_ASKED
        return
    source = "" if told["leading"] else " (of a replica that does not lead)"
    fitting = f", {count_noun(told['fitting'], 'node')} can take it now" if told["fitting"] else ""
    yield f"  allocator{source}: {told['state']}{fitting}"
    for claim in told["claims"]:
        if claim["state"] == "Reserved":
            names = ", ".join(
                f"{each['driver']}/{each['pool']}/{each['device']}" for each in claim["devices"]
            )
            yield f"    claim {claim['name']}: reserved {names}"
    for each in told["reasons"]:
        nodes = f"{count_noun(each['nodes'], 'node')}: " if each.get("nodes") else ""
        yield f"    {nodes}{each['message']} [{each['code']}]"
    for node in told["nodes"]:
        yield f"    {node['node']}: {'; '.join(each['message'] for each in node['reasons'])}"
