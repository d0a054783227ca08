"""`drawbridge config facts` prints facts, and reads them back from its own output."""

import json
import re
from functools import partial
from pathlib import Path

from controller.field_probe import infer_gates
from drawbridge.dra.gates import VERSIONS
from drawbridge.facts.gather import describe_cluster
from tests.cli.running import command
from tests.tables import every_row, read_yaml_documents

SAMPLES = str(Path(__file__).parents[2] / "examples" / "inventory")
LEGACY = Path(__file__).parents[2] / "examples" / "legacy"
PAIR = ("gpu.nvidia.com", "dra.net")


run = partial(command, "config", "facts")


def test_facts_of_the_sample_cluster_are_printed() -> None:
    code, out, err = run("--cluster", SAMPLES, "-o", "json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    written = read_yaml_documents((Path(SAMPLES) / "classes.yaml").read_text("utf-8"))
    classes = sorted(each["metadata"]["name"] for each in written if each)
    assert [each["name"] for each in facts["classes"]] == classes
    (shape,) = (s for s in facts["shapes"] if (s["gpu"], s.get("nic")) == PAIR and s["nics"])
    assert {"gpus": 1, "nics": 1, "times": 8} in shape["pcie"]


def test_a_facts_file_gives_the_same_output_for_another_cluster(tmp_path: Path) -> None:
    _, out, _ = run("--cluster", SAMPLES)
    file = tmp_path / "facts.yaml"
    file.write_text(out)
    slices = tmp_path / "empty.yaml"
    slices.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    assert run("--cluster", str(slices), "--facts", str(file)) == (0, out, "")


def test_an_error_in_a_facts_file_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "facts.yaml"
    file.write_text("kind: Facts\nshapez: []\n")
    code, out, err = run("--cluster", SAMPLES, "--facts", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"{file}:2: error: ")


def test_an_unknown_feature_gate_is_an_error() -> None:
    code, out, err = run("--cluster", SAMPLES, "--feature-gates", "DRANothing=true")
    assert (code, out) == (2, "")
    assert "DRANothing" in err


def test_supported_fields_depend_on_the_kubernetes_version() -> None:
    _, out, _ = run("--cluster", SAMPLES, "--kubernetes-version", "1.34", "-o", "json")
    assert "exactly.capacity" not in json.loads(out)["cluster"]["keeps"]


@every_row("version", VERSIONS)
def test_facts_have_the_gates_that_the_controller_sees(version: str) -> None:
    """With the defaults of a version, whose fields the API server stores."""
    code, out, _ = run("--cluster", SAMPLES, "--kubernetes-version", version, "-o", "json")
    assert code == 0
    cluster = json.loads(out)["cluster"]
    seen, is_known = infer_gates(version, tuple(cluster["keeps"]))
    assert is_known
    assert cluster["gates"] == [*describe_cluster(seen).gates]


@every_row("version", VERSIONS)
def test_a_translation_notes_the_hash_of_the_printed_facts(version: str) -> None:
    options = ("--cluster", SAMPLES, "--kubernetes-version", version)
    _, out, _ = run(*options, "-o", "json")
    translated = command("translate", "-f", str(LEGACY / "nvidia.yaml"), "-o", "yaml", *options).out
    noted = set(re.findall("drawbridge.dev/facts: (.*)", translated))
    assert noted == {json.loads(out)["hash"]}
