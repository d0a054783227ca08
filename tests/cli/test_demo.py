"""The demo shows the samples, whole and without a complaint."""

import io
from pathlib import Path

import pytest

from cli.demo import SAMPLES, run
from cli.streams import Streams


def shown(folder: Path = SAMPLES, *, unicode: bool = False, color: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    code = run(Streams(io.BytesIO(), out, io.StringIO(), color=color, unicode=unicode), folder)
    return code, out.getvalue()


def section(text: str, heading: str) -> list[str]:
    """The lines below a heading, up to the next empty one."""
    return text.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()


def test_the_samples_are_good_and_all_their_nodes_are_drawn() -> None:
    code, text = shown()
    assert code == 0
    for name in ("hgx-1", "mig-1", "edge-1"):
        assert section(text, f"node {name}")
    assert "error" not in text


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


def test_every_class_of_the_samples_selects_devices() -> None:
    heading, *classes = section(shown()[1], "Classes")
    column = heading.index("DEVICES")
    assert classes
    assert all(int(line[column:].split()[0]) > 0 for line in classes)


def test_the_sample_pods_are_placed_and_one_is_told_why_not() -> None:
    lines = section(shown()[1], "Pods, one after the other")
    assert sum(": on " in line for line in lines) == 6
    [refused] = (i for i, line in enumerate(lines) if line.endswith(": not placed"))
    assert "no gpu.nvidia.com with" in "".join(lines[refused + 1 :])


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


def test_a_class_that_cannot_be_evaluated_says_so(tmp_path: Path) -> None:
    good = (SAMPLES / "edge-l4.yaml").read_text("utf-8")
    (tmp_path / "slices.yaml").write_text(good, "utf-8")
    (tmp_path / "classes.yaml").write_text(
        """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: odd}
spec: {selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].nothing == 1'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: worse}
spec: {selectors: [{cel: {expression: 'device.'}}]}
""",
        "utf-8",
    )
    odd, worse = section(shown(tmp_path)[1], "Classes")[1:]
    assert "error" in odd
    assert "error" in worse
