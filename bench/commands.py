"""Measures the CPU time of commands, from the start of Python to its exit.

Short commands run several times; the rows show the best round and its ratio to an empty Python
program, which differs less between machines. Long commands run once, on 2,000 Deployments, one in
each file, and on a cluster of 500 nodes; the rows show the printed lines, and the goal for the
time. Both inputs are made from examples/. With the environment variable BASELINE, the path of
another checkout, each row has the ratio to the same command there. Modules are compiled first.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bench._scale import scaled

ROOT: Final = Path(__file__).parent.parent
BASELINE: Final = os.environ.get("BASELINE")
ROUNDS: Final = scaled(7, 1)
EXAMPLE: Final = str(ROOT / "examples" / "legacy" / "nvidia.yaml")
SHORT: Final = (
    ("--help",),
    ("--version",),
    ("translate", "--help"),
    ("translate", "-f", EXAMPLE),
    ("undo", "-f", EXAMPLE),
    ("check", "-f", EXAMPLE),
)
DEPLOYMENTS, NODES, NAMESPACES = scaled(2_000, 40), scaled(500, 20), 40
MANIFESTS, CLUSTER, TRANSLATED = "manifests", "cluster.yaml", "translated.yaml"
FINDINGS: Final = 1  # the exit code of a command that has errors to show
REPORT: Final = ("translate", "-f", MANIFESTS, "-o", "report")
# With the goal in seconds.
LONG: Final = {
    REPORT: 8.0,
    (*REPORT, "--cluster", CLUSTER): 8.0,
    ("simulate", "-f", TRANSLATED, "--cluster", CLUSTER): 20.0,
    ("check", "-f", CLUSTER): 5.0,
}


class Spent(NamedTuple):
    """The CPU seconds of a command, and what it printed."""

    seconds: float
    printed: bytes


class Runner:
    """Runs commands in a folder, with the code of a tree."""

    def __init__(self, tree: Path, folder: Path, cache: str) -> None:
        clean = {key: each for key, each in os.environ.items() if not key.startswith("PYTHON")}
        self._environment = clean | {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": cache}
        self._folder = folder

    def run(self, *words: str) -> Spent | None:
        """Run a command; None if it fails, because the tree may not have it."""
        return self.python("-m", "cli.main", *words)

    def python(self, *words: str) -> Spent | None:
        """Run Python."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, *words],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, FINDINGS):
            return None
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Spent(spent, done.stdout)

    def best(self, *words: str) -> float | None:
        """Return the CPU seconds of the best round, after one that compiles the modules."""
        rounds = [self.python(*words) for _ in range(ROUNDS + 1)][1:]
        return min((each.seconds for each in rounds if each), default=None)


def read_examples(name: str) -> list[Any]:
    """Return the objects in a folder of examples."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "examples" / name).glob("*.yaml"))]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def make_cluster() -> Iterator[Any]:
    """Yield the classes, and copies of the sample nodes with their slices."""
    objects = read_examples("inventory")
    yield from (each for each in objects if each["kind"] == "DeviceClass")
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    for number in range(NODES):
        name = names[number % len(names)]
        for obj in objects:
            if name in (obj["metadata"]["name"], obj.get("spec", {}).get("nodeName", "")):
                yield rename(obj, name, f"{name}-{number:04}")


def rename(value: Any, old: str, new: str) -> Any:  # noqa: ANN401  # any part of an object
    """Return a value with another name of the node in each text."""
    if isinstance(value, dict):
        return {key: rename(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [rename(each, old, new) for each in value]
    return value.replace(old, new) if isinstance(value, str) else value


def make_deployments() -> Iterator[Any]:
    """Yield Deployments with the pods of the legacy manifests."""
    examples = [each for each in read_examples("legacy") if pod_template(each)]
    for number in range(DEPLOYMENTS):
        template = pod_template(examples[number % len(examples)])
        labels = {"app": f"app-{number}"}
        metadata = {"annotations": template["metadata"].get("annotations", {}), "labels": labels}
        spec = {key: each for key, each in template["spec"].items() if key != "restartPolicy"}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"app-{number}", "namespace": f"team-{number % NAMESPACES}"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": metadata, "spec": spec},
            },
        }


def pod_template(value: Any) -> Any:  # noqa: ANN401  # a pod or a workload
    """Return the pod template of an example; None if it has several."""
    pod = value if value["kind"] == "Pod" else value["spec"].get("template")
    return pod and {"metadata": pod.get("metadata", {}), "spec": pod["spec"]}


def write_yaml(objects: Iterable[Any]) -> str:
    """Return objects as a stream of documents."""
    text: str = yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False)
    return text


def write_input(folder: Path, runner: Runner) -> None:
    """Write the manifests, the cluster and the translated manifests."""
    (folder / CLUSTER).write_text(write_yaml(make_cluster()), "utf-8")
    (folder / MANIFESTS).mkdir()
    for deployment in make_deployments():
        path = folder / MANIFESTS / f"{deployment['metadata']['name']}.yaml"
        path.write_text(write_yaml([deployment]), "utf-8")
    translated = runner.run("translate", "-f", MANIFESTS, "--cluster", CLUSTER, "-q")
    if translated is None:
        raise SystemExit("the Deployments are not translated")
    (folder / TRANSLATED).write_bytes(translated.printed)


def show(words: tuple[str, ...], seconds: float | None, row: str, before: float | None) -> None:
    """Print a row."""
    if seconds is None:
        raise SystemExit(f"drawbridge {' '.join(words)} fails")
    ratio = f"  {seconds / before:5.2f} x the baseline" if before else "  new" * bool(BASELINE)
    name = " ".join(word.replace(EXAMPLE, "one file") for word in words)
    print(f"{name:<52} {seconds * 1000:6.0f} ms  {row}{ratio}")


def run() -> None:
    """Print a row for each command."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as cache:
        ours = Runner(ROOT, Path(made), f"{cache}/ours")
        theirs = Runner(Path(BASELINE), Path(made), f"{cache}/theirs") if BASELINE else None
        empty = ours.best("-c", "pass") or 1.0
        for words in SHORT:
            command = ("-m", "cli.main", *words)
            seconds, before = ours.best(*command), theirs.best(*command) if theirs else None
            show(words, seconds, f"{(seconds or 0) / empty:5.1f} x an empty program", before)
        write_input(Path(made), ours)
        for options, goal in LONG.items():
            spent = ours.run(*options)
            other = theirs.run(*options) if theirs else None
            lines = spent.printed.count(b"\n") if spent else 0
            row = f"goal {goal:.0f} s  {lines:6,} lines"
            before = other.seconds if other else None
            show(options, spent.seconds if spent else None, row, before)
