"""How far the expression engine agrees with Kubernetes: `python -m tools.agreement [VERSION...]`.

Runs the golden cases, which Kubernetes itself answered, and prints the agreement by category and
what differs. The test suite runs the same comparison and allows only the differences that the file
of expected ones lists with their reasons.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cel.dra.questions import convert_question
from cel.dra.selectors import SelectorResult, Selectors

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
UNSAID = "unsaid"

Case = dict[str, Any]


class Difference(NamedTuple):
    """One field of one case in which the answers differ."""

    version: str
    case: Case
    field: str
    expected: object
    found: object

    @property
    def name(self) -> str:
        """What names the difference in the file of expected ones."""
        return f"{self.version} {self.case['id']} {self.case['list_attributes']} {self.field}"


def cases(version: str) -> Iterator[Case]:
    """Give each question once per setting of the list gate, with the answers of this version."""
    golden = json.loads((GOLDEN / "cel_device.json").read_text())
    changes: dict[tuple[str, str], Case] = {}
    path = GOLDEN / f"cel_device_{version}.json"
    if path.exists():
        for change in json.loads(path.read_text())["changes"]:
            for gate in _gates(change["list_attributes"]):
                changes[change["id"], gate] = change
    for case in golden["cases"]:
        for gate in _gates(case["list_attributes"]):
            if gate == "on" and version in ("1.34", "1.35"):
                continue
            change = changes.get((case["id"], gate), {})
            shown = golden["devices"][case["device"]]
            yield {**_amended(case, change), "list_attributes": gate, "shown": shown}


def _amended(case: Case, change: Case) -> Case:
    """A case as another version answers it; what its file does not say of an error is unknown."""
    if not change:
        return case
    amended = {**case, **change}
    if "new_compile" not in change and "new_compile_error" in change:
        amended["new_compile"] = "error"
    if "compile" in change or "result" in change:
        works = amended["result"] not in (None, "error")
        amended["error_kind"] = None if works else change.get("error_kind", UNSAID)
        amended["error_position"] = change.get("error_position")
    return amended


def _gates(gate: str) -> tuple[str, ...]:
    return ("on", "off") if gate == "both" else (gate,)


def expected(case: Case, field: str) -> object:
    """What the golden file says of a field, filled up where it leaves it out."""
    if field == "new_compile":
        return case.get(field, case["compile"])
    if field == "error_position":
        return tuple(case[field]) if case.get(field) else None
    return case.get(field)


def differences(version: str, case: Case, answer: SelectorResult) -> Iterator[Difference]:
    """Compare one answer with what Kubernetes said."""
    for field in FIELDS:
        wanted, found = expected(case, field), getattr(answer, field)
        if field == "cost" and case.get("cost_varies"):
            continue
        if field == "error_kind" and (wanted in ("internal", UNSAID) or case.get("error_varies")):
            continue
        if field == "error_position" and (wanted is None or case["compile"] == "ok"):
            continue
        if field == "estimated_max_cost" and _boundless(wanted) and _boundless(found):
            continue
        if wanted != found:
            yield Difference(version, case, field, wanted, found)


def _boundless(cost: object) -> bool:
    return isinstance(cost, int) and cost > UNKNOWN_COST


def compare(version: str) -> Iterator[tuple[Case, list[Difference]]]:
    """Ask every question of one version."""
    selectors = {gate: Selectors(version, list_attributes=gate == "on") for gate in ("on", "off")}
    for case in cases(version):
        asked = convert_question({"device": case["shown"], "expression": case["expression"]})
        answer = selectors[case["list_attributes"]].answer(
            asked.expression, asked.driver, asked.device
        )
        yield case, list(differences(version, case, answer))


def report(version: str) -> int:
    """Print the agreement of one version by category; the number of differences."""
    asked: Counter[str] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    found: list[Difference] = []
    for case, apart in compare(version):
        asked[case["category"]] += 1
        for each in apart:
            wrong[case["category"], each.field] += 1
        found += apart
    print(f"Kubernetes {version}: cases and, by field, answers that differ")
    print(f"{'category':12}{'cases':>7}" + "".join(f"{field[:11]:>12}" for field in FIELDS))
    for category in sorted(asked):
        counts = "".join(f"{wrong[category, field]:12}" for field in FIELDS)
        print(f"{category:12}{asked[category]:7}{counts}")
    for each in found:
        print(
            f"{each.name}: {each.expected!r}, not {each.found!r}: {each.case['expression'][:120]}"
        )
    print(f"{len(found)} differences in {sum(asked.values())} answers")
    return len(found)


def main(versions: list[str]) -> int:
    """Report the versions named, or all."""
    return 1 if sum(report(version) for version in versions or VERSIONS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
