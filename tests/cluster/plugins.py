"""Plug-ins of kubeconfigs, and kubeconfigs with a user."""

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

VERSION = "client.authentication.k8s.io/v1"


def config(path: Path, url: str, user: dict[str, Any], **cluster: object) -> str:
    """Write a kubeconfig with two contexts."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "usual",
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "usual", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "mine"}},
        ],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def plugin(folder: Path, does: str = "", *, seconds: float | None = None, **status: str) -> Any:  # noqa: ANN401  # JSON
    """Write a plug-in that runs a command and returns a new token each time."""
    expiry = ""
    if seconds is not None:
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        expiry = f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    lines = [
        "import json, os, pathlib, sys, time",
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
        f"status = {status!r}",
        does,
        f"path = pathlib.Path({str(folder / 'number')!r})",
        "number = int(path.read_text()) + 1 if path.exists() else 1",
        "path.write_text(str(number))",
        "status = status or {'token': f'token-{number}'}",
        f"status |= {{'expirationTimestamp': {expiry!r}}} if {expiry!r} else {{}}",
        "made = {'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}",
        "print(json.dumps(made))",
    ]
    script = folder / "plugin.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    named = {"apiVersion": VERSION, "interactiveMode": "Never"}
    return {"exec": {**named, "command": sys.executable, "args": [str(script)]}}


def script(path: Path, does: str) -> str:
    """Write a shell script, and return its path."""
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def reply(status: object, version: str = VERSION, kind: str = "ExecCredential") -> str:
    """Return what a plug-in prints."""
    return json.dumps({"apiVersion": version, "kind": kind, "status": status})
