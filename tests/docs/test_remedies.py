"""What a remedy tells a person to do can be done: its commands, settings and objects exist.

Commands and settings are those in backticks, in findings.md and in all texts of the modules but
docstrings. Labels and objects are those in findings.md and in what is written as `remedy=`.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cli.commands import COMMANDS, parser_for
from cli.terminal.command_parser import UsageError
from drawbridge import names
from drawbridge.config.schema import ROWS
from drawbridge.finding import EXPLAINED
from tests.tables import read_yaml_documents

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("allocator", "certs", "cli", "controller", "drawbridge", "webhook")
# Of a usage error: the remedy names a command, and not what it is about.
INCOMPLETE = ("required", "expected one argument")


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node but docstrings; NAME stands for each value that is filled in."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(f"{e.value}" if isinstance(e, ast.Constant) else "NAME" for e in parts)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from texts_of(child)


def remedies_in(tree: ast.AST) -> Iterator[str]:
    """Yield the texts that a module passes to its findings as `remedy=`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "remedy":
            yield from texts_of(node.value)


TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
EXPLANATIONS = [(code.name, code.remedy) for code in EXPLAINED.values()]
REMEDIES = [*EXPLANATIONS, *((place, e) for place in TREES for e in remedies_in(TREES[place]))]
TEXTS = [*EXPLANATIONS, *((place, e) for place in TREES for e in texts_of(TREES[place]))]
# Fields of objects that are not the configuration of Drawbridge.
OTHERS = ("node.", "rayStartParams.", "resources.", "spec.")


def find_all(pattern: str) -> dict[str, str]:
    """Return what matches in the remedies, and where."""
    return {match: place for place, remedy in REMEDIES for match in re.findall(pattern, remedy)}


def commands_in(text: str) -> Iterator[str]:
    """Yield the commands of ours in the first lines of spans between backticks."""
    for span in re.findall(r"`([^`\n]*)", text):
        for part in span.split(" | "):
            if part.startswith("drawbridge ") and part.split()[1] != "...":
                yield part


def settings_in(text: str) -> Iterator[str]:
    """Yield the dotted names between backticks that are no fields of other objects."""
    for name in re.findall(r"`((?:[\w-]+(?:\[\])?\.)+[\w-]+(?:\[\])?)(?=[`:])", text):
        if not name.startswith(OTHERS):
            yield name


def mistake_in(command: str) -> str:
    """Return what is wrong with a command line; empty if nothing is."""
    words = shlex.split(command)[1:]
    if words[0] not in COMMANDS:
        return "no command"
    try:
        parser_for(words[:1], "drawbridge").parse_args(words)
    except UsageError as error:
        return "" if any(each in f"{error}" for each in INCOMPLETE) else f"{error}"
    return ""


def test_commands_in_remedies_exist() -> None:
    commands = {each: place for place, text in TEXTS for each in commands_in(text)}
    assert {f"{place}: {each}": mistake_in(each) for each, place in commands.items()} == {
        f"{place}: {each}": "" for each, place in commands.items()
    }
    assert "drawbridge explain devices" in commands


def test_settings_in_remedies_exist() -> None:
    settings = {each: place for place, text in TEXTS for each in settings_in(text)}
    assert settings.keys() - {row.place for row in ROWS} == set()
    assert {"admission.everyPod", "fleet[].closed", "targets[].resources"} <= settings.keys()


def test_misspelt_commands_and_settings_are_found_wherever_a_module_writes_them() -> None:
    tree = ast.parse(
        """
_REMEDY = f"Run `drawbridge explian {name}`, or set `admision.everyPod: true`."
raise Refusal("no", "Run `helm template . | drawbridge tranlsate -f -`.")
_PROSE = "Restart the scheduler drawbridge and set `spec.replicas: 2`."
"""
    )
    commands = [each for text in texts_of(tree) for each in commands_in(text)]
    assert commands == ["drawbridge explian NAME", "drawbridge tranlsate -f -"]
    assert {*map(mistake_in, commands)} == {"no command"}
    assert [each for text in texts_of(tree) for each in settings_in(text)] == ["admision.everyPod"]


def values_of_names() -> set[str]:
    texts = (each for each in vars(names).values() if isinstance(each, str | tuple))
    return {each for text in texts for each in ((text,) if isinstance(text, str) else text)}


def installed() -> set[tuple[str, str]]:
    """Return the kinds and names of the objects that the manifests install."""
    files = (ROOT / "manifests").rglob("*.yaml")
    documents = (
        each
        for path in files
        if "chart" not in path.parts
        for each in read_yaml_documents(path.read_text("utf-8"))
        if isinstance(each, dict) and "kind" in each and "name" in each.get("metadata", {})
    )
    return {(each["kind"], each["metadata"]["name"]) for each in documents}


def test_labels_and_objects_in_remedies_exist() -> None:
    there = values_of_names() | {name for _, name in installed()}
    named = find_all(r"(?<![\w./-])drawbridge(?:\.dev/|-)[a-z-]*[a-z]")
    assert named.keys() - {each.rstrip("-") for each in there} == set()
    assert {"drawbridge.dev/placement", "drawbridge-reader"} <= named.keys()


def test_no_remedy_asks_for_another_name_of_an_installed_object() -> None:
    objects = installed()
    assert ("MutatingWebhookConfiguration", names.WEBHOOK_CONFIGURATION) in objects
    either = "|".join(f"{re.escape(kind)} `?{re.escape(name)}" for kind, name in objects)
    assert find_all(rf"(?:{either})`? (?:a|another|a new) name\b|[Rr]ename (?:{either})\b") == {}
