"""The table of proxies."""

from pathlib import Path

from drawbridge.cluster.proxy import proxy_for
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "proxies.yaml")


@every_row("case", CASES, ids=lambda case: f"{case['url']} {case['env']}")
def test_the_environment_selects_the_proxy(case: YamlValue) -> None:
    assert proxy_for(case["url"], case["env"]) == case["via"]
