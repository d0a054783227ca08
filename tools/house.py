"""House rules that no linter knows: modules under 400 lines, functions under 30.

An exception states its reason in place: `# house: long, <reason>` on the line of the `def`, or
`# house: long module, <reason>` within the first ten lines of a file.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 30


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function from `def` to its end, the docstring left out."""
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    doc = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - doc


def violations(path: Path) -> Iterator[str]:
    """Yield a line for each rule that the file at `path` breaks."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    excused = any("# house: long module, " in line for line in lines[:10])
    if len(lines) > MODULE_LINES and not excused:
        yield f"{path}:1: {len(lines)} lines, at most {MODULE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = body_lines(node)
        if length > FUNCTION_LINES and "# house: long, " not in lines[node.lineno - 1]:
            yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}"


def main() -> int:
    """Check every Python file git knows or could know; 1 when a rule is broken."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],  # noqa: S607  # git of the PATH
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    found = [line for name in listed if Path(name).exists() for line in violations(Path(name))]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
