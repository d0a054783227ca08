"""`make check` names codes of findings that pages, tables and remedies name and nobody defines."""

from pathlib import Path

from tests.tables import YamlValue, every_row
from tools.named_codes import codes_in, codes_of, main, without_use


def test_every_code_that_is_named_exists() -> None:
    assert main() == 0


def test_codes_are_found_in_backticks_and_brackets() -> None:
    text = "`NodeUnfit` is none [CodeLost]; `Pod`, [LinkText](x) and `FailedCreate` are no codes"
    assert codes_in(text) == {"NodeUnfit", "CodeLost"}


@every_row(
    ("table", "codes"),
    [
        ([{"name": "a", "findings": ["NodeUnfit", "x"]}], ["NodeUnfit"]),
        ({"mistake": {"finding": "CodeLost"}}, ["CodeLost"]),
        ({"config": {"findings": {"NodeUnfit": "off"}}}, ["NodeUnfit"]),
        ({"codes": [], "name": "NodeUnfit"}, []),
        ({"findings": None}, []),
    ],
)
def test_codes_are_found_in_tables(table: YamlValue, codes: list[str]) -> None:
    assert list(codes_of(table)) == codes


def test_a_rule_that_is_not_reported_asked_or_tested_is_a_mistake(tmp_path: Path) -> None:
    files = {
        "drawbridge/judge/claims/codes.py": (
            'NEVER_SAID = CODES.define("NeverSaid")\nUNTRIED = CODES.define("Untried")\n'
        ),
        "drawbridge/judge/claims/rule.py": "def check_names():\n    yield UNTRIED.at(path)\n",
        "tests/judge/cases/claims.yaml": "codes: [NeverSaid]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert [line.partition(": ")[2] for line in without_use(tmp_path)] == [
        "nothing reports the finding NeverSaid",
        "no test names Untried; add a case of it to tests/judge/cases",
        "nothing asks check_names; add it to the questions of the judge",
    ]
