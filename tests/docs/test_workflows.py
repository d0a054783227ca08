"""The workflows under .github/ call commands that exist, and tools.version guards a release."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from e2e.mutations import read_lists
from tests.tables import every_row, read_yaml
from tools.version import differences, main

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
CONTRIBUTOR_PAGES = [
    "CONTRIBUTING.md", "SECURITY.md", "GOVERNANCE.md", "MAINTAINERS.md", "CODE_OF_CONDUCT.md",
    "CHANGELOG.md",
]  # fmt: skip
# `READY := $(VENV)/.ready` in the Makefile: a target that creates the environment.
ENVIRONMENT = ".venv/.ready"
# Only these jobs may do more than read.
MORE_PERMISSIONS = {("release", "publish"): {"packages": "write", "id-token": "write"}}
EMPTY_CHANGELOG = "# Changelog\n\n## Unreleased\n"
CHANGELOG = EMPTY_CHANGELOG + "\n## 0.1.0 - 2026-11-20\n"


def load(path: Path) -> dict[str, Any]:
    """Read a workflow; YAML 1.1 reads the key `on` as true."""
    workflow: dict[Any, Any] = read_yaml(path.read_text("utf-8"))
    return {"on" if key is True else key: value for key, value in workflow.items()}


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in load(path)["jobs"].values():
        yield from job["steps"]


def missing_commands(script: str) -> list[str]:
    """The lines of a script that call a file, make target or Python module that does not exist."""
    missing = []
    for line in script.splitlines():
        words = line.split()
        match words:
            case ["make", target, *_]:
                exists = target == ENVIRONMENT or bool(
                    re.search(rf"^{re.escape(target)}:", MAKEFILE, re.MULTILINE)
                )
            case [".venv/bin/python", "-m", module, *_]:
                exists = (ROOT / module.partition(".")[0]).is_dir() and bool(find_spec(module))
            case [command, *_] if "/" in command:
                exists = os.access(ROOT / command, os.X_OK)
            case _:
                exists = True
        if not exists:
            missing.append(line)
    return missing


@every_row("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_commands_that_exist(path: Path) -> None:
    scripts = [step["run"] for step in steps(path) if "run" in step]
    assert scripts
    for script in scripts:
        assert missing_commands(script) == []


@every_row("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_needless_permission_and_names_a_version_of_every_action(
    path: Path,
) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        more = MORE_PERMISSIONS.get((path.stem, name))
        assert job.get("permissions") == (more and {"contents": "read", **more})
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), step["uses"]


def test_the_workflows_run_all_checks_lint_random_orders_the_slow_suites_and_a_soak() -> None:
    scripts = {
        path.stem: "\n".join(step.get("run", "") for step in steps(path)) for path in WORKFLOWS
    }
    slow = {
        "bridge", "browser", "drivers", "kind", "queues", "random-order", "rules", "signatures",
        "soak", "suites", "upstream",
    }  # fmt: skip
    assert scripts.keys() == {"ci", "lint", "release", *slow}
    assert ".ci/run" in scripts["ci"]
    assert "actionlint@v" in scripts["ci"], "else the workflows are not linted"
    assert "make check" in scripts["lint"]
    assert "make test-random" in scripts["random-order"]
    assert "-m e2e.kind " in scripts["kind"]
    assert "-m e2e.browser" in scripts["browser"]
    assert ".ci/rules" in scripts["rules"]
    assert "-m e2e soak " in scripts["soak"]
    assert "-m e2e drivers" in scripts["drivers"]
    assert "-m e2e queues" in scripts["queues"]
    assert "-m e2e.bridge.check_types" in scripts["bridge"]
    assert "-m e2e.upstream.dra" in scripts["upstream"]
    assert "make bench-scheduler" in scripts["upstream"]
    assert "-m e2e.signatures" in scripts["signatures"]
    assert "-m tools.release build" in scripts["release"]
    assert ".ci/publish" in scripts["release"]


def test_each_week_plays_what_runs_before_a_release_and_makes_all_mistakes() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "suites.yaml")["jobs"]
    text = (ROOT / "tools" / "release" / "README.md").read_text("utf-8")
    suites = [
        f"e2e {each}" for each in re.findall(r"^\$ SUITE=(\w+) make e2e$", text, re.MULTILINE)
    ]
    compared = re.findall(r"-m (e2e\.differential.*)$", text, re.MULTILINE)
    assert jobs["suite"]["strategy"]["matrix"]["command"] == suites + compared
    packages = [each.package for each in read_lists()]
    assert jobs["mistakes"]["strategy"]["matrix"]["package"] == packages


def test_actionlint_accepts_the_workflows() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip(
            "NOT LINTED: actionlint is not on PATH; tools/release/README.md says how to install it"
        )
    words = [actionlint, "-no-color", *map(str, WORKFLOWS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # found
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_has_fields_with_unique_ids(path: Path) -> None:
    form = read_yaml(path.read_text("utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0


def test_hooks_call_local_tools_only() -> None:
    hooks = read_yaml((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repo["repo"] for repo in hooks["repos"]] == ["local"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    tools = {re.split(r"[<>=]", each)[0] for each in project["dependency-groups"]["dev"]}
    for hook in hooks["repos"][0]["hooks"]:
        words = hook["entry"].split()
        if words[0].startswith(".venv/bin/"):
            assert words[0].removeprefix(".venv/bin/") in tools
        elif words[0] == "make":
            assert missing_commands(hook["entry"]) == []


@pytest.mark.parametrize(
    "script",
    ["make no-such-target", ".ci/no-such-script", ".venv/bin/python -m tools.no_such_module"],
)
def test_a_command_that_does_not_exist_is_found(script: str) -> None:
    assert missing_commands(script) == [script]


@every_row(
    ("version", "changelog", "tags", "expected"),
    [
        ("0.1.0", CHANGELOG, [], 0),
        ("0.1.0", CHANGELOG, ["v0.1.0"], 0),
        ("0.1.0", CHANGELOG, ["v0.1.1"], 1),
        ("0.1.0", CHANGELOG, ["0.1.0"], 1),
        ("0.2.0", CHANGELOG, [], 1),
        ("0.1.0", EMPTY_CHANGELOG, [], 1),
        ("0.1.0", CHANGELOG.replace("## Unreleased\n", ""), [], 1),
    ],
)
def test_tag_changelog_and_pyproject_must_name_one_version(
    version: str, changelog: str, tags: list[str], expected: int
) -> None:
    assert len(list(differences(version, changelog, tags))) == expected


def test_the_version_of_this_checkout_is_consistent() -> None:
    assert main([]) == 0


@every_row("name", CONTRIBUTOR_PAGES)
def test_links_of_contributor_pages_lead_to_files(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    for target in targets:
        assert (ROOT / target).exists(), target
