"""Prints generated scenarios as JSON lines: `python -m e2e.generator 0:10`."""

import json
import sys

from e2e.generator import scenario


def main() -> None:
    """Print the scenarios of a range of seeds, the end left out."""
    first, _, end = sys.argv[1].partition(":")
    for seed in range(int(first), int(end or int(first) + 1)):
        print(json.dumps(scenario(seed), separators=(",", ":")))  # noqa: T201  # what it is for


if __name__ == "__main__":
    main()
