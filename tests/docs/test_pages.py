"""Pages name existing settings, and list all rows.

`make check` compares the generated pages with what generates them.
"""

import io
import re

from cli.main import dispatch
from cli.terminal.streams import Streams
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.names import API_VERSION
from drawbridge.translate.decisions.rows import ROWS
from tests.docs.test_commands import PAGES, ROOT
from tests.tables import every_row, read_yaml
from tools import migrating
from tools.docs import generated_files

MISTAKES = read_yaml((ROOT / "tests" / "docs" / "mistakes.yaml").read_text("utf-8"))
INVENTORY = str(ROOT / "examples" / "inventory")


@every_row("mistake", MISTAKES)
def test_every_mistake_is_found_and_has_a_remedy(mistake: dict[str, str]) -> None:
    out = io.StringIO()
    streams = Streams(io.BytesIO(mistake["manifest"].encode()), out, out)
    dispatch(("check", "-f", "-", "--cluster", INVENTORY), streams, "drawbridge")
    first, remedy, *_ = out.getvalue().splitlines()
    assert first.endswith(f"[{mistake['finding']}]")
    assert remedy.startswith("    ")


def test_the_page_about_check_lists_every_mistake_with_its_code() -> None:
    page = (ROOT / "docs" / "check.md").read_text("utf-8")
    table = "".join(f"| {each['mistake']} | `{each['finding']}` |\n" for each in MISTAKES)
    assert f"|---|---|\n{table}\n" in page


def test_generated_files_are_marked_for_reviewers() -> None:
    lines = (ROOT / ".gitattributes").read_text("utf-8").splitlines()
    marked = [line.split()[0] for line in lines if line.endswith(" linguist-generated")]
    for path in generated_files():
        name = path.relative_to(ROOT)
        assert any(name.match(pattern) for pattern in marked), name


# Names of Kubernetes and vendors that look like codes.


def test_the_page_about_dialects_lists_every_row() -> None:
    text = migrating.render_dialects()
    for row in ROWS.values():
        assert f"| `{row.legacy}` | {row.becomes} | " in text


def test_linked_headings_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        headings = {
            re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in text.splitlines()
            if line.startswith("#")
        }
        for target in re.findall(r"\]\(#([^)]+)\)", text):
            assert target in headings, f"{page.name}: #{target}"


def test_settings_on_the_pages_about_the_migration_are_accepted() -> None:
    text = migrating.render_steps() + migrating.render_dialects()
    settings = re.findall(r"`((?:legacy|decisions)\.\w+: [^`]+)`", text)
    assert len(settings) >= 4
    for setting in settings:
        place, _, value = setting.partition(": ")
        package, _, field = place.partition(".")
        wanted = {"apiVersion": API_VERSION, "kind": "Configuration"}
        loaded = accept_configuration({**wanted, package: {field: read_yaml(value)}}, {})
        assert isinstance(loaded, Configuration), (setting, loaded)
