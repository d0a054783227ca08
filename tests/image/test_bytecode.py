"""Modules are compiled for the Python of the image, with the paths that they have there."""

import importlib.util
import marshal
import sys

import pytest

from tools.image import bytecode
from tools.image.tree import File, Link

TREE = {"usr/lib/a.py": File(b"x = {1, 2}\n"), "usr/lib/bad.py": File(b"x ="), "usr/b": Link("a")}
COMPILED = "usr/lib/__pycache__/a.cpython-311.pyc"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only Python 3.11 compiles for 3.11")
def test_valid_modules_are_compiled_without_a_check_of_the_source() -> None:
    (compiled,) = bytecode.compile_modules(TREE).items()
    path, node = compiled
    assert path == COMPILED
    assert isinstance(node, File)
    assert node.data[:4] == importlib.util.MAGIC_NUMBER
    assert node.data[4] == 0b01, "a hash that is not checked (PEP 552)"
    assert marshal.loads(node.data[16:]).co_filename == "/usr/lib/a.py"  # noqa: S302  # compiled above


def test_another_python_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "PYTHON", "3.10")
    with pytest.raises(bytecode.BytecodeError, match=r"make image PYTHON=python3\.10"):
        bytecode.compile_modules(TREE)
