"""Checks the rules of this repository that no linter has.

A module has at most 500 lines, and a function at most 50. No two modules of the product define a
public class with the same name, and something uses each name that they define. Functions,
parameters and variables have nouns of the domain as names: `each`, `found`, `known` and `one` say
nothing, and are for loops of one line. A property that Hypothesis calls leaves no example by
`return`: it could leave all of them. Of those that `assume` and `reject` leave out, Hypothesis
accepts five sixths at most.

An exception states its reason in place: `# house: long, <reason>` on the line of the `def`, or
`# house: long module, <reason>` within the first ten lines of a file. An exception of a function
that is no longer needed is a violation, too.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MODULE_LINES = 500
FUNCTION_LINES = 50
FILLERS = {"each", "found", "known", "one"}


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function from `def` to its end, without the docstring."""
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    doc = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - doc


class Module(NamedTuple):
    """A Python file, with the nodes of its tree."""

    path: Path
    lines: list[str]
    nodes: list[ast.AST]


def parse_module(path: Path, text: str) -> Module:
    """Parse a file, and walk over its tree once."""
    return Module(path, text.splitlines(), [*ast.walk(ast.parse(text))])


def violations(module: Module) -> Iterator[str]:
    """Yield a line for each limit that a file exceeds."""
    path, lines, nodes = module
    excused = any("# house: long module, " in line for line in lines[:10])
    if len(lines) > MODULE_LINES and not excused:
        yield f"{path}:1: {len(lines)} lines, at most {MODULE_LINES}"
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = body_lines(node)
        excused = "# house: long, " in lines[node.lineno - 1]
        if length > FUNCTION_LINES and not excused:
            yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}"
        if length <= FUNCTION_LINES and excused:
            yield f"{path}:{node.lineno}: {node.name} needs no exception"


def fillers(module: Module) -> Iterator[str]:
    """Yield a line for each name that says nothing, and lives longer than one line."""
    for node in module.nodes:
        bound: list[tuple[int, str]] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            bound = [(node.lineno, node.name), *((arg.lineno, arg.arg) for arg in parameters)]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [name for target in targets for name in _names(target)]
        elif isinstance(node, ast.For | ast.AsyncFor) and _body_lines(node) > 1:
            bound = _names(node.target)
        for line, name in bound:
            if name in FILLERS:
                yield f"{module.path}:{line}: {name} says nothing, use a noun of the domain"


def _names(target: ast.expr) -> list[tuple[int, str]]:
    """Return the names that an assignment binds; not those in `x[name]` and `name.x`."""
    names = (node for node in ast.walk(target) if isinstance(node, ast.Name))
    return [(node.lineno, node.id) for node in names if isinstance(node.ctx, ast.Store)]


def _body_lines(loop: ast.For | ast.AsyncFor) -> int:
    return (loop.body[-1].end_lineno or 0) - loop.body[0].lineno + 1


def early_returns(module: Module) -> Iterator[str]:
    """Yield a line for each `return` in a property; not those of functions within it."""
    given = {
        name.asname or name.name
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "hypothesis"
        for name in node.names
        if name.name == "given"
    }
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            isinstance(call, ast.Call) and ast.unparse(call.func) in given
            for call in node.decorator_list
        ):
            for line in _returns(node):
                yield f"{module.path}:{line}: {node.name} is a property, use assume or reject"


def _returns(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child.lineno
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _returns(child)


def public_classes(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the public classes of a file with their places; its tree is the first node."""
    root = module.nodes[0]
    for node in root.body if isinstance(root, ast.Module) else ():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, f"{module.path}:{node.lineno}"


def duplicate_classes(classes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each public class whose name another file defines, too."""
    defined: dict[str, str] = {}
    for name, place in sorted(classes):
        other = defined.setdefault(name, place)
        if other.partition(":")[0] != place.partition(":")[0]:
            yield f"{place}: class {name} is defined in {other}, too"


def count_words(module: Module) -> Counter[str]:
    """Count the words of a file, those of comments and texts as well."""
    return Counter(re.findall(r"\w+", "\n".join(module.lines)))


def definitions(module: Module) -> Iterator[tuple[str, str]]:
    """Yield what a file defines with its place.

    A private method can override one of a library, and an annotation `type[...]` is for mypy.
    """
    root = module.nodes[0]
    body = root.body if isinstance(root, ast.Module) else []
    outer = frozenset(map(id, body))
    defined = [
        (node.lineno, node.name)
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (id(node) in outer or not node.name.startswith("_"))
    ]
    for node in body:
        if isinstance(node, ast.Assign):
            defined += (name for target in node.targets for name in _names(target))
        elif isinstance(node, ast.AnnAssign) and not _is_type_check(node):
            defined += _names(node.target)
    for line, name in defined:
        yield name, f"{module.path}:{line}"


def unused(defined: Iterable[tuple[str, str]], words: Counter[str]) -> Iterator[str]:
    """Yield a line for each definition whose name is among the words of these files once."""
    for name, place in defined:
        if words[name] == 1:
            yield f"{place}: nothing but tests uses {name}"


def _is_type_check(node: ast.AnnAssign) -> bool:
    return ast.unparse(node.annotation).startswith("type[")


def product_packages() -> set[str]:
    """Return the packages that the wheel contains."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    return set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def main() -> int:
    """Check every Python file that git tracks or could track; 1 if a rule is broken."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],  # noqa: S607  # git of the PATH
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    packages = product_packages()
    broken: list[str] = []
    classes: list[tuple[str, str]] = []
    defined: list[tuple[str, str]] = []
    words = Counter[str]()
    for path in filter(Path.exists, map(Path, listed)):
        module = parse_module(path, path.read_text(encoding="utf-8"))
        broken += [*violations(module), *fillers(module), *early_returns(module)]
        # What only tests use is no part of the product.
        if path.parts[0] != "tests":
            words.update(count_words(module))
        if path.parts[0] in packages:
            classes += public_classes(module)
            defined += definitions(module)
    broken += [*duplicate_classes(classes), *unused(defined, words)]
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
