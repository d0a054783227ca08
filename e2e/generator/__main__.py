"""Prints generated scenarios as JSON lines: `python -m e2e.generator 0:10`.

With `--objects` it prints one scenario as a List of Kubernetes objects. Gates and the claims to
allocate are printed to standard error as options of `drawbridge simulate`.
"""

import json
import sys
from typing import Any

from e2e.generator import scenario

PARTS = ("nodes", "slices", "classes", "rules", "claims", "allocated")


def objects(plain: dict[str, Any]) -> dict[str, Any]:
    """The objects of a scenario in one List."""
    items = [item for part in PARTS for item in plain.get(part, ())]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def options(plain: dict[str, Any]) -> str:
    """What simulate has to be told beside the objects."""
    claims = ",".join(
        f"{claim['metadata'].get('namespace', 'default')}/{claim['metadata']['name']}"
        for claim in plain["claims"]
    )
    gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in plain["gates"].items())
    told = f"--claims {claims} --kubernetes-version {plain['version']}"
    return f"{told} --feature-gates {gates}" if gates else told


def main() -> None:
    """Print the scenarios of a range of seeds, the end left out."""
    first, _, end = sys.argv[1].partition(":")
    if "--objects" in sys.argv[2:]:
        plain = scenario(int(first))
        print(json.dumps(objects(plain), indent=1))  # noqa: T201  # what it is for
        print(options(plain), file=sys.stderr)  # noqa: T201  # what it is for
        return
    for seed in range(int(first), int(end or int(first) + 1)):
        print(json.dumps(scenario(seed), separators=(",", ":")))  # noqa: T201  # what it is for


if __name__ == "__main__":
    main()
