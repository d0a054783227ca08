"""The oracle of public manifests reads requests by itself, and counts what goes in silence."""

from pathlib import Path

import pytest

from e2e.corpus.__main__ import count_folders
from e2e.corpus.oracle import find_requests, holds, names_devices
from tests.tables import every_row, read_yaml

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {gpu-fraction: "0.5"}}
spec:
  containers:
  - resources: {limits: {nvidia.com/gpu: 2, cpu: 1}} # two
"""


@every_row(
    "case",
    [
        (POD, ["gpu-fraction", "nvidia.com/gpu"]),
        ("{limits: {openshift.io/cluster: 1, habana.ai/gaudi: 1}}", ["habana.ai/gaudi"]),
        ("[{resource: nvidia.com/gpu, count: 2}, {resource: nvidia.com/gpu}]", ["nvidia.com/gpu"]),
        ("limits: {nvidia.com/gpu: 0}", []),
        ("nodeSelector: {nvidia.com/gpu.product: x}", []),
    ],
)
def test_requests_are_amounts_beside_names(case: tuple[str, list[str]]) -> None:
    text, names = case
    documents = [read_yaml(text)]
    requests = find_requests(documents)
    assert [each.name for each in requests] == names
    assert all(holds(documents, each) for each in requests)
    assert not any(holds([{}], each) for each in requests)


def test_a_comment_names_no_device(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nvidia.com/gpu\na: 1\n")
    (tmp_path / "b.yaml").write_text("a: nvidia.com/gpu\n")
    assert [names_devices(tmp_path / name) for name in ("a.yaml", "b.yaml")] == [False, True]


def test_what_is_neither_translated_nor_named_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace('{gpu-fraction: "0.5"}', "{}"))
    counts, _ = count_folders([tmp_path])
    assert (counts["requests"], counts["translated"], counts["silent"]) == (1, 1, 0)
    assert counts["YAML files that come back"] == counts["files"] == 1
    monkeypatch.setattr("e2e.corpus.__main__._run", _copy)
    counts, examples = count_folders([tmp_path])
    assert (counts["translated"], counts["silent"]) == (0, 1)
    assert "nvidia.com/gpu" in examples["silent"][0]


def _copy(_: str, folder: Path, to: Path) -> list[object]:
    """A command that changes nothing and says nothing."""
    to.mkdir(exist_ok=True)
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return []
