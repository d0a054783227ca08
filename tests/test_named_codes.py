"""`make check` names codes of findings that pages, tables and remedies name and nobody defines."""

from tests.tables import YamlValue, every_row
from tools.named_codes import codes_in, codes_of, main


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
