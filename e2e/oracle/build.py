"""Builds the oracle with Go, once for each version, source and pin.

    python -m e2e.oracle.build [1.34|1.35|1.36|1.37]
    python -m e2e.oracle.build karpenter [1.14|1.15]

The newest version supports all commands, the older ones only CEL. Karpenter's allocator is a
program of its own, which needs other versions of modules; 1.15 needs Go 1.26.9. The binary is in
`.cache/`, named by the hash of its inputs: sources, pins, tags, Go version.
"""

import hashlib
import sys
from pathlib import Path

from e2e.controlplane.build import NoGoError, cache_name, compile_program, go_version

__all__ = ["NoGoError", "binary", "karpenter"]

HERE = Path(__file__).parent
KARPENTER = HERE / "karpenter"
KARPENTER_PINS = {"1.14": "go.mod", "1.15": "1.15.mod"}
CACHE = HERE.parent.parent / ".cache" / "oracle"
NEWEST = "1.37"
# The pin of each version, and what its packages have: list attributes, the allocator as we ask it.
PINS = {
    "1.34": ("1.34.mod", ""),
    "1.35": ("1.35.mod", ""),
    "1.36": ("1.36.mod", "listattributes"),
    NEWEST: ("go.mod", "listattributes,allocator"),
}


def binary(version: str = NEWEST) -> Path:
    """Return the oracle of a version, building it if need be; NoGoError where there is no Go."""
    pin, tags = PINS[version]
    digest = hashlib.sha256((go_version() + tags).encode())
    sums = (HERE / pin).with_suffix(".sum")
    for source in [HERE / pin, sums, *sorted(HERE.glob("*.go"))]:
        digest.update(source.read_bytes())
    target = CACHE / f"oracle-{version}-{digest.hexdigest()[:12]}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        compile_program(HERE, ".", target, tags=tags, pin=pin)
    return target


def karpenter(version: str = "1.14") -> Path:
    """Return the program that asks Karpenter's allocator, building it if need be."""
    pin = KARPENTER_PINS[version]
    sources = [KARPENTER / name for name in (pin, "main.go")]
    target = CACHE / cache_name(f"karpenter-{version}", KARPENTER, *sources)
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        compile_program(KARPENTER, ".", target, pin=pin)
    return target


if __name__ == "__main__":
    words = sys.argv[1:]
    built = karpenter(*words[1:2]) if words[:1] == ["karpenter"] else binary(*words[:1])
    print(built)  # noqa: T201  # the answer of the command
