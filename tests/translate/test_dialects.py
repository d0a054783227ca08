"""The tables of cases of every dialect: a pod, and what it asks for in one line each.

A case has `containers` (and `init`, `sidecars`): name to limits; or whole `pod`; `annotations`,
`labels`, `spec` and `legacy` beside. It expects `asks`, `findings` (codes) and, where it matters,
`kept`: traces that stay in the pod, `removed`: those that go, `instead`: values that are replaced,
and `says`: words that the messages contain.
"""

from pathlib import Path

import msgspec
import pytest

from config.model import Legacy
from documents.paths import format_path, get_value
from dra.finding import Severity
from tests.tables import YamlValue, load_cases
from translate.decisions.rows import ROWS
from translate.legacy.asks import (
    Ask,
    Bytes,
    DeviceShare,
    Distinctness,
    Percent,
    PodRequests,
    SourceField,
)
from translate.legacy.codes import CODES
from translate.legacy.read import _ORDER, read_pod

TABLES = sorted(Path(__file__).parent.glob("cases/dialects/*.yaml"))
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in load_cases(table)
]


def pod_of(case: YamlValue) -> YamlValue:
    if "pod" in case:
        return case["pod"]
    spec = dict(case.get("spec", {}))
    for part, key in (("containers", "containers"), ("sidecars", "initContainers")):
        if part in case:
            spec[key] = [
                {"name": name, "resources": {"limits": limits}}
                | ({"restartPolicy": "Always"} if part == "sidecars" else {})
                for name, limits in case[part].items()
            ]
    if "init" in case:
        spec["initContainers"] = [
            *spec.get("initContainers", []),
            *({"name": n, "resources": {"limits": r}} for n, r in case["init"].items()),
        ]
    metadata = {key: case[key] for key in ("annotations", "labels") if key in case}
    return {"metadata": metadata, "spec": spec}


def amount(of: Bytes | Percent | None) -> str:
    match of:
        case None:
            return "-"
        case Percent():
            return f"{of.value}%"
        case _:
            return f"{of.value >> 20}Mi" if of.value % (1 << 20) == 0 else str(of.value)


def share(of: DeviceShare) -> str:
    if of.replica:
        return "a replica"
    if of.per_mille is not None:
        return f"{of.per_mille} of 1000"
    return f"memory {amount(of.memory)} cores {amount(of.cores)} isolation {of.isolation}"


def selector(of: YamlValue) -> str:
    fields = {k: v for k, v in msgspec.to_builtins(of).items() if k != "is" and v not in (None, "")}
    if type(of).__name__ == "Not":
        return f"not {selector(of.operand)}"
    if type(of).__name__ in {"AnyOf", "AllOf"}:
        return f"{type(of).__name__}({' | '.join(map(selector, of.operands))})"
    words = (
        f"{key}={'/'.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for key, value in fields.items()
    )
    return f"{type(of).__name__}({' '.join(words)})"


def say(ask: Ask) -> str:
    """Write an ask as one line."""
    number = "all" if ask.count is None else str(ask.count)
    parts = [f"{ask.row}: {number} {' '.join(filter(None, (ask.vendor, ask.kind)))}"]
    parts += [word for word in ("admin", "partition", "passthrough") if getattr(ask, word)]
    parts += [share(ask.share)] if ask.share else []
    parts += [f"if {selector(one)}" for one in ask.selectors]
    parts += [f"first {selector(one)}" for one in ask.alternatives]
    parts += [f"distinct {ask.distinct}"] if ask.distinct is not Distinctness.DEVICE else []
    for word, of in (("colocation", ask.colocation), ("joint", ask.joint)):
        if of:
            parts.append(f"{word} {of.scope}{'' if of.required else ' if possible'}")
    parts += [
        f"{type(one).__name__}({', '.join(str(v) for v in msgspec.structs.astuple(one) if v)})"
        for one in ask.settings
    ]
    parts.append("for " + ", ".join(user.name for user in ask.users))
    return "; ".join(parts)


def reading(case: YamlValue) -> PodRequests:
    return read_pod(pod_of(case), legacy_of(case))


def legacy_of(case: YamlValue) -> Legacy:
    return msgspec.convert(case.get("legacy", {}), Legacy, dec_hook=_made)


