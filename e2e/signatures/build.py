"""Builds pinned cosign and oras, and small programs of ours around their libraries, once per pin.

    python -m e2e.signatures.build    # cosign and oras, for the workflow of a release

`verifier` is cosign's own library behind a few of its options, `registry` is one in memory.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.controlplane.build import cache_name, compile_program

HERE: Final = Path(__file__).parent
CACHE: Final = HERE.parent.parent / ".cache" / "signatures"
PACKAGES: Final = {
    "cosign": "github.com/sigstore/cosign/v3/cmd/cosign",
    "oras": "oras.land/oras/cmd/oras",
    "registry": "./registry",
    "verifier": "./verifier",
}
_OURS: Final = ("registry/main.go", "verifier/main.go")


def binaries(names: Sequence[str]) -> Path:
    """Return the folder with programs, building what is missing; NoGoError without Go."""
    target = CACHE / cache_name("programs", HERE, *(HERE / path for path in _OURS))
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (target / name).exists():
            sys.stderr.write(f"building {name}\n")
            compile_program(HERE, PACKAGES[name], target / name)
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{binaries(('cosign', 'oras'))}\n")
