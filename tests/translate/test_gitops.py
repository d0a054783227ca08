"""Values and patches in objects of Flux, Argo CD and K3s are named, with the devices in them."""

from pathlib import Path

from drawbridge.translate.context import TranslationContext
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "gitops.yaml")


@every_row("case", CASES, ids=lambda case: case["title"])
def test_what_is_rendered_later_is_named_with_its_devices(case: YamlValue) -> None:
    result = translate_object(case["object"], "Object/x", TranslationContext())
    findings = {each.path: each for each in result.findings}
    assert findings.keys() == case["found"].keys()
    for path, names in case["found"].items():
        assert names in findings[path].message
        assert bool(names) == ("/" in findings[path].message)
    assert not result.edits
