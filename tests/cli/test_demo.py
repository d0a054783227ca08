"""The demo shows the samples without a complaint, and what every legacy example becomes."""

import functools
import io
import re
from pathlib import Path

import pytest

from cli.demo import LEGACY, SAMPLES, run
from report.claim_requests import describe_claim, short_selectors
from cli.streams import Streams
from documents.values import Value

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
    """The lines below a heading, up to the next empty one."""
    return text.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()


def legacy(text: str) -> dict[str, list[str]]:
    """What is said of each object of the legacy manifests."""
    said: dict[str, list[str]] = {}
    told: list[str] = []
    for line in section(text, HEADING):
        if line.startswith(" "):
            told.append(line.strip())
        else:
            told = said.setdefault(line.partition(": ")[2], [])
    return said


def test_the_samples_are_good_and_fit_on_a_page_or_two() -> None:
    code, text = shown()
    assert code == 0
    assert section(text, "node hgx-1")
    assert "error" not in text
    assert len(text.splitlines()) <= 120


def test_a_nic_stands_beside_the_gpu_on_its_root() -> None:
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


@pytest.mark.parametrize("file", sorted(LEGACY.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_legacy_example_is_said_in_dra_and_its_pods_are_placed(file: Path) -> None:
    text = "".join(f"{line}\n" for line in section(shown()[1], HEADING))
    objects = [part for part in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if part]
    of_file = [part for part in objects if part.startswith(f"{file.stem}: ")]
    assert of_file
    for part in of_file:
        assert re.search(r"^  asked +\S", part, re.MULTILINE), part
        assert re.search(r"^  on [a-z]+-1 +\S", part, re.MULTILINE), part


def test_a_share_is_asked_by_amounts_and_its_device_gives_as_much() -> None:
    said = legacy(shown()[1])["Deployment/serving/inference"]
    assert any("nvidia.com/gpumem 3000" in line for line in said)
    assert any("cores 30, memory 3000Mi, where" in line for line in said)
    assert "on vgpu-1  hami-gpu-0 (cores 30, memory 3000Mi)" in said


def test_what_goes_together_is_placed_together() -> None:
    said = legacy(shown()[1])["Pod/research/worker"]
    assert "gpu-0 and nic-0, gpu-1 and nic-1 share one pcieRoot" in said
    assert "on hgx-1   gpu-0, pci-0000-1a-00-0, gpu-1, pci-0000-42-00-0" in said


POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - name: main
    image: x
    resources: {limits: {ASKED}}
---
"""


def test_what_is_refused_or_finds_no_device_says_why_and_disturbs_nothing(tmp_path: Path) -> None:
    asks = ("huawei.com/Ascend910B4: 1", "amd.com/gpu: 9", "nvidia.com/mig-7g.40gb: 2")
    pods = (POD.replace("NAME", f"p{i}").replace("ASKED", ask) for i, ask in enumerate(asks))
    (tmp_path / "three.yaml").write_text("".join(pods), "utf-8")
    code, text = shown(legacy=tmp_path)
    refused, short, placed = (legacy(text)[f"Pod/p{i}"] for i in range(3))
    assert code == 0
    assert [line.split()[0] for line in refused] == ["asked", "warning", "error"]
    assert "huawei" in refused[-1]
    [why] = (line for line in short if line.startswith("nowhere"))
    assert "2 of 10 gpu.amd.com devices match, 9 requested" in why
    assert placed[-1].startswith("on mig-1")


def test_objects_without_a_name_and_without_devices_are_shown_as_well(tmp_path: Path) -> None:
    unnamed = POD.replace("name: NAME", "generateName: x-").replace("ASKED", "amd.com/gpu: 1")
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    (tmp_path / "odd.yaml").write_text(f"{unnamed}{unnamed}{other}", "utf-8")
    first, second, nothing = legacy(shown(legacy=tmp_path)[1]).values()
    assert (first[-1], second[-1]) == ("on amd-1   gpu-0-128", "on amd-1   gpu-1-129")
    assert nothing == ["asked      nothing"]


def test_what_cannot_be_read_is_told_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(f"a: [\n---{POD.replace('ASKED', 'amd.com/gpu: 1')}")
    lines = section(shown(legacy=tmp_path)[1], HEADING)
    assert lines[0].startswith("bad: ")
    assert any(line.strip().startswith("on amd-1") for line in lines)


@pytest.mark.parametrize(
    ("requests", "lines"),
    [
        (
            [{"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}],
            ["all of c"],
        ),
        (
            [
                {
                    "name": "a",
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "c", "count": 2},
                        {"name": "y", "deviceClassName": "d"},
                    ],
                }
            ],
            ["2 of c or 1 of d"],
        ),
        (
            [{"name": n, "exactly": {"deviceClassName": "c", "count": 1}} for n in ("a", "b")],
            ["a, b: 1 of c"],
        ),
    ],
)
def test_a_claim_is_said_in_a_line_for_each_kind_of_request(
    requests: list[Value], lines: list[str]
) -> None:
    assert list(claim({"spec": {"spec": {"devices": {"requests": requests}}}})) == lines


def test_what_terminals_cannot_show_is_left_out() -> None:
    assert shown()[1].isascii()
    assert "├─" in shown(unicode=True)[1]
    assert "\033" not in shown()[1]
    assert "\033" in shown(color=True)[1]


@pytest.mark.parametrize("bad", ["a: [", "kind: ResourceSlice\napiVersion: resource.k8s.io/v1\n"])
def test_a_sample_that_cannot_be_read_is_told(tmp_path: Path, bad: str) -> None:
    (tmp_path / "bad.yaml").write_text(bad, "utf-8")
    code, text = shown(tmp_path)
    assert code == 2
    assert f"{tmp_path / 'bad.yaml'}:1: error: " in text
