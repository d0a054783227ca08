"""The result of the browser suite is read from the document that the browser prints."""

import pytest

from e2e.browser.page import read_result


def test_violations_and_loaded_files_are_read() -> None:
    text = (
        '{"violations":[{"id":"image-alt","nodes":["&lt;img&gt;"]}],"loaded":["x.png"],"passes":9}'
    )
    page = read_result(f'<html><body><pre id="axe-result">{text}</pre></body></html>')
    assert [each["id"] for each in page.violations] == ["image-alt"]
    assert page.violations[0]["nodes"] == ["<img>"]
    assert (page.loaded, page.passes) == (("x.png",), 9)


def test_a_page_in_which_the_checks_did_not_run_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="did not run"):
        read_result("<html></html>")
