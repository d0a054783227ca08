"""The table of proxies."""

from pathlib import Path

import pytest

from drawbridge.cluster.proxy import proxy_for
from tests.tables import YamlValue, load_cases

CASES = load_cases(Path(__file__).parent / "proxies.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['url']} {case['env']}")
def test_the_environment_selects_the_proxy(case: YamlValue) -> None:
    assert proxy_for(case["url"], case["env"]) == case["via"]
