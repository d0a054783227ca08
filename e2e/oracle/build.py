"""Builds the oracle with Go, once per source and pin.

    python -m e2e.oracle.build

The binary lies in `.cache/`, named after what it was built from: sources, pins, tags, Go version.
Refuses to know what is asked of it.
"""

import hashlib
import os
import subprocess
from pathlib import Path

from e2e.controlplane.build import NoGoError, go_version

__all__ = ["NoGoError", "binary"]

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "oracle"
TAGS = "listattributes,allocator"


def binary() -> Path:
    """Return the oracle, building it if need be; NoGoError where there is no Go."""
    digest = hashlib.sha256((go_version() + TAGS).encode())
    for source in [HERE / "go.mod", HERE / "go.sum", *sorted(HERE.glob("*.go"))]:
        digest.update(source.read_bytes())
    target = CACHE / f"oracle-{digest.hexdigest()[:12]}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.partial")
        subprocess.run(
            ["go", "build", "-tags", TAGS, "-o", partial, "."],  # noqa: S607  # go of the PATH
            check=True,
            cwd=HERE,
            env=os.environ | {"GOFLAGS": "-mod=readonly"},
        )
        partial.rename(target)
    return target


if __name__ == "__main__":
    print(binary())  # noqa: T201  # the answer of the command
