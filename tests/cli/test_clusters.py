"""Several clusters are one table, the worst first, and one without an answer is a row."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.planted import PLANTS, draw
from tests.cli.running import Printed, command
from tests.cli.test_stuck import write
from tests.cluster.fake.api import FakeApi

NATIVE = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nplacement: native\n"
OWNED = "ownedPools: [{driver: gpu.nvidia.com, nodeSelector: {matchLabels: {a: b}}}]\n"
BRIDGE = NATIVE.replace("native\n", f"bridge\n{OWNED}")


def installed(configuration: str, release: str) -> list[dict[str, Any]]:
    """The configuration in use and the Deployment of the webhook."""
    image = f"registry.example.com/drawbridge:{release}@sha256:0"
    pod = {"spec": {"containers": [{"name": "webhook", "image": image}]}}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "drawbridge-config-in-use", "namespace": "drawbridge-system"},
            "data": {"config.yaml": configuration},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "drawbridge-webhook", "namespace": "drawbridge-system"},
            "spec": {"template": pod},
        },
    ]


ORDER = ("broken", "hung", "other", "refused", "calm", "same")


def dumps(folder: Path) -> Path:
    for name, configuration, release, plants in (
        ("calm", NATIVE, "0.4.0", 0),
        ("same", NATIVE.replace("kind", "# the same\nkind"), "0.4.0", 0),
        ("hung", NATIVE, "0.4.0", 3),
        ("other", BRIDGE, "0.3.0", 0),
    ):
        cluster = draw(1, 4)
        for plant in PLANTS[:plants]:
            plant(cluster)
        cluster.objects += installed(configuration, release)
        write(cluster, folder / f"{name}.json")
    (folder / "refused").mkdir()
    refused = draw(1, 4)
    refused.objects += installed("placement: somewhere", "0.4.0")
    write(refused, folder / "refused" / "objects.json")
    (folder / "broken.yaml").write_text("kind: [")
    (folder / "notes.txt").write_text("no dump")
    (folder / ".hidden").mkdir()
    return folder


@pytest.mark.parametrize("word", ["audit", "doctor"])
def test_a_folder_of_dumps_is_one_table_with_the_worst_first(tmp_path: Path, word: str) -> None:
    done = command(word, "--clusters", str(dumps(tmp_path)))
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[1:7]] == [*ORDER]
    assert lines[0].split() == [
        "CLUSTER", "KUBERNETES", "RELEASE", "MODE", "MIGRATED", "STUCK", "REFUSED", "WAITING",
        "CONFIGURATION",
    ]  # fmt: skip
    assert "no answer" in lines[1]
    assert "hung: 3 objects stuck [DeletionStuck]" in lines
    assert "other: release 0.3.0, not 0.4.0" in lines
    assert "other: placement bridge, not native" in lines
    assert done.code == 2


def test_tools_get_the_same_rows(tmp_path: Path) -> None:
    done = command("audit", "--clusters", str(dumps(tmp_path)), "-o", "json")
    rows = {each["cluster"]: each for each in json.loads(done.out)["clusters"]}
    assert tuple(rows) == ORDER
    assert rows["refused"]["configuration"] == "invalid"
    assert rows["broken"]["error"]
    assert rows["hung"]["stuck"] == {"DeletionStuck": 3}
    assert rows["calm"]["configuration"] == rows["same"]["configuration"]
    assert rows["calm"]["drift"] == []
    assert rows["calm"] | {"cluster": ""} == rows["same"] | {"cluster": ""}
    assert (rows["calm"]["version"], rows["calm"]["modes"]) == ("1.36", {"enforce": 8})
    assert rows["calm"]["withoutPlugin"] == rows["calm"]["pods"] > 0
    assert rows["calm"]["waiting"] == 3  # a gated pod is not waiting


def test_contexts_are_asked_and_one_that_does_not_answer_is_a_row(tmp_path: Path) -> None:
    async def ask() -> Printed:
        async with FakeApi(version="1.36") as one, FakeApi(version="1.35") as two:
            for api in (one, two):
                for value in draw(1, 2).objects:
                    api.put(value)
            urls = {"one": one.url, "two": two.url, "gone": "http://127.0.0.1:9"}
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": k, "cluster": {"server": v}} for k, v in urls.items()],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": k, "context": {"cluster": k, "user": "u"}} for k in urls],
            }
            path = tmp_path / "config"
            path.write_text(json.dumps(config))
            words = ("audit", "--context", "one,gone,two", "--kubeconfig", str(path))
            return await asyncio.to_thread(command, *words)

    done = asyncio.run(ask())
    rows = [line.split()[:2] for line in done.out.splitlines()[1:4]]
    assert rows[0] == ["gone", "no"]
    assert sorted(rows[1:]) == [["one", "1.36"], ["two", "1.35"]]
    assert done.code == 2
    assert "gone: " in done.out


def test_a_folder_that_does_not_exist_is_bad_input(tmp_path: Path) -> None:
    done = command("audit", "--clusters", str(tmp_path / "missing"))
    assert done.code == 2
    assert "missing" in done.err


def test_a_folder_without_dumps_is_bad_input(tmp_path: Path) -> None:
    done = command("audit", "--clusters", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "no dump of a cluster in it" in done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("audit", "team-a"), "NAMESPACE"),
        (("audit", "--since", "1h"), "--since"),
        (("audit", "--rehearse"), "--rehearse"),
        (("audit", "--cluster", "a.yaml"), "--cluster"),
        (("audit", "--context", "a"), "--context"),
        (("audit", "-o", "csv"), "--output csv"),
        (("doctor", "-n", "team-a"), "--namespace"),
    ],
)
def test_what_a_comparison_cannot_do_is_refused(
    words: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    done = command(*words, "--clusters", str(dumps(tmp_path)))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"drawbridge: error: a comparison of clusters cannot use {named}\n"


def test_a_configuration_that_cannot_be_read_is_the_error_of_each_row(tmp_path: Path) -> None:
    words = ("--clusters", str(dumps(tmp_path)), "--config", str(tmp_path / "none"))
    done = command("audit", *words, "-o", "json")
    assert done.code == 2
    assert all(each["error"] for each in json.loads(done.out)["clusters"])
