"""Commands about a live cluster write only the fields of claims that its API server stores."""

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agreement.published_facts import build_data_key
from drawbridge.dra.gates import gates_of_version
from drawbridge.facts import serialized
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import GATE_OF_FIELD
from tests.cli.installed_api import config_map
from tests.cli.running import Printed, on_api
from tests.cli.test_effective_configuration import registered
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row

LEGACY = Path(__file__).parents[2] / "examples" / "legacy"
CAPACITY = "exactly.capacity"
SHARED = ("exactly.capacity", "constraints.distinctAttribute")
CONFIGURATION = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
ASSUMED = "FeaturesAssumed"


def published(*dropped: str) -> dict[str, Any]:
    """The facts of an API server of 1.36 that drops these fields."""
    gates = gates_of_version("1.36")
    assert not isinstance(gates, tuple)
    stored = (e for e, gate in GATE_OF_FIELD.items() if getattr(gates, gate) and e not in dropped)
    facts = gather_facts(FactsInput(), None, gates, stored).facts
    digest = serialized.facts_hash(facts)
    content = serialized.encode_facts(facts).decode()
    return config_map("drawbridge-facts", {"current": digest, build_data_key(digest): content})


def run(folder: Path, *words: str, objects: tuple[Any, ...] = (), forbidden: str = "") -> Printed:
    def prepare(api: FakeApi) -> None:
        for part in forbidden.split():
            api.fail(403, times=9, part=part)

    def check(api: FakeApi) -> None:
        assert {each.method for each in api.requests} == {"GET"}

    objects = (*OBJECTS, config_map("drawbridge-config", {"config.yaml": CONFIGURATION}), *objects)
    return on_api(folder, objects, *words, prepare=prepare, check=check)


def keeps(folder: Path, *words: str, objects: tuple[Any, ...]) -> list[str]:
    printed = run(folder, "config", "facts", "--context", "-o", "json", *words, objects=objects)
    assert printed.code == 0
    kept: list[str] = json.loads(printed.out)["cluster"]["keeps"]
    return kept


def test_facts_have_the_fields_that_the_controller_found_to_be_stored(tmp_path: Path) -> None:
    with_gate = keeps(tmp_path, objects=(registered(), published()))
    without = keeps(tmp_path, objects=(registered(), published(*SHARED)))
    assert CAPACITY in with_gate
    assert without == [each for each in with_gate if each not in SHARED]


def test_gates_of_the_options_have_precedence(tmp_path: Path) -> None:
    objects = (registered(), published(*SHARED))
    gates = ("--feature-gates", "DRAConsumableCapacity=true")
    assert CAPACITY in keeps(tmp_path, *gates, objects=objects)
    assert CAPACITY in keeps(tmp_path, "--kubernetes-version", "1.36", objects=objects)
    gates = ("--feature-gates", "DRAConsumableCapacity=false")
    assert CAPACITY not in keeps(tmp_path, *gates, objects=(registered(), published()))


@every_row("words", [("translate",), ("check",)])
def test_a_share_is_refused_that_the_api_server_would_drop(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    words = (*words, "-f", str(LEGACY / "hami.yaml"), "--context")
    stored = run(tmp_path, *words, objects=(registered(), published()))
    dropped = run(tmp_path, *words, objects=(registered(), published(*SHARED)))
    assert f"drops {CAPACITY}" in dropped.out + dropped.err
    assert f"drops {CAPACITY}" not in stored.out + stored.err
    assert ASSUMED not in stored.out + stored.err + dropped.out + dropped.err


@every_row("words", [("translate", "-f", str(LEGACY / "nvidia.yaml")), ("audit",)])
@pytest.mark.parametrize(
    ("objects", "forbidden", "told"),
    [
        ((registered(),), "", "ConfigMap drawbridge-system/drawbridge-facts not found; taking"),
        ((registered(), published()), "drawbridge-facts", "; taking the default feature gates"),
        (
            (registered(), config_map("drawbridge-facts", {"current": "sha256:1"})),
            "",
            "ConfigMap drawbridge-system/drawbridge-facts: data.current refers to",
        ),
    ],
)
def test_a_warning_tells_that_the_fields_are_assumed(
    words: tuple[str, ...], objects: tuple[Any, ...], forbidden: str, told: str, tmp_path: Path
) -> None:
    printed = run(tmp_path, *words, "--context", objects=objects, forbidden=forbidden)
    assert f"[{ASSUMED}]" in printed.err
    assert told in printed.err
    gates = ("--feature-gates", "DRAAdminAccess=true", "--kubernetes-version", "1.36")
    printed = run(tmp_path, *words, "--context", *gates, objects=objects, forbidden=forbidden)
    assert ASSUMED not in printed.err


def test_without_an_installation_the_assumption_is_an_info(tmp_path: Path) -> None:
    words = ("translate", "-f", str(LEGACY / "nvidia.yaml"), "--context")
    assert ASSUMED not in run(tmp_path, *words).err
    told = run(tmp_path, *words, "-v").err
    assert "info: nothing is installed; taking the default feature gates of Kubernetes 1.36" in told


def test_without_access_to_registrations_only_facts_that_may_not_be_read_are_a_warning(
    tmp_path: Path,
) -> None:
    """The role `view` of Kubernetes reads ConfigMaps and no registrations."""
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(CONFIGURATION)
    words = ("translate", "-f", str(LEGACY / "nvidia.yaml"), "--context", "--strict", "-v")
    words = (*words, "--config", str(configuration))
    printed = run(tmp_path, *words, forbidden="webhookconfigurations")
    assert printed.code == 0
    assert "info: ConfigMap drawbridge-system/drawbridge-facts not found; taking" in printed.err
    printed = run(tmp_path, *words, objects=(published(),), forbidden="webhookconfigurations")
    assert ASSUMED not in printed.err
    printed = run(tmp_path, *words, forbidden="webhookconfigurations drawbridge-facts")
    assert (printed.code, printed.err.count(f"[{ASSUMED}]")) == (1, 1)
    assert "warning: " in printed.err
