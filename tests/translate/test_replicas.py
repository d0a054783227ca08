"""The number of pods of each template comes from the objects around it."""

from pathlib import Path

from drawbridge.translate.manifests.replicas import PodCount, count_pods
from drawbridge.translate.manifests.workloads import find_places
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "replicas.yaml")


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_pods_of_each_template_are_counted(case: YamlValue) -> None:
    counted = [count_pods(case["object"], place) for place in find_places(case["object"])]
    assert counted == [PodCount(**each) for each in case["pods"]]
