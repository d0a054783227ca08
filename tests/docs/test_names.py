"""Commands, metrics, labels, settings and packages that the pages name exist.

Commands that need a cluster do not run here, but their options are parsed. A page that lists all
items of a kind must not miss one.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import controller.reconcilers
from cli.commands import COMMANDS, parser_for
from drawbridge.config import accept as reading
from drawbridge.config.model import Configuration
from drawbridge.config.schema import ROWS
from drawbridge.translate.targets.codes import GUARDED
from tests.docs.test_commands import PAGES, ROOT, Step, blocks, console, run, steps
from tests.process.idle_collectors import idle_collectors
from tests.process.registries import REGISTRIES
from tests.tables import every_row, read_yaml, read_yaml_documents

RENDERED = {"configuration.md"}
WRITTEN = [page for page in PAGES if page.name not in RENDERED]
OPERATING = "".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("operating.md", "alerts.md")
)


def ids(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def ours(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of every `drawbridge` command line on a page."""
    for block in console(page):
        for step in steps(block):
            command = step.command.replace("\\\n", " ").replace("kubectl drawbridge", "drawbridge")
            lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word and set(word) <= set("();<>|&"):
                    if words[:1] == ["drawbridge"]:
                        yield block.place, words[1:]
                    words = []
                else:
                    words.append(word)


@every_row("page", PAGES, ids=ids)
def test_every_command_line_on_a_page_is_valid(page: Path) -> None:
    for place, words in ours(page):
        name = next(word for word in words if not word.startswith("-"))
        assert name in COMMANDS, f"{place}: drawbridge {name}"
        try:
            parser_for([name], "drawbridge").parse_args(words)
        except SystemExit:
            pytest.fail(f"{place}: drawbridge {' '.join(words)}")


def test_command_lines_are_found_on_the_pages() -> None:
    lines = [words for page in PAGES for _, words in ours(page)]
    assert ["config", "facts", "--context"] in lines
    assert ["explain", "train", "-n", "team-a"] in lines
    assert any(words[:1] == ["simulate"] for words in lines)


def registered() -> set[str]:
    names = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for registry in REGISTRIES
        for metric in registry.collect()
    }
    for collector in idle_collectors():
        for metric in collector.collect():
            names.add(metric.name + ("_total" if metric.type == "counter" else ""))
    return {name for name in names if name.startswith(("drawbridge_", "controller_runtime_"))}


def test_the_operations_page_lists_exactly_the_registered_metrics() -> None:
    documented = set(re.findall(r"\b(?:drawbridge|controller_runtime)_[a-z_]+", OPERATING))
    assert registered() - documented == set()
    assert documented - registered() == set()


def test_the_operations_page_lists_every_reconciler() -> None:
    for reconciler in controller.reconcilers.SCHEDULES:
        assert f"`{reconciler}`" in OPERATING, reconciler


