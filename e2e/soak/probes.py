"""Measures what an innocent tenant waits for admission and the judge, in each phase."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from e2e.controlplane.client import JSON, Client
from e2e.scenarios.objects import RESOURCE
from e2e.soak.pods import ONE
from e2e.soak.waits import quantiles

HEAD = f"{'phase':10}  {'request':13}  calls  {'p50':>8}  {'p90':>8}  {'p99':>8}  {'worst':>8}"


class Probes:
    """Creates a legacy pod and a claim as dry runs, one after the other."""

    def __init__(self, client: Client, phase: Callable[[], str]) -> None:
        self.client = client
        self.phase = phase
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def turn(self, namespace: str, pod: JSON) -> None:
        """Measure each request once; one that fails counts with the time until it did."""
        claim = {"metadata": {"name": "probe"}, "spec": ONE}
        for what, path, body in (
            ("admitted pod", f"/api/v1/namespaces/{namespace}/pods", pod),
            ("judged claim", f"{RESOURCE}/namespaces/{namespace}/resourceclaims", claim),
        ):
            phase, began = self.phase(), time.monotonic()
            try:
                self.client.create(path, body, dryRun="All")
            finally:
                self.seconds[phase, what].append(time.monotonic() - began)

    def rows(self) -> Iterator[str]:
        """Yield a line of the report for each phase and request."""
        for (phase, what), seconds in sorted(self.seconds.items()):
            yield f"{phase:10}  {what:13}  {len(seconds):5}  {quantiles(seconds, 1000, 'ms')}"
