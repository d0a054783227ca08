"""README.md shows a manifest before and after as the command translates it, on one page."""

import re
from typing import Final

from tests.cli.running import command
from tests.docs.test_commands import ROOT, blocks
from tests.tables import YamlValue, read_yaml, read_yaml_documents

TEXT: Final = (ROOT / "README.md").read_text("utf-8")
MOST_LINKS: Final = 31  # half of what it had


def contains(value: YamlValue, part: YamlValue) -> bool:
    """Whether a value has all that a part of it has."""
    if isinstance(part, dict):
        return all(key in value and contains(value[key], part[key]) for key in part)
    if isinstance(part, list):
        return len(part) == len(value) and all(map(contains, value, part))
    return bool(value == part)


def test_the_manifest_after_is_the_translation_of_the_one_before() -> None:
    before, after = (block for block in blocks(TEXT, "README.md") if block.words == ("yaml",))
    assert max(len(before.lines), len(after.lines)) <= 10
    out = command("translate", "-f", "-", stdin="\n".join(before.lines)).out
    done = list(read_yaml_documents(out))
    shown = list(read_yaml_documents("\n".join(after.lines)))
    assert len(done) == len(shown) == 2
    assert all(map(contains, done, shown))
    assert read_yaml("\n".join(before.lines))["kind"] == "Pod"


def test_it_is_one_page_with_few_links() -> None:
    assert len(re.findall(r"\]\([^)]+\)", TEXT)) <= MOST_LINKS
    assert len(TEXT.splitlines()) <= 140
