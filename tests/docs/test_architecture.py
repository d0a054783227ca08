"""docs/architecture.md: its import graphs are the real ones, and its index names existing files."""

import functools
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
INDEX = "## Where do I find ..."
GLOSSARY = "## Glossary"
FEWEST_WORDS, FEWEST_QUESTIONS = 30, 10

# Statements at the start of a line. To parse all modules would take several seconds.
IMPORT = re.compile(
    r"^[ \t]*(?:from (\w[\w.]*) import (?:\(([^)]*)\)|(.*))|import (\w[\w., ]*))", re.MULTILINE
)

Graph = Mapping[str, frozenset[str]]


@functools.cache
def imported_modules(path: Path) -> frozenset[str]:
    """The absolute module names that a module imports, also inside functions."""
    names: set[str] = set()
    for origin, group, line, modules in IMPORT.findall(path.read_text("utf-8")):
        if origin:
            imported = re.findall(r"\w+", re.sub(r"#.*|\bas \w+", "", group or line))
            names |= {origin, *(f"{origin}.{name}" for name in imported)}
        names |= {each.split()[0] for each in modules.split(",") if each.strip()}
    return frozenset(names)


@functools.cache
def imported_parts(path: Path) -> frozenset[str]:
    """The modules that a module imports, and the packages that they are in."""
    return frozenset(
        ".".join(parts[:length])
        for parts in (name.split(".") for name in imported_modules(path))
        for length in range(1, len(parts) + 1)
    )


def parts_of(folder: Path, prefix: str) -> dict[str, list[Path]]:
    """The packages and modules in a folder, by the name under which others import them."""
    parts = {
        prefix + path.parent.name: sorted(path.parent.rglob("*.py"))
        for path in folder.glob("*/__init__.py")
    }
    if prefix:
        modules = (path for path in folder.glob("*.py") if path.name != "__init__.py")
        parts |= {prefix + path.stem: [path] for path in modules}
    return parts


@functools.cache
def real_graph(package: str = "") -> Graph:
    """For each part of a package, or of the repository, the other parts that its modules import."""
    prefix = f"{package}." if package else ""
    parts = parts_of(ROOT / package, prefix)
    return {
        part.removeprefix(prefix): frozenset(
            other.removeprefix(prefix)
            for other in parts
            if other != part and any(imports(path, other) for path in paths)
        )
        for part, paths in parts.items()
    }


def imports(path: Path, part: str) -> bool:
    """Whether a module imports a package or something in it."""
    return part in imported_parts(path)


def mermaid_graphs(page: str) -> list[Graph]:
    """The Mermaid graphs of a page, as nodes and the nodes that their arrows point to."""
    graphs = []
    for block in re.findall(r"```mermaid\ngraph \w+\n(.*?)```", page, re.DOTALL):
        arrows: dict[str, frozenset[str]] = {}
        for line in block.strip().splitlines():
            origin, _, targets = line.partition("-->")
            assert origin.strip() not in arrows, f"{origin.strip()} has two lines"
            arrows[origin.strip()] = frozenset(each.strip() for each in targets.split("&"))
        graphs.append(arrows)
    return graphs


def reachable(graph: Graph, start: str) -> frozenset[str]:
    """All nodes that a path of arrows leads to."""
    passed: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in passed:
            passed.add(node)
            waiting += graph.get(node, ())
    return frozenset(passed)


def without_implied(graph: Graph) -> Graph:
    """The same graph without arrows that a longer path already implies."""
    return {
        node: frozenset(
            target
            for target in targets
            if not any(target in reachable(graph, other) for other in targets - {target})
        )
        for node, targets in graph.items()
    }


def drawn(graph: Graph) -> Graph:
    """A graph as the page draws it: a package without imports has no line."""
    return {node: targets for node, targets in graph.items() if targets}


@pytest.mark.parametrize(("number", "package"), [(0, ""), (1, "drawbridge")])
def test_a_graph_is_the_real_one_without_implied_imports(number: int, package: str) -> None:
    assert mermaid_graphs(PAGE)[number] == drawn(without_implied(real_graph(package)))


@pytest.mark.parametrize("package", ["", "drawbridge"])
def test_packages_do_not_import_each_other_in_a_cycle(package: str) -> None:
    try:
        TopologicalSorter(real_graph(package)).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def section(title: str) -> str:
    """The text of a section, without its heading."""
    _, heading, rest = PAGE.partition(f"\n{title}\n")
    assert heading, f"no section {title}"
    return re.split(r"\n## ", rest, maxsplit=1)[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the table in a section, without the two lines of its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def paths(cells: Iterable[str]) -> list[str]:
    """What stands in backticks and looks like a path of the repository."""
    return [path for cell in cells for path in re.findall(r"`([\w./-]+/[\w./-]*)`", cell)]


def test_every_answer_of_the_index_names_existing_files() -> None:
    table = rows(INDEX)
    assert len(table) >= FEWEST_QUESTIONS
    for question, answer in table:
        assert paths([answer]), question
        for path in paths([answer]):
            assert (ROOT / path).exists(), f"{question}: {path}"


def test_every_word_of_the_glossary_names_the_file_that_defines_it() -> None:
    table = rows(GLOSSARY)
    words = [word for word, *_ in table]
    assert len(words) >= FEWEST_WORDS
    assert words == sorted(words)
    for word, _, place in table:
        assert paths([place]), word
        for path in paths([place]):
            assert (ROOT / path).exists(), f"{word}: {path}"


def test_every_path_with_a_file_extension_exists() -> None:
    for path in re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|yaml|md))`", PAGE):
        assert (ROOT / path).exists(), path


def test_links_within_the_page_lead_to_a_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(#([^)]+)\)", PAGE):
        assert target in headings, target


def test_functions_and_fields_that_the_end_to_end_page_names_exist() -> None:
    page = (ROOT / "e2e" / "README.md").read_text("utf-8").partition("## Writing a scenario")[2]
    text = page.partition("## Legacy manifests")[0]
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "e2e").rglob("*.py"))
    code = " ".join(re.findall(r"`([^`]+)`", text.replace("```", "")))
    names = set(re.findall(r"(?<=\.)([a-z_]{3,})\b(?!\.|/)|\b([a-z_]{3,})\(", code))
    named = {first or second for first, second in names} - {"yaml", "py", "dev"}
    assert {"installed", "driver"} <= named
    for name in named:
        assert re.search(rf"def {name}\(|\bself\.{name}\b|^    {name}: ", sources, re.MULTILINE), (
            name
        )


def test_implied_arrows_are_left_out() -> None:
    graph: Graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset()}
    assert without_implied(graph) == {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset()}
    page = "```mermaid\ngraph TD\n    a --> b & c\n    b --> c\n```\n"
    assert mermaid_graphs(page) == [drawn(graph)]
