"""Compares the CEL engine with Kubernetes: `python -m tools.agreement [VERSION...]`.

Runs the golden cases, whose results come from Kubernetes, and prints the number of cases and
differences by category. The tests run the same comparison and allow only the differences that
tests/cel/cases/differences.json lists with a reason.
"""

import json
import sys
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.cel.dra.questions import read_question
from drawbridge.cel.dra.selectors import SelectorResult, Selectors

GOLDEN = Path(__file__).parent.parent / "tests" / "cel" / "golden"
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
FIELDS = (
    "compile",
    "admitted",
    "new_compile",
    "result",
    "error_kind",
    "error_position",
    "cost",
    "estimated_max_cost",
)
UNKNOWN_COST = 10**18
UNSPECIFIED = "unspecified"

Case = dict[str, Any]


class Difference(NamedTuple):
    """One field of one case whose values differ."""

    version: str
    case: Case
    field: str
    expected: object
    actual: object

    @property
    def name(self) -> str:
        """Return the name of the difference in the file of expected differences."""
        return f"{self.version} {self.case['id']} {self.case['list_attributes']} {self.field}"


def varying() -> set[str]:
    """Return the names of the cases whose results differ between versions."""
    return {name for version in VERSIONS for name, _ in _changes(version)}


def cases(
    version: str, names: Container[str] | None = None, both: Container[str] | None = None
) -> Iterator[Case]:
    """Yield the named cases, or all, with their results.

    Cases in `both`, or all, come once per setting of the list gate. The results of any other case
    are equal with both settings, and it comes with one.
    """
    golden, changes = json.loads((GOLDEN / "cel_device.json").read_text()), _changes(version)
    for case in golden["cases"]:
        if names is not None and case["id"] not in names:
            continue
        gates = _gates(case["list_attributes"])
        for gate in gates if both is None or case["id"] in both else gates[:1]:
            if gate == "on" and version in ("1.34", "1.35"):
                continue
            change = changes.get((case["id"], gate), {})
            shown = golden["devices"][case["device"]]
            yield {**_apply_change(case, change), "list_attributes": gate, "shown": shown}


def _changes(version: str) -> dict[tuple[str, str], Case]:
    """Return the results that a version changes, by case and list gate."""
    path = GOLDEN / f"cel_device_{version}.json"
    if not path.exists():
        return {}
    return {
        (change["id"], gate): change
        for change in json.loads(path.read_text())["changes"]
        for gate in _gates(change["list_attributes"])
    }


def _apply_change(case: Case, change: Case) -> Case:
    """Return a case with the results of another version; unlisted error fields are unspecified."""
    if not change:
        return case
    amended = {**case, **change}
    if "new_compile" not in change and "new_compile_error" in change:
        amended["new_compile"] = "error"
    if "compile" in change or "result" in change:
        works = amended["result"] not in (None, "error")
        amended["error_kind"] = None if works else change.get("error_kind", UNSPECIFIED)
        amended["error_position"] = change.get("error_position")
    return amended


def _gates(gate: str) -> tuple[str, ...]:
    return ("on", "off") if gate == "both" else (gate,)


def expected(case: Case, field: str) -> object:
    """Return the value of a field in the golden file, or its default."""
    if field == "new_compile":
        return case.get(field, case["compile"])
    if field == "error_position":
        return tuple(case[field]) if case.get(field) else None
    return case.get(field)


def differences(version: str, case: Case, result: SelectorResult) -> Iterator[Difference]:
    """Compare one result with that of Kubernetes."""
    for field in FIELDS:
        expected_value, actual = expected(case, field), getattr(result, field)
        if field == "cost" and case.get("cost_varies"):
            continue
        if field == "error_kind" and (
            expected_value in ("internal", UNSPECIFIED) or case.get("error_varies")
        ):
            continue
        if field == "error_position" and (expected_value is None or case["compile"] == "ok"):
            continue
        if (
            field == "estimated_max_cost"
            and _is_unbounded(expected_value)
            and _is_unbounded(actual)
        ):
            continue
        if expected_value != actual:
            yield Difference(version, case, field, expected_value, actual)


def _is_unbounded(cost: object) -> bool:
    return isinstance(cost, int) and cost > UNKNOWN_COST


def compare(
    version: str, names: Container[str] | None = None, both: Container[str] | None = None
) -> Iterator[tuple[Case, list[Difference]]]:
    """Evaluate the cases of one version that `cases` chooses."""
    selectors = {gate: Selectors(version, list_attributes=gate == "on") for gate in ("on", "off")}
    for case in cases(version, names, both):
        asked = {"device": case["shown"], "expression": case["expression"]}
        question = read_question(json.dumps(asked).encode())
        result = selectors[case["list_attributes"]].evaluate(
            question.expression, question.driver, question.device
        )
        yield case, list(differences(version, case, result))


def report(version: str) -> int:
    """Print the differences of one version by category; return their number."""
    total: Counter[str] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    differences: list[Difference] = []
    for case, differing in compare(version):
        total[case["category"]] += 1
        for row in differing:
            wrong[case["category"], row.field] += 1
        differences += differing
    print(f"Kubernetes {version}: cases, and differences by field")
    print(f"{'category':12}{'cases':>7}" + "".join(f"{field[:11]:>12}" for field in FIELDS))
    for category in sorted(total):
        counts = "".join(f"{wrong[category, field]:12}" for field in FIELDS)
        print(f"{category:12}{total[category]:7}{counts}")
    for row in differences:
        print(f"{row.name}: {row.expected!r}, not {row.actual!r}: {row.case['expression'][:120]}")
    print(f"{len(differences)} differences in {sum(total.values())} results")
    return len(differences)


def main(versions: list[str]) -> int:
    """Report the given versions, or all."""
    return 1 if sum(report(version) for version in versions or VERSIONS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
