"""Measures the CPU time of commands, from the start of Python to its exit.

Part `short` runs short commands several times, and shows the best round and its ratio to an empty
Python program, which differs less between machines. Part `long` runs commands once, on 2,000
Deployments, one in each file, and on a cluster of 500 nodes, both made from examples/, and `audit`
on another one of 500 nodes with 5,000 pods, and on one of 100 that is nearly full, where it prints
JSON. It shows the printed lines, and the goal for the time. Part `slices` runs `check` of 10,000
slices of 8 devices, in a List in JSON, in turns with a Python program that reads the same file by
the json module; it shows medians, and the least and greatest ratio of a round to that of the
program.

With the environment variable BASELINE, the path of another checkout, each command runs there as
well. Modules are compiled first.
"""

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bench import _audited_cluster, _crowded_cluster
from bench._process import ROOT, TREES, Spent, run_python
from bench._scale import scaled
from bench._slices import SLICES, document

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
AUDITED, CROWDED, FILE = "audited", "crowded", "slices.json"
# Prints the same as the command that it is compared with.
LOOKED: Final = f"looked at {SLICES:,} ResourceSlices: no findings"
READS: Final = f"""
import json
read = json.loads(open({FILE!r}, 'rb').read())
print(f"looked at {{len(read['items']):,}} ResourceSlices: no findings")
"""
FINDINGS: Final = 1  # the exit code of a command that has errors to show
REPORT: Final = ("translate", "-f", MANIFESTS, "-o", "report")


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
        spent = run_python([*words], self._folder, self._environment)
        return spent if spent.exit_code in (0, FINDINGS) else None

    def best(self, *words: str) -> float | None:
        """Return the CPU seconds of the best round, after one that compiles the modules."""
        rounds = [self.python(*words) for _ in range(ROUNDS + 1)][1:]
        return min((each.seconds for each in rounds if each), default=None)


@contextlib.contextmanager
def _runners() -> Iterator[tuple[Path, dict[str, Runner]]]:
    """Make a folder, and run commands of each tree in it."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as cache:
        folder = Path(made)
        yield (
            folder,
            {each: Runner(tree, folder, f"{cache}/{each}") for each, tree in TREES.items()},
        )


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


class Goal(NamedTuple):
    """The CPU seconds of a command, and what fails unless its output is that of the whole work."""

    seconds: float
    check: Callable[[bytes], None]


def _has(wanted: str) -> Callable[[bytes], None]:
    """Return a check that the output has a text."""

    def check(printed: bytes) -> None:
        if wanted.encode() not in printed:
            raise SystemExit(f"not in the output: {wanted}: {printed[-300:]!r}")

    return check


def _check_slices(printed: bytes) -> None:
    slices = sum(each["kind"] == "ResourceSlice" for each in make_cluster())
    _has(f"looked at {slices:,} ResourceSlices, ")(printed)


LONG: Final[Mapping[tuple[str, ...], Goal]] = {
    REPORT: Goal(8.0, _has(f"\n{DEPLOYMENTS:,} workloads: ")),
    (*REPORT, "--cluster", CLUSTER): Goal(8.0, _has(f"\n{DEPLOYMENTS:,} workloads: ")),
    ("simulate", "-f", TRANSLATED, "--cluster", CLUSTER): Goal(
        20.0, _has(f" of {DEPLOYMENTS:,} pods are placed.")
    ),
    ("check", "-f", CLUSTER): Goal(5.0, _check_slices),
    ("audit", "--cluster", AUDITED, "-o", "json"): Goal(20.0, _audited_cluster.check),
    ("audit", "--cluster", CROWDED, "-o", "json"): Goal(20.0, _crowded_cluster.check),
}


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
    (folder / AUDITED).mkdir()
    _audited_cluster.write_cluster(folder / AUDITED)
    (folder / CROWDED).mkdir()
    _crowded_cluster.write_cluster(folder / CROWDED)


def _show(words: tuple[str, ...], seconds: Mapping[str, float | None], row: str) -> None:
    """Print a row."""
    ours = seconds["ours"]
    if ours is None:
        raise SystemExit(f"drawbridge {' '.join(words)} fails")
    ratio = ""
    if "baseline" in seconds:
        before = seconds["baseline"]
        ratio = f"  {ours / before:5.2f} x the baseline" if before else "  new"
    name = " ".join(word.replace(EXAMPLE, "one file") for word in words)
    print(f"{name:<52} {ours * 1000:6.0f} ms  {row}{ratio}", flush=True)


def run_short() -> None:
    """Print a row for each short command."""
    with _runners() as (_, runners):
        empty = runners["ours"].best("-c", "pass") or 1.0
        for words in SHORT:
            command = ("-m", "cli.main", *words)
            seconds = {name: each.best(*command) for name, each in runners.items()}
            _show(words, seconds, f"{(seconds['ours'] or 0) / empty:5.1f} x an empty program")


def run_long() -> None:
    """Print a row for each long command."""
    with _runners() as (folder, runners):
        for runner in runners.values():
            for command in {words[0] for words in LONG}:
                runner.run(command, "--help")  # compiles its modules
        write_input(folder, runners["ours"])
        for words, goal in LONG.items():
            spent = {name: each.run(*words) for name, each in runners.items()}
            if ours := spent["ours"]:
                goal.check(ours.printed)
            lines, size = (ours.printed.count(b"\n"), ours.mebibytes) if ours else (0, 0)
            row = f"goal {goal.seconds:.0f} s  {lines:6,} lines  {size:4} MiB"
            _show(words, {name: each and each.seconds for name, each in spent.items()}, row)


def run_slices() -> None:
    """Print a row for the program that only reads, and for the command of each tree."""
    with _runners() as (folder, runners):
        (folder / FILE).write_bytes(document(SLICES))
        programs: dict[str, Callable[[], Spent | None]] = {
            "json.loads": partial(runners["ours"].python, "-c", READS)
        }
        for name, runner in runners.items():
            programs[name] = partial(runner.run, "check", "-f", FILE)
        rounds = {name: list[Spent]() for name in programs}
        for _ in range(1 + ROUNDS):  # the first one compiles the modules
            for name, program in programs.items():
                spent = program()
                if spent is None or LOOKED.encode() not in spent.printed:
                    raise SystemExit(f"{name} of the slices: {spent}")
                rounds[name].append(spent)
    print(f"{SLICES:,} slices, {ROUNDS} rounds in turns")
    reading = [each.seconds for each in rounds["json.loads"][1:]]
    for name, all_rounds in rounds.items():
        taken = [each.seconds for each in all_rounds[1:]]
        ratios = [one / other for one, other in zip(taken, reading, strict=True)]
        size = max(each.mebibytes for each in all_rounds)
        print(
            f"{name:12} {statistics.median(taken):6.2f} s of CPU, {size:4} MiB,"
            f" {min(ratios):.1f} to {max(ratios):.1f} of json.loads"
        )


PARTS: Final[Mapping[str, Callable[[], None]]] = {
    "short": run_short,
    "long": run_long,
    "slices": run_slices,
}
