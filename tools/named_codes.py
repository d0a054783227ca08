"""Compares the codes of findings that pages, tables of cases and remedies name with those defined.

Each defined code has code that uses it, and each rule of `check` is asked, and named by a test. A
CamelCase word of a page in backticks or brackets is a code, except those of others in `FOREIGN`.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from drawbridge.finding import EXPLAINED

ROOT: Final = Path(__file__).parent.parent
CODES: Final = frozenset(EXPLAINED)
# Names of Kubernetes and vendors that look like codes, a reason of the solver, and one that a page
# misspells on purpose.
FOREIGN: Final = frozenset(
    {
        "ApplyForAll", "BestEffort", "CompactFirst", "CompositePodGroup", "DevicesInUse",
        "DisruptionTarget",
        "DoesNotExist", "DynamicResources", "EswitchMode", "FailedCreate",
        "FailedPrepareDynamicResources",
        "FailedResourceClaimCreation", "FailedScheduling", "FromClaim", "GenericWorkload",
        "GpuConfig", "IfNeeded", "LeastAllocated", "LowLoadFirst", "MigDeviceConfig",
        "MostAllocated", "NoExecute", "NoSchedule", "NodePrepareResources",
        "NodeUnprepareResources", "NotIn", "NvidiaGpuPlugin", "PodGroupPreemptionPolicy",
        "PodScheduled", "SchedulerKpt", "TimeSlicing", "TopologyAwareWorkloadScheduling",
        "ValidatingAdmissionPolicy", "VfConfig", "WorkloadWithJob",
    }
)  # fmt: skip
# This page names classes of ours as well.
_NOT_FOR_USERS: Final = "architecture.md"
# A table about configurations that name a code wrongly.
MISSPELT: Final = {"tests/config/cases/load.yaml": {"PoolIncomplet"}}
_WORDS: Final = r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+"
_IN_TEXT: Final = re.compile(rf"`({_WORDS})`|\[({_WORDS})\](?!\()")
_WORD: Final = re.compile(_WORDS)
_DEFINED: Final = re.compile(r'^(\w+) = CODES\.define\(\s*"(\w+)"', re.MULTILINE)
_QUESTION: Final = re.compile(r"^def (check_\w+)\(", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")
_PROGRAMS: Final = ("drawbridge", "allocator", "webhook", "controller", "cli", "certs")
_KEYS: Final = ("findings", "finding", "codes")


def main() -> int:
    """Print each name without a code; 1 if there is any."""
    mistakes = [
        *unknown_on_pages(),
        *unknown_in_tables(),
        *unknown_in_remedies(),
        *without_use(ROOT),
    ]
    for line in mistakes:
        print(line)
    return 1 if mistakes else 0


def unknown_on_pages() -> Iterator[str]:
    """Yield the names on pages that are no codes."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if page.name == _NOT_FOR_USERS:
            continue
        for code in sorted(codes_in(page.read_text("utf-8")) - CODES):
            yield f"{page.relative_to(ROOT)}: no finding has the code {code}"


def codes_in(text: str) -> set[str]:
    """Return CamelCase names of several words in backticks or brackets."""
    names = {first or second for first, second in _IN_TEXT.findall(text)} - FOREIGN
    # tests/manifests/test_observability.py compares the alerts, which have this prefix.
    return {name for name in names if not name.startswith("Drawbridge")}


def unknown_in_tables() -> Iterator[str]:
    """Yield the names in tables of cases that are no codes."""
    for folder in ("tests", "e2e", "tools", "examples"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text("utf-8")
            if any(f"{key}:" in text for key in _KEYS) and "{{" not in text:
                for code in sorted(_named(text) - CODES - MISSPELT.get(name, set())):
                    yield f"{name}: no finding has the code {code}"


def _named(text: str) -> set[str]:
    documents = yaml.load_all(text, yaml.CSafeLoader)
    return {code for document in documents for code in codes_of(document)}


def codes_of(value: Any) -> Iterator[str]:  # noqa: ANN401  # any part of a table
    """Yield the names that a table lists under the keys for codes."""
    if isinstance(value, list):
        for element in value:
            yield from codes_of(element)
    elif isinstance(value, dict):
        for key, inner in value.items():
            listed = [inner] if isinstance(inner, str) else inner
            if key in _KEYS and isinstance(listed, list | dict):
                yield from (name for name in listed if _WORD.fullmatch(f"{name}"))
            yield from codes_of(inner)


def unknown_in_remedies() -> Iterator[str]:
    """Yield the names in the texts and remedies of codes that are no codes."""
    for code in EXPLAINED.values():
        for name in sorted(codes_in(f"{code.text} {code.remedy}") - CODES):
            yield f"code {code.name}: its text or remedy names {name}, which no finding has"


def without_use(root: Path) -> Iterator[str]:
    """Yield codes and questions that no code uses, and codes of the judge that no test names."""
    programs = _texts(root, _PROGRAMS)
    used = Counter(_NAME.findall("\n".join(programs.values())))
    tested = set(_NAME.findall("\n".join(_texts(root, ("tests",)).values())))
    for file, text in programs.items():
        for question in _QUESTION.findall(text) if "judge" in file.parts else ():
            if used[question] < 2:
                yield f"{file}: nothing asks {question}; add it to the questions of the judge"
        for constant, code in _DEFINED.findall(text):
            if used[constant] < 2:
                yield f"{file}: nothing reports the finding {code}"
            if "judge" in file.parts and tested.isdisjoint((constant, code)):
                yield f"{file}: no test names {code}; add a case of it to tests/judge/cases"


def _texts(root: Path, folders: Iterable[str]) -> dict[Path, str]:
    """Read the programs and tables of folders."""
    files = sorted(path for each in folders for path in (root / each).rglob("*"))
    return {
        path.relative_to(root): path.read_text("utf-8")
        for path in files
        if path.suffix in {".py", ".yaml"}
    }


if __name__ == "__main__":
    sys.exit(main())
