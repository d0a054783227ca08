"""Shows one program a root of its own, and becomes that program.

    python sandbox.py TOP '{"SOURCE": "TARGET", ...}' PROGRAM [WORD ...]

The root has everything that the machine's root has, and each SOURCE at its TARGET, as the container
of a driver has. What the program mounts below the kubelet's folder, the kubelet sees. Run as a file
of its own, in a mount namespace of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PRIVATE = ("proc", "sys")


def mount(*words: object) -> None:
    """Run mount."""
    subprocess.run(["mount", *map(str, words)], check=True)  # noqa: S607  # mount of the PATH


def main(top: Path, bound: dict[str, str], program: list[str]) -> None:
    """Build the root, and run the program in it."""
    # The new root is nobody else's; what lies below it still is what it was.
    mount("--make-private", "/")
    mount("-t", "tmpfs", "tmpfs", top)
    mount("--make-private", top)
    for entry in sorted(Path("/").iterdir()):
        shown = top / entry.name
        if entry.is_symlink():
            shown.symlink_to(entry.readlink())
        elif entry.is_dir():
            shown.mkdir()
            if entry != top:
                mount("--rbind", entry, shown)
    for name in PRIVATE:
        mount("--make-rprivate", top / name)
    for source, target in bound.items():
        inside = top / target.removeprefix("/")
        if not inside.exists():
            inside.mkdir()
        mount("--bind", source, inside)
    os.chroot(top)
    os.chdir("/")
    os.execvp(program[0], program)  # noqa: S606  # the command line is the rig's own


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])
