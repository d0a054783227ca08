"""The demo shows the samples without errors, and the translation of every legacy example."""

import functools
import io
import re
from pathlib import Path

import pytest

from cli.demo import LEGACY, SAMPLES, run
from cli.terminal.streams import Streams
from tests.tables import every_row

HEADING = "Legacy manifests, each on the empty sample cluster"


@functools.cache
def shown(
    folder: Path = SAMPLES, legacy: Path = LEGACY, *, unicode: bool = False, color: bool = False
) -> tuple[int, str]:
    out = io.StringIO()
    streams = Streams(io.BytesIO(), out, io.StringIO(), color=color, unicode=unicode)
    code = run(streams, folder, legacy)
    return code, out.getvalue()


def section(text: str, heading: str) -> list[str]:
    """Return the lines below a heading, up to the next empty line."""
    return text.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()


def legacy(text: str) -> dict[str, list[str]]:
    """Return the lines about each object of the legacy manifests."""
    by_object: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section(text, HEADING):
        if line.startswith(" "):
            lines.append(line.strip())
        else:
            lines = by_object.setdefault(line.partition(": ")[2], [])
    return by_object


def test_the_demo_has_no_errors_and_at_most_120_lines() -> None:
    code, text = shown()
    assert code == 0
    assert section(text, "node hgx-1")
    assert "error" not in text
    assert len(text.splitlines()) <= 120


def test_a_nic_is_drawn_next_to_the_gpu_on_its_pcie_root() -> None:
    lines = section(shown()[1], "node hgx-1")
    root = next(i for i, line in enumerate(lines) if line.endswith("pci0000:19"))
    beside = "\n".join(lines[root + 1 : root + 3])
    assert "- gpu-0 " in beside
    assert "- pci-0000-1a-00-0 " in beside


def test_every_pool_of_the_samples_is_complete() -> None:
    heading, *pools = section(shown()[1], "Pools")
    assert heading.startswith("DRIVER")
    assert pools
    assert all(line.endswith(" complete") for line in pools)


@every_row("file", sorted(LEGACY.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_legacy_example_is_translated_and_its_pods_are_placed(file: Path) -> None:
    text = "".join(f"{line}\n" for line in section(shown()[1], HEADING))
    objects = [part for part in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if part]
    of_file = [part for part in objects if part.startswith(f"{file.stem}: ")]
    assert of_file
    for part in of_file:
        assert re.search(r"^  requests +\S", part, re.MULTILINE), part
        assert re.search(r"^  on [a-z]+-1 +\S", part, re.MULTILINE), part


def test_a_share_requests_amounts_and_its_device_provides_them() -> None:
    lines = legacy(shown()[1])["Deployment/serving/inference"]
    assert any("nvidia.com/gpumem 3000" in line for line in lines)
    assert any("with cores 30 and memory 3000Mi where" in line for line in lines)
    assert "on vgpu-1  hami-gpu-0 (cores 30, memory 3000Mi)" in lines


def test_devices_with_a_common_constraint_are_placed_together() -> None:
    lines = legacy(shown()[1])["Pod/research/worker"]
    rule = "with the same resource.kubernetes.io/pcieRoot: gpu-0 and nic-0; gpu-1 and nic-1"
    assert rule in lines
    assert "on hgx-1   gpu-0, pci-0000-1a-00-0, gpu-1, pci-0000-42-00-0" in lines


POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - name: main
    image: x
    resources: {limits: {REQUEST}}
---
"""


def test_errors_and_missing_devices_are_explained_and_other_pods_are_placed(tmp_path: Path) -> None:
    requests = ("huawei.com/Ascend910B4: 1", "amd.com/gpu: 9", "nvidia.com/mig-7g.40gb: 2")
    pods = (
        POD.replace("NAME", f"p{i}").replace("REQUEST", request)
        for i, request in enumerate(requests)
    )
    (tmp_path / "three.yaml").write_text("".join(pods), "utf-8")
    code, text = shown(legacy=tmp_path)
    untranslatable, unplaced, placed = (legacy(text)[f"Pod/p{i}"] for i in range(3))
    assert code == 0
    assert [line.split()[0] for line in untranslatable] == ["requests", "warning", "error"]
    assert "huawei" in untranslatable[-1]
    [reason] = (line for line in unplaced if line.startswith("not placed"))
    assert "2 of 10 gpu.amd.com devices match, 9 requested" in reason
    assert placed[-1].startswith("on mig-1")


def test_objects_without_a_name_or_devices_are_shown(tmp_path: Path) -> None:
    unnamed = POD.replace("name: NAME", "generateName: x-").replace("REQUEST", "amd.com/gpu: 1")
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    (tmp_path / "odd.yaml").write_text(f"{unnamed}{unnamed}{other}", "utf-8")
    first, second, nothing = legacy(shown(legacy=tmp_path)[1]).values()
    assert (first[-1], second[-1]) == ("on amd-1   gpu-0-128", "on amd-1   gpu-1-129")
    assert nothing == ["requests   no devices"]


def test_an_unreadable_manifest_is_reported_in_order(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(f"a: [\n---{POD.replace('REQUEST', 'amd.com/gpu: 1')}")
    lines = section(shown(legacy=tmp_path)[1], HEADING)
    assert lines[0].startswith("bad: ")
    assert any(line.strip().startswith("on amd-1") for line in lines)


def test_color_and_unicode_are_used_only_if_supported() -> None:
    assert shown()[1].isascii()
    assert "├─" in shown(unicode=True)[1]
    assert "\033" not in shown()[1]
    assert "\033" in shown(color=True)[1]


@pytest.mark.parametrize("bad", ["a: [", "kind: ResourceSlice\napiVersion: resource.k8s.io/v1\n"])
def test_an_unreadable_sample_is_an_error(tmp_path: Path, bad: str) -> None:
    (tmp_path / "bad.yaml").write_text(bad, "utf-8")
    code, text = shown(tmp_path)
    assert code == 2
    assert f"{tmp_path / 'bad.yaml'}:1: error: " in text
