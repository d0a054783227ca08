"""Options that several commands share, each with one meaning in all of them.

Covers the manifests, the cluster, its facts, the configuration, the version of Kubernetes and the
allocator. `cli.terminal.output` has the options about the output.
"""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from drawbridge.dra import gates

CURRENT = ""  # the value of a bare `--context`
LIVE: Final = ("--context", "--kubeconfig")
VERSION: Final = ("--kubernetes-version", "--feature-gates")
# What argparse is told of each option, by its names.
_OPTIONS: Final[Mapping[tuple[str, ...], Mapping[str, Any]]] = {
    ("--cluster", "--inventory"): {
        "metavar": "PATH",
        "nargs": "+",
        "action": "extend",
        "default": [],
        "help": "files and folders with the objects of the cluster (- for standard input)",
    },
    ("--context",): {
        "metavar": "NAME",
        "nargs": "?",
        "const": CURRENT,
        "help": "use the live cluster of this kubeconfig context"
        " (without NAME: the current context)",
    },
    ("--kubeconfig",): {
        "metavar": "FILE",
        "help": "kubeconfig file (default: $KUBECONFIG or ~/.kube/config)",
    },
    ("-n", "--namespace"): {
        "metavar": "NS",
        "help": "the namespace (default: that of the kubeconfig context)",
    },
    ("--config",): {
        "metavar": "FILE",
        "help": "the configuration file, or a ConfigMap with it (- for standard input)",
    },
    ("--facts",): {
        "metavar": "FILE",
        "help": "facts about the cluster, as `drawbridge config facts` prints them; its tables"
        " replace counted ones",
    },
    ("--kubernetes-version",): {
        "metavar": "VERSION",
        "help": "version of Kubernetes (default: that of the live cluster, or of the newest kubelet"
        f" in the files of the cluster, else {gates.NEWEST})",
    },
    ("--feature-gates",): {
        "metavar": "GATE=true,...",
        "default": "",
        "help": "feature gates that differ from their defaults",
    },
    ("--stages",): {
        "action": "store_true",
        "help": "of each pod that waits, show the filters of nodes and devices, and what each left",
    },
}


def add_shared_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare the options with these names."""
    for name in names:
        flags = next(each for each in _OPTIONS if name in each)
        parser.add_argument(*flags, **_OPTIONS[flags])


def add_manifests_option(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Declare `-f`."""
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        action="append",
        default=None if required else [],
        required=required,
        help="file or folder with the objects that the command is about (- for standard input);"
        " can be repeated",
    )


def add_allocator_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--allocator`."""
    from drawbridge.solver.deviations import Allocator  # noqa: PLC0415  # not every command needs it

    parser.add_argument(
        "--allocator",
        choices=[*Allocator],
        help="upstream: the allocator of kube-scheduler; drawbridge: the allocator of Drawbridge"
        " (default: by `placement` of the configuration, native or bridge)",
    )
