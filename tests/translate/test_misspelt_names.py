"""Known resource names: each is read, none is similar to another one, and mistakes find them."""

from drawbridge.translate.legacy.misspelt_names import NAMES, find_resource_name
from drawbridge.translate.legacy.read import read_pod
from tests.tables import YamlValue, every_row

KNOWN_NAMES = [f"{domain}/{name}" for domain, names in NAMES.items() for name in names]


@every_row("name", KNOWN_NAMES)
def test_a_known_name_is_read_and_not_misspelt(name: str) -> None:
    container: YamlValue = {"name": "main", "resources": {"limits": {name: "1"}}}
    requests = read_pod({"spec": {"containers": [container]}})
    codes = {finding.code for finding in requests.findings}
    assert codes.isdisjoint({"DeviceUnknown", "NameMisspelt"})
    assert find_resource_name(name) == ""


@every_row("name", KNOWN_NAMES)
def test_a_known_name_with_another_separator_is_found(name: str) -> None:
    domain, _, bare = name.partition("/")
    assert find_resource_name(f"{domain}/{bare.replace('-', '_').replace('.', '_')}_") == name
