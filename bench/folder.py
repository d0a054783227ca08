"""Measures commands on 2,000 Deployments, one in each file, and on a cluster of 500 nodes.

Both are made from examples/: Deployments with the pods of the legacy manifests, and copies of the
sample nodes with their ResourceSlices. The output shows the CPU time of one run with the start of
Python, the printed lines, and the goal for the time. With the environment variable BASELINE, the
path of another checkout, it also shows the ratio to the same command there.
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
from bench.startup import ROOT

DEPLOYMENTS, NODES, NAMESPACES = scaled(2_000, 40), scaled(500, 20), 40
MANIFESTS, CLUSTER, TRANSLATED = "manifests", "cluster.yaml", "translated.yaml"
FINDINGS: Final = 1  # the exit code of a command that has errors to show
REPORT: Final = ("translate", "-f", MANIFESTS, "-o", "report")
COMMANDS: Final = {
    "report": (REPORT, 8.0),
    "report with the cluster": ((*REPORT, "--cluster", CLUSTER), 8.0),
    "simulate": (("simulate", "-f", TRANSLATED, "--cluster", CLUSTER), 20.0),
}


class Spent(NamedTuple):
    """The CPU seconds of a command, and the number of lines that it printed."""

    seconds: float
    lines: int


def run_command(words: tuple[str, ...], tree: Path, folder: Path) -> Spent | None:
    """Run a command in the folder; None if it fails, because the tree may not have it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-m", "cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, FINDINGS):
        return None
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(seconds, done.stdout.count(b"\n"))


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
    found = value if value["kind"] == "Pod" else value["spec"].get("template")
    return found and {"metadata": found.get("metadata", {}), "spec": found["spec"]}


def write_yaml(objects: Iterable[Any]) -> str:
    """Return objects as a stream of documents."""
    text: str = yaml.dump_all(objects, Dumper=yaml.CSafeDumper, sort_keys=False)
    return text


def write_input(folder: Path) -> None:
    """Write the manifests, the cluster and the translated manifests."""
    (folder / CLUSTER).write_text(write_yaml(make_cluster()), "utf-8")
    (folder / MANIFESTS).mkdir()
    for deployment in make_deployments():
        path = folder / MANIFESTS / f"{deployment['metadata']['name']}.yaml"
        path.write_text(write_yaml([deployment]), "utf-8")
    words = ("translate", "-f", MANIFESTS, "--cluster", CLUSTER, "-q")
    with (folder / TRANSLATED).open("wb") as translated:
        subprocess.run(  # noqa: S603  # our own interpreter
            [sys.executable, "-m", "cli.main", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=translated,
            check=True,
        )


def run() -> None:
    """Print a row for each command."""
    baseline = os.environ.get("BASELINE")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_input(folder)
        for name, (words, goal) in COMMANDS.items():
            spent = run_command(words, ROOT, folder)
            if spent is None:
                raise SystemExit(f"drawbridge {' '.join(words)} fails")
            row = f"{name:<24} {spent.seconds:6.2f} s  goal {goal:.0f} s  {spent.lines:6,} lines"
            before = run_command(words, Path(baseline), folder) if baseline else None
            ratio = ""
            if before:
                ratio = f"  {spent.seconds / before.seconds:5.2f} x the baseline"
                ratio += f" with its {before.lines:,} lines"
            print(f"{row}{ratio}")


if __name__ == "__main__":
    run()
