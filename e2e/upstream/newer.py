"""Rewrites workloads of a newer scheduler_perf for the program of the pinned module.

The newer benchmark gives templates parameters of the workload, which the pinned one does not know.
Here the templates get the values, so that each workload becomes a test case of its own. Sizes,
objects and thresholds stay those of the newer module.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.upstream.build import kubernetes

JSON = dict[str, Any]
# A line such as {{$number := (or .number 1) | Int}}, which gives a parameter its default value.
DEFAULT = re.compile(r"\{\{\$(\w+) := \(?or \.\w+ (\w+)\)?(?: \| \w+)?\}\}\n")
HERE = Path(__file__).parent
PIN = HERE.parent / "controlplane" / "1.37"
NAMES = ("selector_empty_500nodes", "match_empty_500nodes")
SUFFIX = "_of_1_37"


def newer_module() -> Path:
    """Return the folder of the newer module of Kubernetes, which is downloaded if need be."""
    words = ["go", "mod", "download", "k8s.io/kubernetes"]
    subprocess.run(words, check=True, cwd=PIN)
    return kubernetes(PIN)


def newer_cases(source: Path) -> Iterator[JSON]:
    """Yield a test case for each of the workloads that only the newer module has."""
    for case in yaml.safe_load((source / "performance-config.yaml").read_text(encoding="utf-8")):
        for workload in case["workloads"]:
            if workload["name"] in NAMES:
                # The benchmark wants names of test cases to be unique.
                name = f"{case['name']}_{workload['name'].partition('_')[0]}{SUFFIX}"
                yield {**case, "name": name, "workloads": [workload]}


def rewritten(source: Path, target: Path) -> Iterator[JSON]:
    """Yield the same test cases without parameters of templates, which are written to `target`."""
    for case in newer_cases(source):
        (workload,) = case["workloads"]
        folder = target / workload["name"]
        folder.mkdir(parents=True)
        given = workload["params"]
        operations = [_operation(each, given, source, folder) for each in case["workloadTemplate"]]
        # The benchmark refuses parameters that no operation has.
        used = {str(value) for operation in operations for value in operation.values()}
        left = {name: value for name, value in given.items() if f"${name}" in used}
        workloads = [{**workload, "params": left}]
        yield {**case, "workloadTemplate": operations, "workloads": workloads}


def _operation(operation: JSON, given: Mapping[str, Any], source: Path, folder: Path) -> JSON:
    """Return an operation whose templates have the values of the workload."""
    made = {key: value for key, value in operation.items() if key != "templateParams"}
    values = {
        name: _value(text, given) for name, text in operation.get("templateParams", {}).items()
    }
    for key in ("templatePath", "nodeTemplatePath", "podTemplatePath"):
        if key in made:
            path = folder / Path(made[key]).name
            text = (source / made[key]).read_text(encoding="utf-8")
            path.write_text(filled(text, values), encoding="utf-8")
            made[key] = str(path)
    return made


def _value(text: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401  # values of YAML
    """Return what a parameter such as `$numRequests|1` is in a workload."""
    if not isinstance(text, str) or not text.startswith("$"):
        return text
    name, _, default = text[1:].partition("|")
    value = given.get(name)
    return yaml.safe_load(default) if value is None else value


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Return a template with the values of its parameters instead of variables."""
    variables, text = DEFAULT.findall(text), DEFAULT.sub("", text)
    for name, default in variables:
        value = values.get(name)
        if value is None and default != "nil":
            value = int(default)
        literal = json.dumps(value)
        text = text.replace(f"{{{{${name}}}}}", literal)
        text = text.replace(f"(${name} | Int)", literal)
        text = text.replace(f"${name}", literal)
    return text
