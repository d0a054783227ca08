"""Checks the types of the plugin for each pinned Kubernetes, without compiling that.

    python -m e2e.bridge.check_types [1.37|1.36|1.35|1.34]...

A change of upstream's framework shows here first. It downloads the modules of all versions.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.bridge.build import CACHE, MODULE, PINS
from e2e.controlplane.build import GO_FLAGS, cache_name, compile_program

HERE = Path(__file__).parent / "typecheck"


def main(versions: Sequence[str]) -> int:
    """Print the errors of each version; the exit code is 1 if there are any."""
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / cache_name("typecheck", HERE, HERE / "main.go")
    compile_program(HERE, ".", program)
    worst = 0
    for version in versions or PINS:
        pin, tags = PINS[version]
        chosen = [] if pin == "go.mod" else [f"-modfile={pin}"]
        sys.stdout.write(f"Kubernetes {version}: ")
        sys.stdout.flush()
        done = subprocess.run(
            [program, MODULE, *chosen, f"-tags={tags}"],
            cwd=MODULE,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": GO_FLAGS},
            check=False,
        )
        worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
