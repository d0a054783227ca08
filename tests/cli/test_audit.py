"""`drawbridge audit` sums up pods and refusals by namespace and owner, from a cluster or files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi

NOW = datetime.now(UTC)
DENIED = 'Error creating: admission webhook "{}" denied the request: CountNeverFits: spec: 300 (x)'
# The plugin serves the name in this cluster, and no class does, so that pods are translated.
NODES = [obj for obj in OBJECTS if obj["kind"] != "DeviceClass"]
CLASSES: list[Any] = []
for device_class in (obj for obj in OBJECTS if obj["kind"] == "DeviceClass"):
    spec = {key: v for key, v in device_class["spec"].items() if key != "extendedResourceName"}
    CLASSES.append({**device_class, "spec": spec})


def namespace(name: str, mode: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"drawbridge.dev/translate": mode}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def pod(where: str, name: str, gpus: str = "1", *, job: str = "", days: int = 0) -> dict[str, Any]:
    created = NOW - timedelta(days=days)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": where,
        "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}",
    }
    if job:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "1", "controller": True}
        ]
    main = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec = {"containers": [main], "nodeName": "n1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def translated(where: str, name: str) -> dict[str, Any]:
    legacy = pod(where, name)
    legacy["spec"].pop("nodeName")
    done = command("translate", "-f", "-", "-o", "yaml", stdin=yaml.safe_dump(legacy))
    value: dict[str, Any] = next(iter(yaml.safe_load_all(done.out)))
    return value


def refusal(where: str, job: str, webhook: str = "pods.drawbridge.dev") -> dict[str, Any]:
    subject = {"kind": "Job", "name": job, "namespace": where}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{job}.{webhook}", "namespace": where},
        "regarding": subject,
        "reason": "FailedCreate",
        "note": DENIED.format(webhook),
        "eventTime": f"{NOW:%Y-%m-%dT%H:%M:%S.000000Z}",
        "series": {"count": 7, "lastObservedTime": f"{NOW:%Y-%m-%dT%H:%M:%S.000000Z}"},
    }


OPTED_OUT = pod("team-a", "own")
OPTED_OUT["metadata"]["labels"] = {"drawbridge.dev/translate": "off"}
CLUSTER = [
    *NODES,
    *CLASSES,
    namespace("team-a", "enforce"),
    namespace("team-b", "report"),
    namespace("team-c", "off"),
    translated("team-a", "done"),
    pod("team-a", "before-the-label", days=8),
    OPTED_OUT,
    refusal("team-a", "huge"),
    refusal("team-a", "guarded", "guard.drawbridge.dev"),
    refusal("team-a", "elsewhere", "other.example.com"),
    pod("team-b", "train-1", job="train"),
    pod("team-b", "train-2", job="train"),
    pod("team-b", "mixed", "1.5"),
    pod("team-c", "other"),
]


def audited(folder: Path, *words: str, forbidden: str = "") -> Printed:
    def prepare(api: FakeApi) -> None:
        if forbidden:
            api.fail(403, method="GET", part=forbidden, times=9)

    return on_api(folder, CLUSTER, "audit", *words, prepare=prepare)


def counts(printed: Printed) -> dict[str, tuple[int, int, int]]:
    assert printed.code == 0, printed
    return {
        each["namespace"]: (each["translated"], each["left"], each["refused"])
        for each in json.loads(printed.out)["namespaces"]
    }


def test_files_and_a_live_cluster_give_the_counts_of_each_namespace(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump_all(CLUSTER))
    from_files = counts(command("audit", "--cluster", str(dump), "-o", "json"))
    assert from_files == counts(audited(tmp_path, "-o", "json"))
    assert from_files == {"team-a": (1, 1, 2), "team-b": (2, 0, 1)}
    recent = command("audit", "--cluster", str(dump), "-o", "json", "--since", "1d")
    # The translated pod of a file was created at its own time, that of the report a week ago.
    assert counts(recent) == {"team-a": (1, 0, 2), "team-b": (2, 0, 1)}


def test_text_shows_the_owners_with_what_they_asked_and_what_it_became(tmp_path: Path) -> None:
    code, out, err = audited(tmp_path)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == [
        "NAMESPACE MODE TRANSLATED LEFT REFUSED",
        "team-a enforce 1 1 2",
        "team-b report 2 0 1",
    ]
    became = "nvidia.com/gpu: 1 of container main -> 1 device of class gpu.nvidia.com"
    assert any(line.startswith(f"would be translated Job/train 2 {became}") for line in lines)
    assert any(line.startswith("left Pod/before-the-label 1 nvidia.com/gpu") for line in lines)
    assert any(line.startswith("refused Job/huge 7 ") for line in lines)
    assert "elsewhere" not in out


def test_one_namespace_can_be_selected(tmp_path: Path) -> None:
    assert counts(audited(tmp_path, "team-b", "-o", "json")) == {"team-b": (2, 0, 1)}
    assert counts(audited(tmp_path, "team-c", "-o", "json")) == {}
    text = "namespace team-c does not exist, or is not in mode enforce or report"
    assert audited(tmp_path, "team-c").out == f"{text}\n"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("/namespaces/team-a/pods", {"team-a": (0, 0, 2), "team-b": (2, 0, 1)}),
        ("/events", {"team-a": (1, 1, 0), "team-b": (2, 0, 1)}),
    ],
)
def test_a_part_that_the_caller_may_not_read_is_said(
    tmp_path: Path, part: str, expected: dict[str, tuple[int, int, int]]
) -> None:
    printed = audited(tmp_path, "-o", "json", forbidden=part)
    assert "[PartUnreadable]" in printed.err
    assert counts(printed) == expected


@pytest.mark.parametrize("part", ["/nodes", "/api/v1/namespaces"])
def test_without_access_to_the_cluster_the_command_says_so(tmp_path: Path, part: str) -> None:
    printed = audited(tmp_path, forbidden=part)
    assert (printed.code, printed.out) == (2, "")
    assert "[ClusterUnreadable]" in printed.err


def test_owners_are_bounded_and_their_names_cannot_control_the_terminal(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    pods = [pod("team-b", f"p{number}\x1b[2J" + "x" * 9000) for number in range(30)]
    dump.write_text(yaml.safe_dump_all([*NODES, *CLASSES, namespace("team-b", "report"), *pods]))
    code, out, _ = command("audit", "--cluster", str(dump))
    assert (code, "\x1b" in out, "and 10 more owners" in out) == (0, False, True)
    assert len(out) < 30_000
