"""The output format of findings and values."""

import io
import json
from pathlib import Path

import pytest

from cli.main import dispatch
from cli.terminal import output
from cli.terminal.streams import Streams, make_safe, write_data
from drawbridge.documents.document import LocatedFinding
from drawbridge.finding import Finding, Severity
from tests.cli.running import command
from tests.tables import read_yaml


def finding(
    severity: Severity = Severity.WARNING, about: str = "Pod/a/b", path: str = "spec"
) -> Finding:
    return Finding(
        code="Odd",
        severity=severity,
        object=about,
        path=path,
        message="it is odd",
        remedy="Mend it.",
    )


def shown(*located: LocatedFinding, color: bool = False) -> str:
    out = io.StringIO()
    output.print_findings(located, out, color=color)
    return out.getvalue()


def test_a_finding_begins_with_file_and_line_and_ends_with_the_remedy() -> None:
    assert shown(LocatedFinding(finding(), "a.yaml", 7, 3)) == (
        "a.yaml:7: warning: Pod/a/b spec: it is odd [Odd]\n    Mend it.\n"
    )


@pytest.mark.parametrize(
    ("located", "line"),
    [
        (
            LocatedFinding(finding(), "a.yaml", 0, 0),
            "a.yaml: warning: Pod/a/b spec: it is odd [Odd]",
        ),
        (LocatedFinding(finding()), "warning: Pod/a/b spec: it is odd [Odd]"),
        (LocatedFinding(finding(path=""), "a", 1, 1), "a:1: warning: Pod/a/b: it is odd [Odd]"),
        (LocatedFinding(finding(about="", path=""), "a", 1, 1), "a:1: warning: it is odd [Odd]"),
        # The object of a finding about a file that cannot be read is the file.
        (LocatedFinding(finding(about="a", path=""), "a", 0, 0), "a: warning: it is odd [Odd]"),
    ],
)
def test_missing_parts_of_a_finding_are_left_out(located: LocatedFinding, line: str) -> None:
    assert shown(located).splitlines()[0] == line


@pytest.mark.parametrize("severity", list(Severity))
def test_only_the_severity_is_colored(severity: Severity) -> None:
    located = LocatedFinding(finding(severity), "a", 1, 1)
    coloured = shown(located, color=True)
    assert coloured.count("\033[") == 2
    assert f"m{severity}\033[0m" in coloured
    assert "\033" not in shown(located)


def test_json_and_yaml_output_are_equal() -> None:
    plain = output.findings_as_data([LocatedFinding(finding(), "a", 1, 1)])
    out = io.StringIO(), io.StringIO()
    output.print_value(plain, "json", out[0])
    output.print_value(plain, "yaml", out[1])
    assert json.loads(out[0].getvalue()) == read_yaml(out[1].getvalue()) == plain
    assert plain["findings"] == [
        {
            "code": "Odd",
            "severity": "warning",
            "path": "spec",
            "object": "Pod/a/b",
            "message": "it is odd",
            "remedy": "Mend it.",
            "file": "a",
            "line": 1,
            "column": 1,
        }
    ]


def test_non_ascii_text_is_not_escaped() -> None:
    for form in ("json", "yaml"):
        out = io.StringIO()
        output.print_value({"a": "Zürich"}, form, out)
        assert "Zürich" in out.getvalue()


PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: ü, namespace: zürich, labels: {a: "\u2028"}}
spec:
  containers: [{name: m, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Node
metadata: {name: nö}
"""
DATA = [
    *(("translate", "-f", "-", "-o", form) for form in ("yaml", "json", "diff")),
    *(("audit", "--cluster", "-", "-o", form) for form in ("json", "yaml", "csv", "html")),
    *(("explain", "zürich/ü", "--cluster", "-", "-o", form) for form in ("json", "yaml")),
    *(("simulate", "-f", "-", "-o", form) for form in ("json", "yaml")),
]


@pytest.mark.parametrize("words", DATA, ids=" ".join)
def test_data_is_utf_8_whatever_the_locale_is(words: tuple[str, ...]) -> None:
    plain = command(*words, stdin=PODS).out
    assert not plain.isascii()
    for encoding in ("ascii", "latin-1", "utf-16"):
        written = io.BytesIO()
        beneath = io.TextIOWrapper(written, encoding, errors="backslashreplace", write_through=True)
        streams = Streams(io.BytesIO(PODS.encode()), make_safe(beneath), io.StringIO())
        dispatch(words, streams, "drawbridge")
        assert written.getvalue().decode() == plain


def test_half_of_a_surrogate_pair_is_an_escape_of_json() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8")
    write_data(stream, '"\ud800"')
    assert written.getvalue() == b'"\\ud800"'


def test_a_difference_has_the_bytes_and_the_lines_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(PODS.encode() + b"---\nnote: \xff\n# \x0b\x0c\xc2\x85\n")
    out = io.BytesIO()
    streams = Streams(io.BytesIO(), io.TextIOWrapper(out, "ascii"), io.StringIO())
    dispatch(("translate", "-f", str(tmp_path), "-o", "diff", "-v"), streams, "drawbridge")
    assert b"metadata: {name: \xc3\xbc" in out.getvalue()
    # Each line has the mark of a difference.
    assert {line[:1] for line in out.getvalue().split(b"\n")} <= {b"-", b"+", b"@", b" ", b""}


def test_control_characters_from_the_input_are_escaped() -> None:
    text = shown(LocatedFinding(finding(path="\033[2J\n"), "a\033\n", 1, 1))
    assert "\033" not in text
    assert len(text.splitlines()) == 2
