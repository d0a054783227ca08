"""Prints the objects of a drawn cluster as YAML: `python -m e2e.clusters 7 --nodes 20`."""

import argparse
import sys

import yaml

from e2e.clusters import SURPRISES, draw


def main() -> None:
    """Print the cluster of a seed; its surprises go to standard error."""
    parser = argparse.ArgumentParser(prog="python -m e2e.clusters")
    parser.add_argument("seed", type=int)
    parser.add_argument("--nodes", type=int, default=12)
    options = parser.parse_args()
    cluster = draw(options.seed, options.nodes)
    for number in cluster.surprises:
        sys.stderr.write(f"{number}: {SURPRISES[number].text}\n")
    yaml.dump_all(cluster.seen(), sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False)


if __name__ == "__main__":
    main()
