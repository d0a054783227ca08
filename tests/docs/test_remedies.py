"""What a remedy tells a person to do can be done: its commands, settings and objects exist."""

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


def texts_of(value: ast.expr) -> Iterator[str]:
    """Yield the texts in an expression; a name stands for each value that is filled in."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            texts = (next(texts_of(each), "NAME") for each in parts)
            yield "".join(texts)
        case _:
            for part in ast.iter_child_nodes(value):
                if isinstance(part, ast.expr):
                    yield from texts_of(part)


def remedies_in(path: Path) -> Iterator[str]:
    """Yield the remedies that a module passes to its findings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "remedy":
            yield from texts_of(node.value)


REMEDIES = [
    *((code.name, code.remedy) for code in EXPLAINED.values()),
    *(
        (path.relative_to(ROOT).as_posix(), remedy)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for remedy in remedies_in(path)
    ),
]


def find_all(pattern: str) -> dict[str, str]:
    """Return what matches in the remedies, and where."""
    return {match: place for place, remedy in REMEDIES for match in re.findall(pattern, remedy)}


def mistake_in(command: str) -> str:
    """Return what is wrong with a command line; empty if nothing is."""
    words = shlex.split(command)[1:]
    words = words[: words.index("|")] if "|" in words else words
    if words[0] not in COMMANDS:
        return "no command"
    try:
        parser_for(words[:1], "drawbridge").parse_args(words)
    except UsageError as error:
        return "" if any(each in f"{error}" for each in INCOMPLETE) else f"{error}"
    return ""


def test_commands_in_remedies_exist() -> None:
    commands = find_all(r"\b(drawbridge [a-z][^`|]*)[`|]")
    assert {f"{place}: {each}": mistake_in(each) for each, place in commands.items()} == {
        f"{place}: {each}": "" for each, place in commands.items()
    }
    assert "drawbridge explain devices" in commands


def test_settings_in_remedies_exist() -> None:
    places = {row.place for row in ROWS}
    tops = {place for place in places if place.isalpha()}
    settings = find_all(r"`(\w+(?:\[\])?(?:\.\w+)+)[:`]")
    ours = {each for each in settings if re.split(r"\W", each)[0] in tops}
    assert ours - places == set()
    assert {"admission.everyPod", "fleet[].closed"} <= ours


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
