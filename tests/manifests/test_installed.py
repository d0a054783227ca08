"""The e2e installation runs Deployments as local processes, and reads their logs."""

import json
import sys
from pathlib import Path

import pytest

from e2e.controlplane.processes import StartError
from e2e.installed import manifest
from e2e.installed.kubectl import CommandResult, listed
from e2e.installed.replica import Replica
from tests.tables import read_yaml

DEPLOYMENT = read_yaml("""
kind: Deployment
metadata: {name: one}
spec:
  template:
    spec:
      containers:
      - command: [drawbridge, serve]
        args: [--tls-cert=/etc/tls/tls.crt, --config=/etc/config/config.yaml, --other=/etc/tls]
        volumeMounts:
        - {name: tls, mountPath: /etc/tls}
        - {name: config, mountPath: /etc/config}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - {name: tls, secret: {secretName: pair}}
      - {name: config, configMap: {name: settings}}
      - {name: tmp, emptyDir: {}}
""")


def test_mounted_files_are_mapped_to_local_files() -> None:
    assert manifest.volumes(DEPLOYMENT) == {
        "tls": ("secrets", "pair"),
        "config": ("configmaps", "settings"),
    }
    folders = {"tls": Path("/a"), "config": Path("/b")}
    assert manifest.command(DEPLOYMENT, folders, ["--more"]) == [
        "drawbridge",
        "serve",
        "--tls-cert=/a/tls.crt",
        "--config=/b/config.yaml",
        "--other=/etc/tls",
        "--more",
    ]


def test_a_missing_object_is_named_in_the_error() -> None:
    assert manifest.find([DEPLOYMENT], "Deployment", "one") is DEPLOYMENT
    with pytest.raises(LookupError, match="no Deployment two"):
        manifest.find([DEPLOYMENT], "Deployment", "two")


def test_only_warning_lines_are_warnings() -> None:
    ran = CommandResult(("apply",), 0, "pod/a created\n", "Warning: one\nnote\nWarning: two\n")
    assert ran.warnings == ["one", "two"]
    assert ran.check() is ran
    with pytest.raises(AssertionError, match="apply: exit code 1\nrefused"):
        CommandResult(("apply",), 1, "", "refused").check()


def test_several_objects_become_a_list() -> None:
    assert listed([{"a": 1}]) == {"a": 1}
    assert listed([{"a": 1}, {"b": 2}])["items"] == [{"a": 1}, {"b": 2}]


# Logs its ports, serves requests, and runs until it is killed.
PROCESS = """
import http.server, json, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'n_total{a="x"} 2.0\\nn_total{a="y"} 3.0\\n'
        self.send_response(200 if self.path != "/readyz" or READY else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
READY = sys.argv[1] == "ready"
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print("not JSON", flush=True)
for name in ("health", "metrics"):
    address = f"127.0.0.1:{server.server_port}"
    print(json.dumps({"msg": "listening", "name": name, "address": address}), flush=True)
server.serve_forever()
"""


def replica(folder: Path, word: str) -> Replica:
    return Replica("one", [sys.executable, "-c", PROCESS, word], folder / "one.log")


def test_a_replica_logs_its_ports_and_can_be_restarted(tmp_path: Path) -> None:
    process = replica(tmp_path, "ready")
    assert not process.alive
    try:
        process.start()
        process.wait_ready()
        first = process.port("health")
        assert process.metric("n_total") == 5
        assert process.metric("n_total", a="y") == 3
        process.kill()
        assert not process.alive
        assert not process.ready()
        process.start()
        process.wait_ready()
        assert [line["name"] for line in process.messages("listening")] == ["health", "metrics"]
        assert process.port("health") != first
        assert json.loads(process.log.read_text().splitlines()[1])["msg"] == "listening"
    finally:
        process.stop()
    assert process.request("health", "/readyz").code == 0


def test_a_replica_that_is_not_ready_in_time_raises_an_error_with_its_log(tmp_path: Path) -> None:
    process = replica(tmp_path, "never")
    process.start()
    try:
        process.started_process().wait_ready(lambda: process.port("health") > 0)
        with pytest.raises(StartError, match="not ready after 0 s\nnot JSON"):
            process.wait_ready(0)
    finally:
        process.stop()
