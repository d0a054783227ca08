"""The texts of the replies."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agreement.admission_codes import QUOTA_EXCEEDED
from drawbridge.agreement.codes import TABLES
from drawbridge.documents.paths import Path
from drawbridge.documents.values import Value
from drawbridge.finding import Finding, Severity, Trait
from drawbridge.process.review import compose_review
from tests.tables import every_row
from webhook.admission.removed_requests import (
    ContainerRequests,
    RemovedRequests,
    describe_translation,
)
from webhook.admission.responses import (
    MAX_TOTAL,
    MAX_WARNING,
    Decided,
    PartialResponse,
    ResponseOptions,
    format_finding,
    format_reason,
    respond,
    sanitize,
    select_warnings,
    tell_later,
)


def finding(severity: Severity, message: str = "m", path: str = "spec") -> Finding:
    return Finding(code="Code", severity=severity, path=path, message=message, remedy="Do.")


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
FORBIDDING = [
    code.at("", "m")
    for table in TABLES
    for code in table.values()
    if Trait.DEPENDS_ON_NAMESPACE in code.traits
]


def test_warnings_are_errors_translations_and_warnings_without_information() -> None:
    findings = [finding(each, each) for each in (INFO, WARNING, ERROR)]
    assert select_warnings(["translated: a -> b"], findings, "details: x") == [
        "Code: spec: error (Do.)",
        "translated: a -> b",
        "Code: spec: warning (Do.)",
    ]


def test_equal_warnings_are_merged() -> None:
    assert len(select_warnings([], [finding(WARNING)] * 3, "x")) == 1


def test_a_finding_without_a_path_has_no_prefix() -> None:
    assert format_finding(finding(WARNING, path="")) == "Code: m (Do.)"


@given(st.lists(st.text(max_size=400), max_size=40), st.text(max_size=300))
def test_warnings_are_valid_header_values(texts: list[str], rest: str) -> None:
    shown = select_warnings(texts, [finding(WARNING, each) for each in texts], rest)
    assert all(len(each) <= MAX_WARNING and each.isprintable() for each in shown)
    assert sum(map(len, shown)) <= MAX_TOTAL
    for warning in shown:
        warning.encode()


def test_if_warnings_do_not_fit_the_last_line_is_the_command() -> None:
    findings = [finding(WARNING, f"{i} {'w' * 300}") for i in range(40)]
    shown = select_warnings(
        ["translated: a -> b"], findings, "details: kubectl drawbridge explain p"
    )
    assert shown[0] == "translated: a -> b"
    assert shown[-1] == "details: kubectl drawbridge explain p"
    assert len(shown) < 20


def test_if_a_warning_is_cut_the_last_line_is_the_command() -> None:
    shown = select_warnings([f"translated: {'a' * MAX_WARNING}"], [finding(WARNING)], "details: x")
    assert [each[:13] for each in shown] == ["translated: a", "Code: spec: m", "details: x"]


def test_characters_that_a_header_cannot_contain_become_spaces() -> None:
    assert sanitize("a\nb\x00c\x7fd\u200be\ud800f", 99) == "a b c d e f"
    assert sanitize("\u00fcber 32\u00a0GiB \u4e2d", 99) == "\u00fcber 32 GiB \u4e2d"
    assert sanitize("x" * 300, 256) == "x" * 253 + "..."


def test_a_reason_contains_only_errors_with_their_remedies() -> None:
    findings = [finding(WARNING, "w"), finding(ERROR, "a"), finding(ERROR, "b")]
    assert format_reason(findings) == "Code: spec: a (Do.); Code: spec: b (Do.)"


class CountingTuple(tuple[ContainerRequests, ...]):
    """A tuple of containers that counts its iterations."""

    __slots__ = ()
    iterations: ClassVar[int] = 0

    def __iter__(self) -> Iterator[ContainerRequests]:
        type(self).iterations += 1
        return super().__iter__()


@every_row(
    ("findings", "status"),
    [
        (FORBIDDING, 403),
        ([QUOTA_EXCEEDED.at("", "m"), finding(ERROR)], 422),
        ([finding(ERROR)], 422),
    ],
    ids=str,
)
def test_only_errors_that_depend_on_the_namespace_forbid(
    findings: list[Finding], status: int
) -> None:
    errors = tuple(msgspec.structs.replace(each, severity=ERROR) for each in findings)
    denied = respond(Decided(findings=errors), ResponseOptions("details: x"))
    assert read(denied)["status"]["code"] == status  # type: ignore[call-overload,index]


def read(response: PartialResponse) -> Value:
    """Return the response as the API server reads it."""
    decoded: Value = msgspec.json.decode(compose_review("u", response.tail))["response"]
    return decoded


def test_a_denial_tells_the_warnings_beside_its_reason() -> None:
    findings = (finding(ERROR, "wrong"), finding(WARNING, "odd"), finding(INFO, "so"))
    response = read(
        respond(Decided(findings=findings, patch=[{"op": "add"}]), ResponseOptions("details: x"))
    )
    assert isinstance(response, dict)
    assert response["warnings"] == ["Code: spec: odd (Do.)"]
    assert "patch" not in response


def test_of_a_workload_information_alone_is_counted_and_not_told() -> None:
    told = tell_later(Decided(findings=(finding(INFO),)), "details: x")
    assert (told.outcome, told.codes) == ("allowed", ("Code",))
    assert read(told) == {"uid": "u", "allowed": True}
    told = tell_later(Decided(findings=(finding(INFO), finding(WARNING, "odd"))), "details: x")
    assert read(told)["warnings"] == ["Code: spec: odd (Do.)", "details: x"]  # type: ignore[call-overload,index]


def test_containers_are_read_once_for_thousands_of_claims() -> None:
    paths: list[Path] = [("spec", "containers", number) for number in range(2000)]
    containers = CountingTuple(
        ContainerRequests(path, f"c{path[2]}", init=False, before={}, after={}) for path in paths
    )
    after: Value = {
        "spec": {
            "containers": [{"resources": {"claims": [{"name": f"d{n}"}]}} for n in range(2000)],
            "resourceClaims": [
                {"name": f"d{n}", "resourceClaimTemplateName": "t"} for n in range(2000)
            ],
        }
    }
    lines = describe_translation(
        {}, after, {"t": "1 device"}, RemovedRequests(containers=containers)
    )
    assert lines[1999] == "container c1999 -> 1 device (claim d1999)"
    assert (len(lines), CountingTuple.iterations) == (2000, 1)
