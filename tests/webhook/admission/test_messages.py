"""What a person reads of an answer."""

from collections.abc import Iterator
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from documents.paths import Path
from documents.values import Value
from dra.finding import Finding, Severity
from webhook.admission.messages import LONGEST, MOST, line, reason, safe, translated, warnings
from webhook.admission.removed_requests import Asked, Holder


def finding(severity: Severity, message: str = "m", path: str = "spec") -> Finding:
    return Finding(code="Code", severity=severity, path=path, message=message, remedy="Do.")


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def test_errors_come_first_then_the_translation_then_what_is_lost_then_the_rest() -> None:
    found = [finding(each, each) for each in (INFO, WARNING, ERROR)]
    assert warnings(["translated: a -> b"], found, "all of it: x") == [
        "Code: spec: error (Do.)",
        "translated: a -> b",
        "Code: spec: warning (Do.)",
        "Code: spec: info",
    ]


def test_what_is_said_twice_is_said_once() -> None:
    assert len(warnings([], [finding(WARNING)] * 3, "x")) == 1


def test_a_finding_about_nothing_in_particular_has_no_path() -> None:
    assert line(finding(INFO, path="")) == "Code: m"


@given(st.lists(st.text(max_size=400), max_size=40), st.text(max_size=300))
def test_warnings_are_lines_that_a_header_can_carry(texts: list[str], rest: str) -> None:
    told = warnings(texts, [finding(WARNING, each) for each in texts], rest)
    assert all(len(each) <= LONGEST and each.isprintable() for each in told)
    assert sum(map(len, told)) <= MOST
    for each in told:
        each.encode()


def test_where_not_all_fits_the_last_line_names_the_command() -> None:
    found = [finding(WARNING, f"{i} {'w' * 300}") for i in range(40)]
    told = warnings(["translated: a -> b"], found, "all of it: kubectl drawbridge explain p")
    assert told[0] == "translated: a -> b"
    assert told[-1] == "all of it: kubectl drawbridge explain p"
    assert len(told) < 20


def test_where_a_line_is_cut_the_last_one_names_the_command() -> None:
    told = warnings([f"translated: {'a' * LONGEST}"], [finding(INFO)], "all of it: x")
    assert [each[:13] for each in told] == ["translated: a", "Code: spec: m", "all of it: x"]


def test_what_a_header_cannot_carry_becomes_a_space() -> None:
    assert safe("a\nb\x00c\x7fd\u200be\ud800f", 99) == "a b c d e f"
    assert safe("\u00fcber 32\u00a0GiB \u4e2d", 99) == "\u00fcber 32 GiB \u4e2d"
    assert safe("x" * 300, 256) == "x" * 253 + "..."


def test_a_reason_has_the_errors_with_their_remedies_only() -> None:
    found = [finding(WARNING, "w"), finding(ERROR, "a"), finding(ERROR, "b")]
    assert reason(found) == "Code: spec: a (Do.); Code: spec: b (Do.)"


class Once(tuple[Holder, ...]):
    """Containers, and how often somebody went over them."""

    __slots__ = ()
    walks: ClassVar[int] = 0

    def __iter__(self) -> Iterator[Holder]:
        type(self).walks += 1
        return super().__iter__()


def test_of_thousands_of_claims_each_container_is_looked_at_once() -> None:
    paths: list[Path] = [("spec", "containers", number) for number in range(2000)]
    holders = Once(Holder(path, f"c{path[2]}", False, {}, {}) for path in paths)  # noqa: FBT003  # the field
    after: Value = {
        "spec": {
            "containers": [{"resources": {"claims": [{"name": f"d{n}"}]}} for n in range(2000)],
            "resourceClaims": [
                {"name": f"d{n}", "resourceClaimTemplateName": "t"} for n in range(2000)
            ],
        }
    }
    lines = translated({}, after, {"t": "1 device"}, Asked(holders=holders))
    assert lines[1999] == "container c1999 -> 1 device (claim d1999)"
    assert (len(lines), Once.walks) == (2000, 1)
