"""Renders docs/rbac.md from the role files: their rules, with the comments as reasons."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_TEMPLATE: Final = Path(__file__).with_name("rbac.md")
_MANIFESTS: Final = Path(__file__).parent.parent / "manifests"
# ConfigMaps of one kind are shown by the first and the last.
_SERIES: Final = re.compile(r"(`[\w-]+-01`)(?:, `[\w-]+-\d\d`)*, (`[\w-]+-\d\d`)")
_HEAD: Final = "| resources | verbs | for |\n|---|---|---|\n"


class Role(NamedTuple):
    """A role, the comment above it, and the comment above each rule."""

    kind: str
    name: str
    account: str
    rules: list[dict[str, Any]]
    reason: str
    rule_reasons: list[str]
    component: str = ""


def read_roles(file: Path) -> Iterator[Role]:
    """Yield the roles of a file with their reasons."""
    text = file.read_text("utf-8")
    component = file.parent.name if file.parent.parent.name == "components" else ""
    bound = {
        binding["roleRef"]["name"]: binding["subjects"][0]["name"]
        for binding in yaml.load_all(text, yaml.CSafeLoader)
        if "roleRef" in binding
    }
    for part in re.split(r"^---$", text, flags=re.MULTILINE):
        source = yaml.load(part, yaml.CSafeLoader)
        if source["kind"] in ("Role", "ClusterRole"):
            name = source["metadata"]["name"]
            yield Role(
                source["kind"],
                name,
                bound.get(name, ""),
                source["rules"],
                _read_comment(part.strip().splitlines()),
                [_read_comment(lines) for lines in _split_rules(part)],
                component,
            )


def _split_rules(text: str) -> Iterator[list[str]]:
    """Yield the comment lines before each rule."""
    comment: list[str] = []
    for line in text.partition("\nrules:\n")[2].splitlines():
        if line.startswith("  - "):
            yield comment
        comment = [*comment, line.strip()] if line.strip().startswith("#") else []


def _read_comment(lines: list[str]) -> str:
    """Return the last paragraph of the comment at the start."""
    comment: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment = [] if line == "#" else [*comment, line.removeprefix("#").strip()]
    return " ".join(comment)


def list_roles() -> list[Role]:
    """Return all roles of the base and of the components."""
    files = sorted(_MANIFESTS.glob("base/roles-*.yaml"))
    files += sorted(_MANIFESTS.glob("components/*/*-account.yaml"))
    return [role for file in files for role in read_roles(file)]


def render_page() -> str:
    """Return the page."""
    roles = list_roles()
    accounts = dict.fromkeys(role.account for role in roles if role.account)
    processes = [
        f"## Roles of `{account}`\n\n"
        + "".join(_render_role(each) for each in roles if each.account == account)
        for account in accounts
    ]
    people = [_render_role(each) for each in roles if not each.account]
    page = _TEMPLATE.read_text("utf-8")
    return page.replace("{processes}\n", "".join(processes)).replace("{people}\n", "".join(people))


def _render_role(role: Role) -> str:
    pairs = zip(role.rules, role.rule_reasons, strict=True)
    rows = "".join(_render_rule(rule, reason) for rule, reason in pairs)
    where = f" Part of the component `{role.component}`." if role.component else ""
    return f"### {role.kind} `{role.name}`\n\n{role.reason}{where}\n\n{_HEAD}{rows}\n"


def _render_rule(rule: dict[str, Any], reason: str) -> str:
    resources = [
        f"`{group}/{resource}`" if group else f"`{resource}`"
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    what = ", ".join(resources)
    if names := ", ".join(f"`{each}`" for each in rule.get("resourceNames", ())):
        what += " named " + _SERIES.sub(r"\1 to \2", names)
    cells = [what, ", ".join(rule["verbs"]), reason]
    return f"| {' | '.join(cells)} |\n"