def test_options_on_the_operations_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["serve", "webhook"], ["serve", "controller"], ["audit"]):
        with pytest.raises(SystemExit):
            parser_for(words[:1], "drawbridge").parse_args([*words, "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"`(--[a-z-]+)`", OPERATING))
    assert named
    assert named <= options


def sources() -> str:
    """Return the source of all product packages, of releases and of manifests as one text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [each for package in packages for each in sorted((ROOT / package).rglob("*.py"))]
    files += sorted((ROOT / "tools" / "release").rglob("*.py"))
    files += sorted((ROOT / "manifests").rglob("*.yaml"))
    return "\n".join(each.read_text("utf-8") for each in files)


def test_labels_and_annotations_on_pages_exist() -> None:
    made = set(re.findall(r"[a-z.]*drawbridge\.dev/[a-z0-9-]+", sources()))
    for page in WRITTEN:
        text = page.read_text("utf-8")
        documented = {
            name.rstrip("-") for name in re.findall(r"[a-z.]*drawbridge\.dev/[a-z0-9-]+", text)
        }
        assert documented <= made, f"{page.name}: {documented - made}"


def test_settings_on_pages_exist() -> None:
    places = {row.place for row in ROWS}
    tops = {place for place in places if re.fullmatch(r"\w+", place)}
    flat = {place.replace("[]", "") for place in places}
    named = set()
    for page in WRITTEN:
        for name in re.findall(r"`(\w+(?:\.\w+)+)[:`]", page.read_text("utf-8")):
            is_file = name.endswith(".py") or (ROOT / name.replace(".", "/")).exists()
            if name.partition(".")[0] in tops and not is_file:
                named.add(name)
                assert name in flat, f"{page.name}: {name}"
    assert "scope.rollout.percent" in named


def objects(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object in a YAML document, also in YAML texts such as patches."""
    match value:
        case str() if "\n" in value:
            yield from objects(read_yaml(value))
        case list():
            for element in value:
                yield from objects(element)
        case dict():
            yield value
            for inner in value.values():
                yield from objects(inner)


@every_row("page", WRITTEN, ids=ids)
def test_yaml_on_pages_is_valid_and_configurations_are_accepted(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), page.name):
        if block.words[:1] != ("yaml",):
            continue
        text = re.sub(r"<[a-z ]+>", "name", "\n".join(block.lines))
        for document in read_yaml_documents(text.replace("...\n", "\n")):
            for obj in objects(document):
                if obj.get("kind") == "Configuration":
                    read = reading.accept_configuration(obj, {})
                    assert isinstance(read, Configuration), (block.place, read)


def test_slices_on_pages_have_no_findings(tmp_path: Path) -> None:
    shown = [
        "\n".join(block.lines)
        for page in WRITTEN
        for block in blocks(page.read_text("utf-8"), page.name)
        if "kind: ResourceSlice" in block.lines
    ]
    assert shown
    for number, text in enumerate(shown):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
    done = run(Step("drawbridge check -f .", ()), tmp_path)
    assert done.returncode == 0, done.stdout


def test_documented_losses_are_the_guarded_ones() -> None:
    documented = next(row.type for row in ROWS if row.place == "decisions.allowLossOf")
    assert set(re.findall(r"`(.+?)`", documented)) == GUARDED


def test_the_dependencies_page_lists_exactly_the_declared_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    page = (ROOT / "tools" / "release" / "README.md").read_text("utf-8")
    first, second = page.partition("\n## Dependencies\n")[2].split("### For building", 1)
    groups = project["dependency-groups"]
    drawn = json.loads((ROOT / "tools" / "site" / "package.json").read_text("utf-8"))
    for declared, part in (
        (project["project"]["dependencies"], first),
        ((*groups["dev"], *groups["site"], *drawn["dependencies"]), second),
    ):
        names = {re.split(r"[<>=]", each)[0] for each in declared}
        rows = re.findall(r"^\| ([^|]+) \|", part, re.MULTILINE)
        documented = {name.strip() for row in rows for name in row.split(",")}
        assert documented - {"package"} == names


LOCKS = [
    path
    for pattern in ("*.lock", "tools/*/package-lock.json", "e2e/*/package-lock.json")
    for path in sorted(ROOT.glob(pattern))
]


@every_row("lock", LOCKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_lock_file_has_hashes_and_no_addresses(lock: Path) -> None:
    text = lock.read_text("utf-8")
    assert "://" not in text
    assert re.search(r"sha(256|512)[:-]|\b[0-9a-f]{64}\b", text)


def test_the_package_table_lists_exactly_the_existing_packages() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    text = page.partition("\n## Packages\n")[2].partition("\n### Imports\n")[0]
    documented = set(re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE))
    folders = [*ROOT.glob("*/__init__.py"), *ROOT.glob("drawbridge/*/__init__.py")]
    there = {each.parent.relative_to(ROOT).as_posix() for each in folders}
    assert documented == there - {"drawbridge"}


def test_modules_on_the_architecture_page_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    packages = {each.parent.name for each in ROOT.glob("*/__init__.py")}
    named = set()
    for package, rest in re.findall(r"`(\w+)[./]([\w./]*\w)(?:\([^`]*\))?`", text):
        label = (package, rest.partition("/")[0]) == ("drawbridge", "dev")
        if package in packages and "*" not in rest and not label:
            named.add((package, rest))
            places = [ROOT / package / rest, ROOT / package / f"{rest.replace('.', '/')}.py"]
            places.append(places[1].with_suffix(""))
            assert any(each.exists() for each in places), f"{package}.{rest}"
    assert len(named) > 10
