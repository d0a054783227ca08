"""Compiles the Python modules of the image.

The root file system is read-only, so Python could not store what it compiles at the start, and
every start would compile everything. The files are marked as unchecked: Python neither looks at
the times of the sources nor reads them.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.image.contents import PYTHON
from tools.image.tree import File, Node, Tree


class BytecodeError(Exception):
    """The modules cannot be compiled."""


def check_interpreter() -> None:
    """Raise BytecodeError if this Python does not compile for that of the image."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        raise BytecodeError(
            f"this is Python {sys.version.split()[0]}, and the image has Python {PYTHON}: "
            f"run `make clean`, and `make image PYTHON=python{PYTHON}`"
        )


def compile_modules(tree: Tree) -> dict[str, Node]:
    """Return the compiled modules of a tree. A file that is no valid Python is left out."""
    check_interpreter()
    sources = {
        path: node for path, node in tree.items() if path.endswith(".py") and isinstance(node, File)
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, node in sources.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(node.data)
        _compile(root)
        compiled_paths = {path: importlib.util.cache_from_source(path) for path in sources}
        return {
            compiled: File((root / compiled).read_bytes())
            for compiled in compiled_paths.values()
            if (root / compiled).exists()
        }


def _compile(root: Path) -> None:
    """Compile a folder in a process of its own, with the paths of the image in tracebacks.

    The order of the elements of a set depends on the hash seed, and reaches the compiled file.
    """
    command = [
        *(sys.executable, "-m", "compileall", "-q", "-q", "-j", "1"),
        *("-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash", str(root)),
    ]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False)  # noqa: S603  # our words
