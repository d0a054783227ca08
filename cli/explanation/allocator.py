"""What the allocator of bridge placement says about a pod, for `drawbridge explain`."""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from cli.input.allocator_api import ask_allocator
from cli.input.allocator_request import Json
from cli.input.found_allocator import ask_found_allocator
from cli.input.live_cluster import ClusterReadError
from drawbridge.documents.document import LocatedFinding
from drawbridge.dra.counted import count_noun
from drawbridge.report.explain import Explanation
from drawbridge.translate.changes.scheduler import OURS


class Told(NamedTuple):
    """What the allocator said about a pod, or why it was not asked about a pod that waits."""

    answer: Json | None = None
    not_asked: str = ""


def ask_about(
    options: argparse.Namespace, pod: Explanation, findings: list[LocatedFinding]
) -> Told:
    """Ask about a pod; without an answer, the output is that of the others.

    Without a URL, the allocator of a live cluster is asked about a pod that waits for it.
    """
    namespace, _, name = pod.pod.partition("/")
    body = {"namespace": namespace, "name": name}
    if options.allocator_url:
        try:
            return Told(ask_allocator(options, "/v1/explain", body))
        except ClusterReadError as error:
            findings.append(error.located)
            return Told()
    is_live = not (options.filename or options.cluster)
    if not is_live or pod.scheduler != OURS or pod.placed:
        return Told()
    try:
        return Told(ask_found_allocator(options, "/v1/explain", body).response)
    except ClusterReadError as error:
        return Told(not_asked=error.finding.message)


def format_told(told: Told) -> Iterator[str]:
    """Format what the allocator said, or why it was not asked."""
    if told.not_asked:
        yield f"  allocator: not asked: {told.not_asked}"
    if told.answer is not None:
        yield from _format_answer(told.answer)


def _format_answer(told: Json) -> Iterator[str]:
    source = "" if told["leading"] else " (of a replica that does not lead)"
    fitting = f", {count_noun(told['fitting'], 'node')} can take it now" if told["fitting"] else ""
    yield f"  allocator{source}: {told['state']}{fitting}"
    for claim in told["claims"]:
        if claim["state"] == "Reserved":
            names = ", ".join(
                f"{device['driver']}/{device['pool']}/{device['device']}"
                for device in claim["devices"]
            )
            yield f"    claim {claim['name']}: reserved {names}"
    for reason in told["reasons"]:
        nodes = f"{count_noun(reason['nodes'], 'node')}: " if reason.get("nodes") else ""
        yield f"    {nodes}{reason['message']} [{reason['code']}]"
    for node in told["nodes"]:
        yield f"    {node['node']}: {'; '.join(each['message'] for each in node['reasons'])}"
