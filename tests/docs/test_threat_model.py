"""The page lists every right of our accounts to write, and names tests that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tables import every_row, read_yaml_documents

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def read_roles() -> dict[tuple[str, str], set[str]]:
    """Return the verbs that write, by account and resource, without roles of Kubernetes itself."""
    granted: dict[tuple[str, str], set[str]] = {}
    bridge = ROOT / "manifests" / "components" / "bridge" / "scheduler-account.yaml"
    for path in (*sorted((ROOT / "manifests" / "base").glob("roles-*.yaml")), bridge):
        objects: list[dict[str, Any]] = list(read_yaml_documents(path.read_text("utf-8")))
        rules = {(o["kind"], o["metadata"]["name"]): o.get("rules") for o in objects}
        for binding in (o for o in objects if o["kind"].endswith("Binding")):
            role = (binding["roleRef"]["kind"], binding["roleRef"]["name"])
            (subject,) = binding["subjects"]
            if role[1].startswith("system:"):
                continue
            for rule in rules[role] or ():
                for resource in list_resources(rule):
                    verbs = granted.setdefault((subject["name"], resource), set())
                    verbs |= WRITES & set(rule["verbs"])
    return {key: verbs for key, verbs in granted.items() if verbs}


def list_resources(rule: dict[str, Any]) -> Iterator[str]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            yield f"{group}/{resource}" if group else resource


def read_rows() -> dict[tuple[str, str], tuple[set[str], list[tuple[str, str]]]]:
    """Return the verbs and the tests of each row of the page, by account and resource."""
    rows = {}
    for line in PAGE.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("| drawbridge-"):
            account, resource, verbs, *_, tests = cells
            rows[account, resource.strip("`")] = (set(verbs.split(", ")), _TEST.findall(tests))
    return rows


def test_every_right_to_write_has_a_row_with_its_verbs() -> None:
    assert {key: verbs for key, (verbs, _) in read_rows().items()} == read_roles()


@every_row("key", read_rows(), ids="/".join)
def test_every_row_names_a_test(key: tuple[str, str]) -> None:
    _, tests = read_rows()[key]
    assert tests


@every_row(("path", "name"), sorted(set(_TEST.findall(PAGE))))
def test_the_named_tests_exist(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
