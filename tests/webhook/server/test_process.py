"""The webhook process, from start to stop, against a fake API server."""

import argparse
import asyncio
import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import webhook.server.process as webhook_process
from cli.serve import arguments, review_options
from drawbridge.process import logs
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import HEAD, accept
from tests.process.http_client import request
from tests.process.key_pairs import create_pair, write_pair
from tests.webhook.server.processes import Process, webhook
from tests.webhook.server.test_cluster_view import FIRST, namespace, published

LONG = 60
SYSTEM = "drawbridge-system"


def review(uid: str) -> bytes:
    """Build the review of a pod without device requests."""
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


async def check_readiness(api: FakeApi, process: Process) -> None:
    """The process is ready once it has loaded the facts."""
    waiting = await process.wait_until_only_facts_are_missing()
    assert waiting.status == 503
    early = await process.send(request(body=review("early")))
    assert (early.status, early.headers["retry-after"]) == (503, "1")
    api.put(published(FIRST))
    await process.wait_for_readyz(lambda answer: answer.status == 200)


async def check_response(process: Process) -> None:
    """A request gets a response, a log line, and metrics."""
    answer = await process.send(request(body=review("u-1")))
    assert answer.json()["response"] == {"uid": "u-1", "allowed": True}
    said = await process.wait_for_line("allowed", uid="u-1")
    assert (said["namespace"], said["name"], said["operation"]) == ("a", "web-", "CREATE")
    text = (await process.get("metrics", "/metrics")).body.decode()
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="pods"} 1.0' in text
    assert 'drawbridge_cache_synced{resource="namespaces"} 1.0' in text
    assert "drawbridge_remembered_answers" in text


async def check_shutdown(process: Process) -> None:
    """The process serves requests while it stops, until the second signal."""
    process.running.send_signal(signal.SIGTERM)
    await process.wait_for_line("stopping")
    stopping = await process.get("health", "/readyz")
    assert (stopping.status, stopping.body) == (503, b"stopping\n")
    late = await process.send(request(body=review("late")))
    assert (late.status, late.headers["connection"]) == (200, "close")
    process.running.send_signal(signal.SIGTERM)
    assert await process.running.wait() == 128 + signal.SIGTERM


def test_a_process_from_start_to_stop(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(namespace("a", **{"drawbridge.dev/translate": "enforce"}))
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            options = ("--drain=60", "--log-level=debug")
            async with webhook(tmp_path, kubeconfig, *options) as process:
                await check_readiness(api, process)
                await check_response(process)
                await check_shutdown(process)

    asyncio.run(asyncio.wait_for(play(), LONG))


def run_in_process(folder: Path, *more: str, then: Any = None) -> tuple[int, list[dict[str, Any]]]:  # noqa: ANN401
    """Run the webhook in this process. Return its exit code and its log lines."""
    parser = argparse.ArgumentParser()
    arguments(parser)
    certificate, key = write_pair(folder, create_pair())
    ports = [f"--{each}=127.0.0.1:0" for each in ("listen", "health", "metrics")]
    files = [f"--tls-cert={certificate}", f"--tls-key={key}"]
    options = parser.parse_args(
        ["webhook", *files, *ports, f"--namespace={SYSTEM}", "--drain=0", *more]
    )
    stream = io.StringIO()

    async def play() -> int:
        running = asyncio.create_task(webhook_process.run(review_options(options)))
        if then is not None:
            await then(running, stream)
        return await asyncio.wait_for(running, LONG)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "configure", lambda level: CONFIGURE(level, stream))
        code = asyncio.run(play())
    return code, [json.loads(line) for line in stream.getvalue().splitlines()]


CONFIGURE = logs.configure


def test_a_process_waits_for_a_configuration_that_it_accepts(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            api.put(accept(f"{HEAD}unknown: []\n", offered=HEAD))
            api.put(published(FIRST))
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            async with webhook(tmp_path, kubeconfig, "--config-map") as process:
                waiting = await process.wait_for_readyz(lambda answer: b"unknown" in answer.body)
                assert waiting.status == 503
                assert (await process.get("health", "/healthz")).status == 200
                api.put(accept(HEAD, offered=f"{HEAD}unknown: []\n"))
                await process.wait_for_readyz(lambda answer: answer.status == 200)
                text = (await process.get("metrics", "/metrics")).body.decode()
                assert "drawbridge_configuration_good 0.0" in text
                process.running.send_signal(signal.SIGKILL)

    asyncio.run(asyncio.wait_for(play(), LONG))


@pytest.mark.usefixtures("kept_logging")
def test_missing_access_to_the_api_server_is_logged(tmp_path: Path) -> None:
    code, lines = run_in_process(tmp_path, f"--kubeconfig={tmp_path / 'nowhere'}")
    assert code == 2
    assert lines[-1]["msg"] == "cannot access the API server"
    assert "nowhere" in lines[-1]["reason"]
    assert "stack" not in lines[-1]


@pytest.mark.usefixtures("kept_logging")
@pytest.mark.parametrize("name", ["listen", "health", "metrics"])
def test_a_port_in_use_is_logged(name: str, tmp_path: Path) -> None:
    taken = asyncio.new_event_loop()
    try:
        server = taken.run_until_complete(taken.create_server(asyncio.Protocol, "127.0.0.1", 0))
        address = "{}:{}".format(*server.sockets[0].getsockname())
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG)
        code, lines = run_in_process(tmp_path, f"--kubeconfig={kubeconfig}", f"--{name}={address}")
        server.close()
    finally:
        taken.close()
    assert code == 2
    assert lines[-1]["msg"] == "the process cannot continue"
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


@pytest.mark.usefixtures("kept_logging")
def test_a_graceful_stop_has_exit_code_0(tmp_path: Path) -> None:
    """An unreachable API server prevents readiness, but not a graceful stop."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    async def end(_running: object, stream: io.StringIO) -> None:
        while stream.getvalue().count('"listening"') < 3:  # noqa: ASYNC110  # there is no event for log lines
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGTERM)

    code, lines = run_in_process(tmp_path, f"--kubeconfig={kubeconfig}", then=end)
    assert code == 0
    assert [line["msg"] for line in lines[-5:]] == [
        "stopping",
        "admission listener closed",
        "metrics listener closed",
        "health listener closed",
        "stopped",
    ]
