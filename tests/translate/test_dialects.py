"""Tests every dialect by tables of cases: a pod, and the asks that are read from it.

A case has `containers` (and `sidecars`, `init` and `late_sidecars`, which start in this order):
name to limits; or a complete `pod`; and optionally `annotations`, `labels`, `spec`, `legacy` and
`targets`. It expects `asks` in one line each, `findings` (codes) and optionally `kept`: source
fields that stay in the pod, `removed`: removed ones, `instead`: values of replaced ones, and
`says`: parts of messages.
"""

from pathlib import Path

import msgspec
import pytest

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import read_text
from drawbridge.documents.paths import format_path, get_value
from drawbridge.finding import Severity
from drawbridge.translate.decisions.rows import ROWS
from drawbridge.translate.legacy.asks import (
    Ask,
    Bytes,
    DeviceShare,
    Distinctness,
    Percent,
    PodRequests,
    SourceField,
)
from drawbridge.translate.legacy.codes import CODES
from drawbridge.translate.legacy.dialects import Dialect
from drawbridge.translate.legacy.misspelt_names import NAMES
from drawbridge.translate.legacy.read import DEFAULTS, DIALECTS, UNITS, as_created, read_pod
from tests.tables import YamlValue, every_row, load_cases

TABLES = sorted(Path(__file__).parent.glob("cases/dialects/*.yaml"))
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in load_cases(table)
]


def build_pod(case: YamlValue) -> YamlValue:
    if "pod" in case:
        return case["pod"]
    spec = dict(case.get("spec", {}))
    for part, key in (
        ("containers", "containers"),
        ("sidecars", "initContainers"),
        ("init", "initContainers"),
        ("late_sidecars", "initContainers"),
    ):
        if part in case:
            always = {"restartPolicy": "Always"} if part.endswith("sidecars") else {}
            spec[key] = [
                *spec.get(key, []),
                *({"name": n, "resources": {"limits": r}} | always for n, r in case[part].items()),
            ]
    metadata = {key: case[key] for key in ("annotations", "labels") if key in case}
    return {"metadata": metadata, "spec": spec}


def describe_amount(of: Bytes | Percent | None) -> str:
    match of:
        case None:
            return "-"
        case Percent():
            return f"{of.value}%"
        case _:
            return f"{of.value >> 20}Mi" if of.value % (1 << 20) == 0 else str(of.value)


def describe_share(of: DeviceShare) -> str:
    if of.replica:
        return "a replica"
    if of.per_mille is not None:
        return f"{of.per_mille} of 1000"
    if of.amounts:
        return " ".join(f"{amount} {name}" for name, amount in of.amounts)
    memory, cores = describe_amount(of.memory), describe_amount(of.cores)
    return f"memory {memory} cores {cores} isolation {of.isolation}"


def describe_selector(of: YamlValue) -> str:
    fields = {k: v for k, v in msgspec.to_builtins(of).items() if k != "is" and v not in (None, "")}
    if type(of).__name__ == "Not":
        return f"not {describe_selector(of.operand)}"
    if type(of).__name__ in {"AnyOf", "AllOf"}:
        return f"{type(of).__name__}({' | '.join(map(describe_selector, of.operands))})"
    parts = (
        f"{key}={'/'.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for key, value in fields.items()
    )
    return f"{type(of).__name__}({' '.join(parts)})"


def describe_ask(ask: Ask) -> str:
    """Format an ask as one line."""
    number = "all" if ask.count is None else str(ask.count)
    parts = [f"{ask.row}: {number} {' '.join(filter(None, (ask.vendor, ask.named or ask.kind)))}"]
    parts += [word for word in ("admin", "partition", "passthrough") if getattr(ask, word)]
    parts += [describe_share(ask.share)] if ask.share else []
    parts += [f"if {describe_selector(one)}" for one in ask.selectors]
    parts += [f"first {describe_selector(one)}" for one in ask.alternatives]
    parts += [f"distinct {ask.distinct}"] if ask.distinct is not Distinctness.DEVICE else []
    for name, of in (("colocation", ask.colocation), ("joint", ask.joint)):
        if of:
            parts.append(f"{name} {of.scope}{'' if of.required else ' if possible'}")
    parts += [
        f"{type(one).__name__}({', '.join(str(v) for v in msgspec.structs.astuple(one) if v)})"
        for one in ask.settings
    ]
    parts.append("for " + ", ".join(user.name for user in ask.users))
    return "; ".join(parts)


def read_case(case: YamlValue) -> PodRequests:
    return read_pod(build_pod(case), load_configuration(case))


def load_configuration(case: YamlValue) -> Configuration:
    parts = {key: case[key] for key in ("legacy", "targets") if key in case}
    return msgspec.convert(parts, Configuration, dec_hook=read_text)


