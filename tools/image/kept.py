"""Keeps what depends on its input alone, such as compressed layers, for the next build."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path


def keep(folder: Path | None, kind: str, content: bytes, make: Callable[[bytes], bytes]) -> bytes:
    """Return what `make` makes of the content; from the folder if it was made before.

    `kind` names the maker with its version. Without a folder, everything is made again.
    """
    if folder is None:
        return make(content)
    path = folder / f"{kind}-{hashlib.sha256(content).hexdigest()}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f".{path.name}-{os.getpid()}"
        half.write_bytes(make(content))
        half.replace(path)  # never half written, and the last of two builds wins
    return path.read_bytes()