def _made(kind: type, value: object) -> object:
    from dra.quantity import Quantity, from_json  # noqa: PLC0415  # only to read tables

    return from_json(value) if kind is Quantity else kind(value)


@pytest.mark.parametrize("case", CASES)
def test_a_pod_is_read_as_its_dialect_means_it(case: YamlValue) -> None:
    read_ = reading(case)
    assert [say(ask) for ask in read_.asks] == case.get("asks", [])
    assert sorted(f.code for f in read_.findings) == sorted(case.get("findings", []))
    if "kept" in case:
        kept = [str(t.name) for t in read_.source_fields if not t.removed and t.replacement is None]
        assert kept == case["kept"]
    if "removed" in case:
        assert [t.name for t in read_.source_fields if removed(t)] == case["removed"]
    if "instead" in case:
        assert [t.replacement for t in read_.source_fields if t.replacement is not None] == case[
            "instead"
        ]
    for words in case.get("says", []):
        assert any(words in f"{f.path}: {f.message} {f.remedy}" for f in read_.findings), words


@pytest.mark.parametrize("case", CASES)
def test_every_trace_is_in_the_pod_and_every_finding_in_the_table(case: YamlValue) -> None:
    pod, read_ = pod_of(case), reading(case)
    names = {ask.name for ask in read_.asks}
    assert len(names) == len(read_.asks)
    for trace in read_.source_fields:
        assert get_value(pod, (*trace.path, trace.name)) == trace.value, format_path(trace.path)
        assert set(trace.asks) <= names
    for finding in read_.findings:
        assert finding.code in CODES
        assert finding.message
        assert finding.remedy
        assert finding.path


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_an_ask_leaves_the_pod(case: YamlValue) -> None:
    """Reading a second time what is left finds nothing more of the same asks."""
    pod, read_ = pod_of(case), reading(case)
    if any(finding.severity is Severity.ERROR for finding in read_.findings):
        return
    taken = {(trace.path, trace.name) for trace in read_.source_fields if removed(trace)}
    for ask in read_.asks:
        assert any(ask.name in trace.asks for trace in read_.source_fields), ask
    left = without(pod, taken)
    if read_.asks:  # as a translated pod has
        left["spec"]["resourceClaims"] = [{"name": "drawbridge"}]
    again = read_pod(left, legacy_of(case))
    assert not again.asks


def removed(trace: SourceField) -> bool:
    return trace.removed and trace.replacement is None


def without(value: YamlValue, taken: YamlValue, path: YamlValue = ()) -> YamlValue:
    if isinstance(value, dict):
        return {
            k: without(v, taken, (*path, k)) for k, v in value.items() if (path, k) not in taken
        }
    if isinstance(value, list):
        return [
            without(v, taken, (*path, i)) for i, v in enumerate(value) if (path, i) not in taken
        ]
    return value


def test_tables_name_every_case_once() -> None:
    names = [case.id for case in CASES]
    assert len(names) == len(set(names))


def test_every_code_of_reading_is_met_by_a_case() -> None:
    met = {finding.code for case in CASES for finding in reading(case.values[0]).findings}
    names = list(CODES)
    own = set(names[: names.index("NetworkUnknown") + 1])
    assert own <= met


def test_every_ask_has_its_row_in_the_table_of_decisions() -> None:
    rows = {ask.row for case in CASES for ask in reading(case.values[0]).asks}
    assert {row for row in rows if row not in ROWS and not row.startswith("vendors/")} == set()
    assert set(ROWS) <= rows


REFUSALS = load_cases(Path(__file__).parent / "cases" / "refusals.yaml")


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["quote"])
def test_what_the_projects_refuse_is_found(case: YamlValue) -> None:
    found = reading(case).findings
    assert set(case["findings"]) <= {each.code for each in found}
    warned = {"ReplicasAreOne", "VendorWithoutDriver", "AmountUnreadable"}
    refused = any(each.severity is Severity.ERROR for each in found)
    assert refused != bool(warned & set(case["findings"]))


@pytest.mark.parametrize("case", CASES)
def test_no_dialect_is_passed_over_that_would_have_read_something(
    case: YamlValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_ = reading(case)
    monkeypatch.setattr("translate.legacy.read._triggered", lambda *_: _ORDER)
    assert reading(case) == read_