@every_row("case", CASES)
def test_asks_findings_and_source_fields_match_the_table(case: YamlValue) -> None:
    requests = read_case(case)
    assert [describe_ask(ask) for ask in requests.asks] == case.get("asks", [])
    assert sorted(f.code for f in requests.findings) == sorted(case.get("findings", []))
    if "kept" in case:
        kept = [
            str(t.name) for t in requests.source_fields if not t.removed and t.replacement is None
        ]
        assert kept == case["kept"]
    if "removed" in case:
        assert [t.name for t in requests.source_fields if removed(t)] == case["removed"]
    if "instead" in case:
        assert [t.replacement for t in requests.source_fields if t.replacement is not None] == case[
            "instead"
        ]
    for part in case.get("says", []):
        assert any(part in f"{f.path}: {f.message} {f.remedy}" for f in requests.findings), part


@every_row("case", CASES)
def test_source_fields_exist_in_the_pod_and_codes_are_registered(case: YamlValue) -> None:
    pod, requests = build_pod(case), read_case(case)
    names = {ask.name for ask in requests.asks}
    assert len(names) == len(requests.asks)
    for field in requests.source_fields:
        assert get_value(pod, (*field.path, field.name)) == field.value, format_path(field.path)
        assert set(field.asks) <= names
    for finding in requests.findings:
        assert finding.code in CODES
        assert finding.message
        assert finding.remedy
        assert finding.path


@every_row("case", CASES)
def test_the_remaining_pod_has_no_asks(case: YamlValue) -> None:
    """A pod without the source fields of its asks has no asks."""
    pod, requests = build_pod(case), read_case(case)
    if any(finding.severity is Severity.ERROR for finding in requests.findings):
        return
    taken = {(field.path, field.name) for field in requests.source_fields if removed(field)}
    for ask in requests.asks:
        assert any(ask.name in field.asks for field in requests.source_fields), ask
    remaining = without(pod, taken)
    if requests.asks:  # as a translated pod has
        remaining["spec"]["resourceClaims"] = [{"name": "drawbridge"}]
    again = read_pod(remaining, load_configuration(case))
    assert not again.asks


def removed(field: SourceField) -> bool:
    return field.removed and field.replacement is None


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


def test_case_names_are_unique() -> None:
    names = [case.id for case in CASES]
    assert len(names) == len(set(names))


def test_every_code_has_a_case() -> None:
    covered = {finding.code for case in CASES for finding in read_case(case.values[0]).findings}
    names = list(CODES)
    own = set(names[: names.index("NetworkUnknown") + 1])
    assert own <= covered


def test_every_ask_has_a_row_in_the_decision_table() -> None:
    rows = {ask.row for case in CASES for ask in read_case(case.values[0]).asks}
    assert {
        row for row in rows if row not in ROWS and not row.startswith(("vendors/", "named/"))
    } == set()
    assert set(ROWS) <= rows


REFUSALS = load_cases(Path(__file__).parent / "cases" / "refusals.yaml")


@every_row("case", REFUSALS, ids=lambda case: case["quote"])
def test_requests_that_a_project_rejects_have_a_finding(case: YamlValue) -> None:
    findings = read_case(case).findings
    assert set(case["findings"]) <= {each.code for each in findings}
    warned = {"ReplicasAreOne", "VendorWithoutDriver"}
    refused = any(each.severity is Severity.ERROR for each in findings)
    assert refused != bool(warned & set(case["findings"]))


@every_row("case", CASES)
def test_untriggered_dialects_do_not_change_the_result(
    case: YamlValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = read_case(case)
    with monkeypatch.context() as every:
        every.setattr("drawbridge.translate.legacy.read._triggered", lambda *_: DIALECTS)
        assert read_case(case) == requests


@every_row("dialect", DIALECTS, ids=lambda dialect: dialect.NAME)
def test_what_a_scheduler_wrote_is_no_part_of_the_pod_that_was_created(dialect: Dialect) -> None:
    created: YamlValue = {"metadata": {"annotations": {"mine": "1"}}, "spec": {"containers": []}}
    written = dict.fromkeys(dialect.ALLOCATED, "x")
    allocated: YamlValue = {
        "metadata": {"annotations": {"mine": "1", **written}},
        "spec": {"containers": [], "nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    assert as_created(allocated) == created


# Resources beside which a dialect reads a unit, or takes an amount by default.
BESIDE = [{}, *({name: 1} for name in ("metax-tech.com/sgpu", "volcano.sh/vgpu-number"))]
BESIDE += [{"nvidia.com/gpu": 1}, {"nvidia.com/gpumem": 1}]


@pytest.mark.parametrize(("field", "names"), [("units", UNITS), ("defaults", DEFAULTS)])
def test_only_these_names_have_a_unit_or_a_default(field: str, names: frozenset[str]) -> None:
    def is_read(name: str, beside: dict[str, int]) -> bool:
        limits = {name: 1, **beside} if field == "units" else beside
        first, second = (
            read_pod(
                build_pod({"containers": {"main": limits}}),
                load_configuration({"legacy": {field: {name: amount}}}),
            )
            for amount in (3, 5)
        )
        return first != second

    listed = (f"{domain}/{name}" for domain, names in NAMES.items() for name in names)
    assert {name for name in listed if any(is_read(name, each) for each in BESIDE)} == names
