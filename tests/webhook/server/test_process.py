"""The whole process, from its start to its end, against an API server."""

import argparse
import asyncio
import io
import json
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import webhook.server.process as webhook_process
from cli.serve import arguments
from runtime import logs
from tests.cluster.fake.api import FakeApi
from tests.runtime.http_client import request
from tests.runtime.key_pairs import pair, put
from tests.webhook.server.processes import Process, webhook
from tests.webhook.server.test_cluster_view import FIRST, namespace, published

LONG = 60
SYSTEM = "drawbridge-system"


def review(uid: str) -> bytes:
    """Write a review as the API server does, about a pod without devices."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "namespace": "a"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {}}]},
    }
    asked = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "a",
        "object": pod,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": asked}).encode()


async def becomes_ready(api: FakeApi, process: Process) -> None:
    """Without facts nothing is answered; with them it is."""
    waiting = await process.ready(lambda answer: answer.body.count(b"\n") == 1)
    assert waiting.status == 503
    assert b"drawbridge-facts" in waiting.body
    early = await process.ask(request(body=review("early")))
    assert (early.status, early.headers["retry-after"]) == (503, "1")
    api.put(published(FIRST))
    await process.ready(lambda answer: answer.status == 200)


async def answers(process: Process) -> None:
    """A request is answered, told in the log, and counted."""
    answer = await process.ask(request(body=review("u-1")))
    assert answer.json()["response"] == {"uid": "u-1", "allowed": True}
    said = await process.until("allowed", uid="u-1")
    assert (said["namespace"], said["name"], said["operation"]) == ("a", "web-", "CREATE")
    text = (await process.look("metrics", "/metrics")).body.decode()
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="pods"} 1.0' in text
    assert 'drawbridge_cache_synced{resource="namespaces"} 1.0' in text
    assert "drawbridge_remembered_answers" in text


async def stops(process: Process) -> None:
    """It goes on answering while it stops, until it is told a second time."""
    process.running.send_signal(signal.SIGTERM)
    await process.until("stopping")
    stopping = await process.look("health", "/readyz")
    assert (stopping.status, stopping.body) == (503, b"stopping\n")
    late = await process.ask(request(body=review("late")))
    assert (late.status, late.headers["connection"]) == (200, "close")
    process.running.send_signal(signal.SIGTERM)
    assert await process.running.wait() == 128 + signal.SIGTERM


def test_from_start_to_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(namespace("a", **{"drawbridge.dev/translate": "enforce"}))
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            options = ("--drain=60", "--log-level=debug")
            async with webhook(tmp_path, kubeconfig, *options) as process:
                await becomes_ready(api, process)
                await answers(process)
                await stops(process)

    asyncio.run(asyncio.wait_for(play(), LONG))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """Give the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def inside(folder: Path, *more: str, then: Any = None) -> tuple[int, list[dict[str, Any]]]:  # noqa: ANN401
    """Run it in this process with these arguments: its exit code and its lines."""
    parser = argparse.ArgumentParser()
    arguments(parser)
    certificate, key = put(folder, pair())
    ports = [f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics")]
    files = [f"--tls-cert={certificate}", f"--tls-key={key}"]
    options = parser.parse_args(
        ["webhook", *files, *ports, f"--namespace={SYSTEM}", "--drain=0", *more]
    )
    stream = io.StringIO()

    async def play() -> int:
        running = asyncio.create_task(webhook_process.run(options))
        if then is not None:
            await then(running, stream)
        return await asyncio.wait_for(running, LONG)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "configure", lambda level: CONFIGURE(level, stream))
        code = asyncio.run(play())
    return code, [json.loads(line) for line in stream.getvalue().splitlines()]


CONFIGURE = logs.configure


@pytest.mark.usefixtures("log")
def test_what_is_not_built_is_refused_at_start(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nplacement: bridge\n")
    code, lines = inside(tmp_path, f"--config={file}")
    assert code == 2
    (refused,) = lines
    assert refused["finding"]["path"] == "placement"
    assert refused["finding"]["remedy"]


@pytest.mark.usefixtures("log")
def test_without_a_way_to_the_api_server_it_says_what_it_tried(tmp_path: Path) -> None:
    code, lines = inside(tmp_path, f"--kubeconfig={tmp_path / 'nowhere'}")
    assert code == 2
    assert lines[-1]["msg"] == "no way to the API server"
    assert "nowhere" in lines[-1]["reason"]
    assert "stack" not in lines[-1]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("name", ["listen", "health", "metrics"])
def test_a_port_that_is_taken_is_told(name: str, tmp_path: Path) -> None:
    taken = asyncio.new_event_loop()
    try:
        server = taken.run_until_complete(taken.create_server(asyncio.Protocol, "127.0.0.1", 0))
        address = "{}:{}".format(*server.sockets[0].getsockname())
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG)
        code, lines = inside(tmp_path, f"--kubeconfig={kubeconfig}", f"--{name}={address}")
        server.close()
    finally:
        taken.close()
    assert code == 2
    assert lines[-1]["msg"] == "the process cannot go on"
    asked = {"listen": "admission"}.get(name, name)
    assert lines[-1]["reason"] == f"{asked} cannot listen on {address}: Address already in use"


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
"""


@pytest.mark.usefixtures("log")
def test_the_end_is_graceful_and_its_code_is_0(tmp_path: Path) -> None:
    """An API server that cannot be reached keeps it from being ready, not from ending."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    async def end(_running: object, stream: io.StringIO) -> None:
        while stream.getvalue().count('"listening"') < 3:  # noqa: ASYNC110  # what it says, not we
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGTERM)

    code, lines = inside(tmp_path, f"--kubeconfig={kubeconfig}", then=end)
    assert code == 0
    assert [line["msg"] for line in lines[-3:]] == ["stopping", "admission closed", "stopped"]
