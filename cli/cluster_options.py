"""Options that several commands share: files of a cluster, its version and feature gates."""

import argparse
from typing import Final

from dra import gates

_FILES: Final = "files and folders with the objects of the cluster"


def add_files_option(parser: argparse.ArgumentParser, text: str = _FILES) -> None:
    """Declare `--cluster`, also as `--inventory`."""
    parser.add_argument(
        "--cluster",
        "--inventory",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help=text,
    )


def add_version_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--kubernetes-version` and `--feature-gates`."""
    parser.add_argument(
        "--kubernetes-version",
        metavar="VERSION",
        help=f"version of the API server (default: that of the live cluster, else {gates.NEWEST})",
    )
    parser.add_argument(
        "--feature-gates",
        metavar="GATE=true,...",
        default="",
        help="feature gates that differ from their defaults",
    )
