"""What each process exposes: its own metrics, and none of a state that it does not have."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from drawbridge.process import metrics
from tests.cluster.fake.api import FakeApi
from tests.process.key_pairs import create_pair
from tests.process.registries import REGISTRIES
from tests.tables import every_row
from tests.webhook.server.processes import ROOT, Process

EVERY = (metrics.REGISTRY,)
REVIEWING = (*EVERY, metrics.REVIEWS, metrics.FACTS, metrics.SERVING)
LISTEN = "--listen=127.0.0.1:0"
PROCESSES: list[tuple[Sequence[str], Sequence[CollectorRegistry]]] = [
    (("webhook", LISTEN), (*REVIEWING, metrics.WEBHOOK, metrics.AUTHORITIES)),
    (("webhook", LISTEN, "--tls-cert=a", "--tls-key=a"), (*REVIEWING, metrics.WEBHOOK)),
    (("judge", LISTEN), (*REVIEWING, metrics.AUTHORITIES)),
    (("controller",), (*EVERY, metrics.CONTROLLER, metrics.AUTHORITIES)),
    (("controller", "--certificates=external"), (*EVERY, metrics.CONTROLLER)),
    (("allocator", "--socket=allocator"), (*EVERY, metrics.ALLOCATOR, metrics.FACTS)),
]


def names(registries: Iterable[CollectorRegistry]) -> set[str]:
    return {metric.name for registry in registries for metric in registry.collect()}


async def scrape(words: Sequence[str], folder: Path) -> list[Metric]:
    """Return what a process exposes that waits for its configuration."""
    async with FakeApi() as api:
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "cli.main", "serve", *words, "--namespace=drawbridge-system", "--config-map"),
            f"--kubeconfig={api.kubeconfig(folder / 'kubeconfig')}",
            *("--health=127.0.0.1:0", "--metrics=127.0.0.1:0"),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        try:
            answer = await Process(running, create_pair()).get("metrics", "/metrics")
        finally:
            running.kill()
            await running.communicate()
    return [*text_string_to_metric_families(answer.body.decode())]


@every_row(("words", "registries"), PROCESSES)
def test_a_process_exposes_its_own_metrics_from_the_start(
    words: Sequence[str], registries: Sequence[CollectorRegistry], tmp_path: Path
) -> None:
    families = asyncio.run(asyncio.wait_for(scrape(words, tmp_path), 300))
    exposed = {family.name for family in families}
    assert "drawbridge_ready" in exposed
    assert exposed & names(REGISTRIES) == names(registries)
    for other in {"controller", "allocator"} - {*words}:
        assert not [name for name in exposed if name.startswith(f"drawbridge_{other}_")]
    # The first error or success must not be the begin of its series.
    series = {
        (each.name, *each.labels.values()): each.value for f in families for each in f.samples
    }
    for name in ("facts", "configuration", "certificate"):
        if f"drawbridge_{name}_reads" in exposed:
            for result in ("error", "success"):
                assert (f"drawbridge_{name}_reads_total", result) in series
    if "allocator" in words:
        assert series["drawbridge_allocator_binds_total", "bound"] == 0
