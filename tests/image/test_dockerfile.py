"""The Dockerfile, which nobody has built yet, says the same as `make image`."""

import json
import re
import shlex

import pytest

from e2e.bridge.build import PINS
from tools.image import contents, debian
from tools.image.build import ROOT

LINES = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text("utf-8")).splitlines()
IGNORED = (ROOT / ".dockerignore").read_text("utf-8").splitlines()


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def test_the_release_is_that_of_the_lock() -> None:
    first, last = instructions("FROM")
    assert first == f"--platform=$BUILDPLATFORM debian:{contents.RELEASE}-slim AS build"
    assert last == "scratch"


def test_the_files_come_from_the_tool_of_make_image() -> None:
    *_, make_tree = instructions("RUN")
    words = shlex.split(make_tree)
    assert words[words.index("-m") :] == [
        *("-m", "tools.image", "tree", "--architecture", "$TARGETARCH", "--into", "/image"),
    ]
    assert instructions("COPY")[-1] == "--from=build /image /"
    assert {"amd64", "arm64"} == set(debian.ARCHITECTURES), "the engine's names of them"


def test_the_python_is_that_of_the_image() -> None:
    _, environment, _ = instructions("RUN")
    assert f"python{contents.PYTHON} -m venv" in environment
    assert "--require-hashes --requirement requirements.lock" in environment


def test_a_container_runs_as_the_configuration_of_make_image_says() -> None:
    (environment,) = instructions("ENV")
    assert {
        "User": instructions("USER")[0],
        "Entrypoint": json.loads(instructions("ENTRYPOINT")[0]),
        "Env": shlex.split(environment),
        "WorkingDir": instructions("WORKDIR")[-1],
    } == contents.RUN


@pytest.mark.parametrize("name", [".git", ".venv", ".cache", "build"])
def test_what_the_build_does_not_read_is_not_sent(name: str) -> None:
    assert name in IGNORED


@pytest.mark.parametrize(
    "name", ["debian.lock", "requirements-runtime.lock", "tools", "pyproject.toml"]
)
def test_what_the_build_reads_is_sent(name: str) -> None:
    assert name not in IGNORED
    assert (ROOT / name).exists()


def test_the_dockerfile_of_the_scheduler_builds_the_pins_of_the_rig() -> None:
    text = (ROOT / "bridge" / "Dockerfile").read_text("utf-8")
    cases = re.findall(r"^ +(1\.\d+)\) pin=(\S+); tags=(\S*) ;;", text, re.MULTILINE)
    assert {version: (pin, tags) for version, pin, tags in cases} == PINS
    (pattern,) = re.findall(r"sed -n 's\|(.*?)\|\|p'", text)
    for version, (pin, _) in PINS.items():
        lines = (ROOT / "bridge" / pin).read_text("utf-8").splitlines()
        (full,) = (re.sub(pattern, "", each) for each in lines if re.match(pattern, each))
        assert full.startswith(f"{version}.")
