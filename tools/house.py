"""Checks the rules of this repository that no linter has.

A module has at most 500 lines, and a function at most 50. No two modules of the product define a
public class with the same name. Functions, parameters and variables have nouns of the domain as
names: `each`, `found`, `known` and `one` say nothing, and are for loops of one line. `LATER` lists
the modules that do not keep this rule yet.

An exception states its reason in place: `# house: long, <reason>` on the line of the `def`, or
`# house: long module, <reason>` within the first ten lines of a file. An exception of a function
that is no longer needed is a violation, too.
"""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MODULE_LINES = 500
FUNCTION_LINES = 50
FILLERS = {"each", "found", "known", "one"}
LATER = (
    "cli/diagnosis", "drawbridge/audit/commands.py", "drawbridge/audit/compose.py",
    "drawbridge/audit/model.py", "drawbridge/audit/plan.py", "drawbridge/choice/usable.py",
    "e2e/drivers", "e2e/queues", "e2e/scenarios/drivers", "e2e/scenarios/queues",
)  # fmt: skip


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
    """A Python file, parsed."""

    path: Path
    lines: list[str]
    tree: ast.Module


def read_module(path: Path) -> Module:
    """Read and parse a file."""
    text = path.read_text(encoding="utf-8")
    return Module(path, text.splitlines(), ast.parse(text))


def violations(module: Module) -> Iterator[str]:
    """Yield a line for each limit that a file exceeds."""
    path, lines, tree = module
    excused = any("# house: long module, " in line for line in lines[:10])
    if len(lines) > MODULE_LINES and not excused:
        yield f"{path}:1: {len(lines)} lines, at most {MODULE_LINES}"
    for node in ast.walk(tree):
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
    for node in ast.walk(module.tree):
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


def duplicate_classes(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each public class whose name another file defines, too."""
    defined: dict[str, Path] = {}
    for path, _, tree in sorted(modules, key=lambda module: module.path):
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            other = defined.setdefault(node.name, path)
            if other != path:
                yield f"{path}:{node.lineno}: class {node.name} is defined in {other}, too"


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
    modules = [read_module(Path(name)) for name in listed if Path(name).exists()]
    packages = product_packages()
    product = [module for module in modules if module.path.parts[0] in packages]
    broken = [line for module in modules for line in violations(module)]
    broken += duplicate_classes(product)
    plain = (each for each in modules if not each.path.as_posix().startswith(LATER))
    broken += [line for module in plain for line in fillers(module)]
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
