"""Options that several commands share, each with one meaning in all of them.

Covers the manifests, the cluster, its facts, the configuration, the version of Kubernetes and the
allocator. `cli.terminal.output` has the options about the output.
"""

import argparse

from drawbridge.dra import gates

CURRENT = ""  # the value of a bare `--context`


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


def add_files_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--cluster`, also as `--inventory`."""
    parser.add_argument(
        "--cluster",
        "--inventory",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help="files and folders with the objects of the cluster (- for standard input)",
    )


def add_live_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that select a live cluster."""
    parser.add_argument(
        "--context",
        metavar="NAME",
        nargs="?",
        const=CURRENT,
        help="use the live cluster of this kubeconfig context (without NAME: the current context)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig file (default: $KUBECONFIG or ~/.kube/config)",
    )


def add_namespace_option(parser: argparse.ArgumentParser) -> None:
    """Declare `-n`."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NS",
        help="the namespace (default: that of the kubeconfig context)",
    )


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--config`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration file, or a ConfigMap with it (- for standard input)",
    )


def add_facts_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--facts`."""
    parser.add_argument(
        "--facts",
        metavar="FILE",
        help="facts about the cluster, as `drawbridge config facts` prints them; its tables replace"
        " counted ones",
    )


def add_version_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--kubernetes-version` and `--feature-gates`."""
    parser.add_argument(
        "--kubernetes-version",
        metavar="VERSION",
        help="version of Kubernetes (default: that of the live cluster, or of the newest kubelet in"
        f" the files of the cluster, else {gates.NEWEST})",
    )
    parser.add_argument(
        "--feature-gates",
        metavar="GATE=true,...",
        default="",
        help="feature gates that differ from their defaults",
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


def add_stages_option(parser: argparse.ArgumentParser) -> None:
    """Declare `--stages`."""
    text = "of each pod that waits, show the filters of nodes and devices, and what each left"
    parser.add_argument("--stages", action="store_true", help=text)
