"""Builds a release of this checkout, signs it, publishes it on loopback, and verifies it.

    python -m e2e.signatures [--cosign] [--kubernetes 1.36]

The commands of docs/installing.md must succeed, and verification must fail after each change that
an attacker could make. cosign's library verifies; with `--cosign`, which builds for up to an hour,
the whole command does, and signs. Images are built for this machine; `--kubernetes` adds
schedulers.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from e2e.renderers.build import binaries as renderers
from e2e.signatures.build import binaries
from e2e.signatures.changes import CHANGES, Place
from e2e.signatures.page import read_commands

ROOT: Final = Path(__file__).parents[2]
_RENDER: Final = """\
helm pull --plain-http oci://{address}/charts/drawbridge --version 0.1.0
helm template x drawbridge-0.1.0.tgz | grep -q 'image: .*{address}/drawbridge@sha256:'
"""
_CURVE: Final = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


class Result(NamedTuple):
    """A check, whether it went as it must, and what was printed."""

    name: str
    is_right: bool
    printed: str


def main(words: Sequence[str]) -> int:
    """Run all checks; the exit code is 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m e2e.signatures", description=__doc__)
    parser.add_argument("--kubernetes", nargs="*", default=[])
    parser.add_argument("--cosign", action="store_true")
    options = parser.parse_args(words)
    cosign = "cosign" if options.cosign else "verifier"
    programs = binaries((cosign, "oras", "registry"))
    with tempfile.TemporaryDirectory() as name, _registry(programs) as address:
        folder = Path(name)
        (folder / "bin").mkdir()
        (folder / "bin" / "cosign").symlink_to(programs / cosign)
        path = f"{folder}/bin:{programs}:{renderers()}:{os.environ['PATH']}"
        results = list(_check(folder, address, path, options))
    lines = [f"{'ok' if one.is_right else 'FAILED':8}{one.name}" for one in results]
    lines += [one.printed for one in results if not one.is_right]
    wrong = sum(not one.is_right for one in results)
    sys.stdout.write("\n".join((*lines, f"{len(results)} checks, {wrong} failed")) + "\n")
    return 1 if wrong else 0


def _check(folder: Path, address: str, path: str, options: argparse.Namespace) -> Iterator[Result]:
    variables = {"PATH": path, "HOME": str(folder), "REGISTRY": address, "COSIGN_PASSWORD": ""}
    place = Place(folder, folder / "release", address, variables)
    for name in ("key", "other"):
        key = f"{folder}/{name}"
        _must("openssl", "genpkey", *_CURVE, "-out", f"{key}.pem")
        _must("openssl", "pkey", "-in", f"{key}.pem", "-pubout", "-out", f"{key}.pub")
    architecture = "arm64" if os.uname().machine == "aarch64" else "amd64"
    tool = (sys.executable, "-m", "tools.release")
    built = ("--dirty", f"--architecture={architecture}", f"--registry={address}")
    _must(*tool, "build", str(place.release), *built, "--kubernetes", *options.kubernetes)
    publish = (str(ROOT / ".ci" / "publish"), str(place.release), address)
    if options.cosign:
        by_key = (f"--key={folder}/key.pem", "--use-signing-config=false", "--tlog-upload=false")
        signed = (*publish, *by_key)
        yield _expect("a release that cosign signed is published", signed, variables, ROOT)
    _must(*tool, "sign", str(place.release), f"--key={folder}/key.pem")
    _must(*tool, "check", str(place.release), f"--key={folder}/key.pub")
    command = (*publish, "--signed")
    yield _expect("a release that tools.release signed is published", command, variables, ROOT)
    shutil.copytree(place.release / "files", folder, dirs_exist_ok=True)
    shutil.copytree(place.release / "bundles", folder, dirs_exist_ok=True)
    shutil.copy(folder / "key.pub", folder / "drawbridge.pub")
    for shown in read_commands(ROOT / "docs" / "installing.md", architecture):
        yield _expect(shown, ("bash", "-ec", shown), variables, folder)
    render = _RENDER.format(address=address)
    yield _expect("helm pulls and renders the chart", ("bash", "-ec", render), variables, folder)
    for change in CHANGES:
        done = _run(change.make(place), variables, folder)
        refused = done.returncode != 0 and re.search(change.refusal, done.stdout) is not None
        yield Result(f"refused: {change.name}", refused, done.stdout)


def _expect(
    name: str, command: Sequence[str], variables: Mapping[str, str], folder: Path
) -> Result:
    """Run a command, which must succeed."""
    done = _run(command, variables, folder)
    return Result(name, done.returncode == 0, done.stdout)


def _run(
    command: Sequence[str], variables: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _must(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _registry(programs: Path) -> Iterator[str]:
    """Run a registry; yield its address."""
    with subprocess.Popen([programs / "registry"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = process.stdout.readline().strip().rpartition(":")[2]
        try:
            yield f"localhost:{port}"
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
