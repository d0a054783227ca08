"""Drawbridge runs with the packages of the image alone, without those of the test environment.

The interpreter is that of the tests, so this needs no rights; `e2e` runs the image as it is.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.image.archive import Archive
from tools.image.build import ROOT
from tools.image.contents import SITE

POD = ROOT / "examples" / "legacy" / "nvidia.yaml"
# -I and -S: neither variables, nor the current folder, nor the packages of the tests.
START = "import sys; sys.path.append(sys.argv.pop(1)); "
IMPORT_ALL = """
import importlib, pkgutil
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        importlib.import_module(module.name)
"""
READ_CREDENTIALS = """
import asyncio, pathlib
from drawbridge.cluster.credentials import Credentials
folder = pathlib.Path(sys.argv[1])
given = [Credentials(str(folder / "kubeconfig"))]
pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
given.append(Credentials(service_account=folder, environ=pod))
for each in given:
    access = asyncio.run(each.access())
    print(access.server, access.headers["Authorization"])
"""
RUN_COMMAND = "from cli.__main__ import main; sys.exit(main())"


@pytest.fixture(scope="session")
def site(archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the image, and return its site-packages."""
    folder = tmp_path_factory.mktemp("root")
    archive.unpack(folder)
    return folder / SITE


def run(site: Path, program: str, *words: str | Path, code: int = 0) -> str:
    command = [sys.executable, "-I", "-S", "-c", START + program, site, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our words
    assert done.returncode == code, done.stderr
    return done.stdout


def test_every_module_of_drawbridge_can_be_imported(site: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    run(site, IMPORT_ALL, *packages)


def test_credentials_are_read_with_the_packages_of_the_image(site: Path, tmp_path: Path) -> None:
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:8080"}}],
        "users": [{"name": "u", "user": {"exec": _plugin(tmp_path)}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "namespace").write_text("drawbridge-system")
    authorities = site.parents[4] / "etc/ssl/certs/ca-certificates.crt"
    (tmp_path / "ca.crt").write_bytes(authorities.read_bytes())
    assert run(site, READ_CREDENTIALS, tmp_path).splitlines() == [
        "https://10.0.0.1:8080 Bearer of-the-plug-in",
        "https://10.96.0.1:443 Bearer of-the-pod",
    ]


def _plugin(folder: Path) -> dict[str, object]:
    status = {"token": "of-the-plug-in"}
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    (folder / "plugin.json").write_text(json.dumps({**kind, "status": status}))
    command = {"command": "/bin/cat", "args": [str(folder / "plugin.json")]}
    return {"apiVersion": kind["apiVersion"], "interactiveMode": "Never", **command}


def test_a_command_prints_what_it_prints_in_the_checkout(site: Path) -> None:
    words = (
        "translate",
        "--exit-code",
        "-f",
        POD,
        "--cluster",
        ROOT / "examples" / "inventory",
        "-o",
        "json",
    )
    here = subprocess.run(  # noqa: S603  # our words
        [sys.executable, "-m", "cli.main", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert here.returncode == 1, "with --exit-code, translate returns 1 if it changes objects"
    assert run(site, RUN_COMMAND, *words, code=1) == here.stdout
