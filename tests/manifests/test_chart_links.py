"""The chart has the dashboards of the kustomize component as links, so that there is one text."""

from pathlib import Path

from tests.tables import every_row

MANIFESTS = Path(__file__).parents[2] / "manifests"
DASHBOARDS = sorted((MANIFESTS / "components" / "monitoring").glob("dashboard*.json"))


@every_row("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_the_chart_links_to_each_dashboard(dashboard: Path) -> None:
    link = MANIFESTS / "chart" / "drawbridge" / "files" / dashboard.name
    assert link.is_symlink()
    assert link.resolve() == dashboard
