"""Creates a kind cluster, runs scenarios on it, and deletes it.

    python -m e2e.kind [smoke|full]

Needs kind, kubectl and a container engine. Scenarios that end processes of the control plane, or
reach a Service over this machine's loopback, are skipped.
"""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

import yaml

from e2e.controlplane.client import Client
from e2e.runner import print_line, run_all, select_scenarios, summary

HERE = Path(__file__).parent
CLUSTER = "drawbridge-e2e"
ACCOUNT = "drawbridge-e2e"
NEEDED = ("kind", "kubectl")


def run(*words: str, access: Path | None = None) -> str:
    """Run one of the needed programs and give what it printed."""
    environment = os.environ | ({"KUBECONFIG": str(access)} if access else {})
    return subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout


def admin(access: Path) -> Client:
    """Make a client for a ServiceAccount that may do everything."""
    run("kubectl", "-n", "kube-system", "create", "serviceaccount", ACCOUNT, access=access)
    binding = (f"--serviceaccount=kube-system:{ACCOUNT}", "--clusterrole=cluster-admin")
    run("kubectl", "create", "clusterrolebinding", ACCOUNT, *binding, access=access)
    token = run(
        "kubectl", "-n", "kube-system", "create", "token", ACCOUNT, "--duration=10h", access=access
    )
    cluster = yaml.safe_load(access.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    port = urllib.parse.urlsplit(cluster["server"]).port
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
    return Client(port or 443, token.strip(), authority)


def main(suite: str) -> int:
    """Make the cluster, play, and delete it; 1 when a scenario failed."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    chosen = select_scenarios(suite, "")
    if missing:
        print_line(f"SKIP: {', '.join(missing)} not found; nothing was run")
        print_line(f"0 passed, 0 failed, {len(chosen)} skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        access = Path(folder) / "kubeconfig"
        try:
            config = str(HERE / "cluster.yaml")
            run("kind", "create", "cluster", "--config", config, "--wait", "120s", access=access)
            client = admin(access)
            told = client.get("/version")
            version = f"{told['major']}.{told['minor'].rstrip('+')}"
            able = [one for one in chosen if one.can_run_on(version)]
            counts = run_all(able, version, client, None)
            counts["skipped"] += len(chosen) - len(able)
        finally:
            run("kind", "delete", "cluster", "--name", CLUSTER, access=access)
    print_line(summary(counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["smoke"]))
