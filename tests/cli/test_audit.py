"""`drawbridge audit` reads a cluster or files, and prints what would happen to the pods."""

import csv
import io
import json
import shlex
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.tables import read_yaml_documents, write_yaml

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
    done = command("translate", "-f", "-", "-o", "yaml", stdin=write_yaml([legacy]))
    value: dict[str, Any] = next(iter(read_yaml_documents(done.out)))
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


def job_without_devices(where: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": where},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
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
    job_without_devices("team-a", "huge"),
    job_without_devices("team-a", "guarded"),
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
            message = f"{forbidden} is forbidden"
            api.fail(403, method="GET", part=forbidden, times=9, message=message)

    return on_api(folder, CLUSTER, "audit", *words, prepare=prepare)


def counts(printed: Printed) -> dict[str, tuple[int, int, int]]:
    """Return the pods that are translated, are to translate, and neither."""
    assert printed.code == 0, printed
    return {
        each["namespace"]: (
            each["pods"]["translated"],
            each["pods"]["toTranslate"],
            each["pods"]["stays"] + each["pods"]["refused"],
        )
        for each in json.loads(printed.out)["namespaces"]
    }


EXPECTED = {"team-a": (1, 1, 1), "team-b": (0, 2, 1), "team-c": (0, 1, 0)}


def test_files_and_a_live_cluster_give_the_counts_of_each_namespace(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(CLUSTER))
    from_files = counts(command("audit", "--cluster", str(dump), "-o", "json"))
    assert from_files == counts(audited(tmp_path, "-o", "json")) == EXPECTED


def test_a_period_leaves_out_older_pods_and_the_plan(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(CLUSTER))
    printed = command("audit", "--cluster", str(dump), "-o", "json", "--since", "1d")
    # The translated pod of a file was created at its own time, the legacy one a week ago.
    assert counts(printed)["team-a"] == (1, 0, 1)
    data = json.loads(printed.out)
    assert (data["nodeGroups"], data["steps"]) == ([], [])
    refused = data["namespaces"][0]["refusals"]
    assert sorted(refused) == ["Job/guarded", "Job/huge"]


def test_text_shows_who_asks_what_and_what_becomes_of_it(tmp_path: Path) -> None:
    code, out, err = audited(tmp_path)
    told = err.splitlines()[0]
    assert (code, told.partition(": ")[0], told.count("[FeaturesAssumed]")) == (0, "info", 1)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == (
        "6 workloads with 7 pods: 1 translated, 3 to translate, 1 stays with its plugin, 1 refused"
    )
    assert lines[2:4] == [
        "NAMESPACE MODE PODS WORKLOADS TRANSLATED TO TRANSLATE STAYS WITH ITS PLUGIN REFUSED",
        "team-a enforce 3 3 1 1 1 0",
    ]
    train = next(number for number, line in enumerate(lines) if "Job/train" in line)
    assert lines[train].startswith("to translate Job/train 2 pods now: device plugin")
    became = "nvidia.com/gpu 1 -> 1 device of class gpu.nvidia.com (claim drawbridge)"
    assert lines[train + 1].startswith(became)
    huge = "refused now: Job/huge: 7 attempts: CountNeverFits: spec: 300 (x)"
    assert huge in lines
    assert "elsewhere" not in out


def test_the_table_counts_workloads_without_pods(tmp_path: Path) -> None:
    template = {"spec": {**pod("team-a", "any")["spec"], "nodeName": ""}}
    idle = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idle", "namespace": "team-a"},
        "spec": {"replicas": 0, "template": template},
    }
    nightly = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team-a"},
        "spec": {"jobTemplate": {"spec": {"template": template}}},
    }
    finished = pod("team-a", "done", job="done")
    finished["status"] = {"phase": "Succeeded"}
    dump = tmp_path / "dump.yaml"
    written = [*NODES, *CLASSES, namespace("team-a", ""), idle, nightly, finished]
    dump.write_text(write_yaml(written))
    lines = command("audit", "--cluster", str(dump)).out.splitlines()
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "2 workloads with 0 pods: 2 to translate",
        "",
        "NAMESPACE MODE PODS WORKLOADS TO TRANSLATE",
        "team-a off 0 2 2",
    ]


def test_one_namespace_can_be_selected(tmp_path: Path) -> None:
    assert counts(audited(tmp_path, "team-b", "-o", "json")) == {"team-b": EXPECTED["team-b"]}
    text = "no pod or workload of namespace team-d asks for devices"
    assert text in audited(tmp_path, "team-d").out


@pytest.mark.parametrize("part", ["resourcequotas", "events", "poddisruptionbudgets"])
def test_a_part_that_the_caller_may_not_read_is_said(tmp_path: Path, part: str) -> None:
    printed = audited(tmp_path, "-o", "json", forbidden=f"/{part}")
    assert "[PartUnreadable]" in printed.err
    assert counts(printed) == EXPECTED


@pytest.mark.parametrize("only", [(), ("team-b",)])
@pytest.mark.parametrize("part", ["nodes", "deviceclasses", "resourceslices", "namespaces", "pods"])
def test_without_what_decides_about_pods_nothing_is_told_of_them(
    tmp_path: Path, part: str, only: tuple[str, ...]
) -> None:
    code, out, err = audited(tmp_path, *only, forbidden=f"/{part}")
    assert (code, out) == (2, "")
    assert f"/{part} is forbidden" in err
    assert err.count("[ClusterUnreadable]") == 1


@pytest.mark.parametrize(
    "part",
    ["resourceclaims", "resourceclaimtemplates", "deployments", "daemonsets", "batch/v1/jobs",
     "resourcequotas", "events"],
)  # fmt: skip
def test_the_notes_say_what_was_not_read(tmp_path: Path, part: str) -> None:
    audit = json.loads(audited(tmp_path, "-o", "json", forbidden=f"/{part}").out)
    missing = [note for note in audit["notes"] if note.startswith("Not read: ")]
    assert [part in note for note in missing] == [True], audit["notes"]


def test_no_namespace_is_translated_by_a_plan_without_nodes(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml([each for each in CLUSTER if each["kind"] != "Node"]))
    audit = json.loads(command("audit", "--cluster", str(dump), "-o", "json").out)
    commands = [command for step in audit["steps"] for command in step["commands"]]
    assert not [command for command in commands if "translate=enforce" in command]


def test_without_a_cluster_the_command_says_so() -> None:
    printed = command("audit", "--kubeconfig", "/nowhere")
    assert (printed.code, printed.out) == (2, "")
    assert "[ClusterUnreadable]" in printed.err


def test_names_are_bounded_and_cannot_control_the_terminal(tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    pods = [pod("team-b", f"p{number}\x1b[2J" + "x" * 9000) for number in range(30)]
    dump.write_text(write_yaml([*NODES, *CLASSES, namespace("team-b", "report"), *pods]))
    code, out, _ = command("audit", "--cluster", str(dump))
    assert (code, "\x1b" in out, "and 10 more workloads" in out) == (0, False, True)
    assert len(out) < 60_000


def test_a_name_that_a_tenant_writes_cannot_become_a_command(tmp_path: Path) -> None:
    evil = "x; rm -rf /"
    owned = pod("team-a", "evil", job=evil)
    owned["metadata"]["ownerReferences"][0]["kind"] = "Deployment"
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": evil, "namespace": "team-a"},
        "spec": {"template": {"spec": owned["spec"]}, "selector": {"matchLabels": {"a": evil}}},
    }
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml([*NODES, *CLASSES, namespace("team-a", ""), owned, workload]))
    data = json.loads(command("audit", "--cluster", str(dump), "-o", "json").out)
    typed = [command for step in data["steps"] for command in (*step["commands"], *step["undo"])]
    words = [word for each in typed for word in shlex.split(each)]
    assert not [each for each in words if "rm -rf" in each and evil not in each]
    assert "rm" not in words


class PageReader(HTMLParser):
    """Collects the elements of a page, and whether each one is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.names.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.text += data


def hostile(tmp_path: Path) -> Path:
    """Write a cluster whose tenants write HTML and formulas."""
    evil = "=<script>alert(1)</script>\"'&"
    pods = [pod("team-b", evil), pod("team-b", "one", "<b>1</b>"), pod(evil, "two")]
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml([*NODES, *CLASSES, namespace("team-b", "report"), *pods]))
    return dump


def test_the_page_is_one_file_and_shows_what_tenants_write_as_text(tmp_path: Path) -> None:
    code, out, _ = command("audit", "--cluster", str(hostile(tmp_path)), "-o", "html")
    page = PageReader()
    page.feed(out)
    assert (code, page.open) == (0, [])
    assert not {"script", "link", "img", "iframe", "b"} & {*page.names}
    assert not [name for name, _ in page.attributes if name in ("src", "href", "onclick")]
    assert "url(" not in out
    assert "<script>alert(1)</script>" in page.text


def test_csv_has_a_row_for_each_workload_and_no_formula(tmp_path: Path) -> None:
    code, out, _ = command("audit", "--cluster", str(hostile(tmp_path)), "-o", "csv")
    rows = [*csv.DictReader(io.StringIO(out))]
    assert (code, len(rows)) == (0, 3)
    assert not [cell for row in rows for cell in row.values() if cell[:1] in {"=", "+", "-", "@"}]
    assert {row["outcome"] for row in rows} == {"to translate", "stays with its plugin"}


def test_no_name_adds_a_row_or_a_control_character_to_csv(tmp_path: Path) -> None:
    owned = pod("team-b", "web-1")
    name = "x\nteam-a,off,Deployment/forged,translated\r\x1b[2J\u202e"
    owned["metadata"]["ownerReferences"] = [{"kind": "\tW", "name": name, "controller": True}]
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml([*NODES, *CLASSES, owned]))
    code, out, _ = command("audit", "--cluster", str(dump), "-o", "csv")
    assert (code, len(out.splitlines())) == (0, 2)
    (row,) = csv.DictReader(io.StringIO(out))
    forged = r"x\nteam-a,off,Deployment/forged,translated\r\x1b[2J\u202e"
    assert row["owner"] == rf"\tW/{forged}"


def test_a_note_has_the_mappings_that_kueue_needs(tmp_path: Path) -> None:
    managed = pod("team-b", "queued", job="queued")
    managed["metadata"]["labels"] = {"kueue.x-k8s.io/managed": "true"}

    def notes(*more: dict[str, Any]) -> list[str]:
        path = tmp_path / "cluster.yaml"
        path.write_text(write_yaml([*CLUSTER, *more]), encoding="utf-8")
        ran = command("audit", "--cluster", str(path), "-o", "json")
        notes: list[str] = json.loads(ran.out)["notes"]
        return [each for each in notes if "Kueue" in each]

    assert notes() == []
    (note,) = notes(managed)
    mapping = "{name: nvidia.com/gpu, deviceClassNames: [gpu.nvidia.com]}"
    assert f"deviceClassMappings: [{mapping}]" in note


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [((), ["Node", "Pod"]), (("Node",), ["Pod"]), (("Pod",), ["Node"]), (("Node", "Pod"), [])],
)
def test_files_without_a_kind_are_no_cluster(
    tmp_path: Path, kinds: tuple[str, ...], missing: list[str]
) -> None:
    dump = tmp_path / "cluster.yaml"
    objects = [*NODES, *CLASSES, namespace("team", "enforce"), pod("team", "a")]
    left = [each for each in objects if each["kind"] not in {"Node", "Pod"} - {*kinds}]
    dump.write_text(write_yaml(left))
    code, _, told = command("audit", "--cluster", str(dump))
    expected = [f"no {kind} in the files" for kind in missing]
    assert (code, [each for each in expected if each in told]) == (0, expected)
    assert told.count("KindMissing") == len(missing), told


@pytest.mark.parametrize(("name", "told"), [("research", False), ("nosuch", True)])
def test_a_namespace_that_is_not_there_is_named(name: str, tmp_path: Path, *, told: bool) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(write_yaml([*NODES, *CLASSES, pod("research", "train")]))
    printed = command("audit", name, "--cluster", str(dump))
    assert (f"No namespace {name} was read, nor a pod in it" in printed.out) is told


@pytest.mark.parametrize(
    ("number", "told"), [(1, "1 stays with its plugin"), (2, "2 stay with their plugin")]
)
def test_workloads_that_stay_are_counted_in_plain_words(
    number: int, told: str, tmp_path: Path
) -> None:
    dump = tmp_path / "cluster.yaml"
    pods = [pod("research", f"own-{each}") for each in range(number)]
    for each in pods:
        each["metadata"]["labels"] = {"drawbridge.dev/translate": "off"}
    dump.write_text(write_yaml([*NODES, *CLASSES, *pods]))
    assert told in command("audit", "--cluster", str(dump)).out.splitlines()[0]


def test_the_order_of_objects_and_files_that_overlap_change_nothing(tmp_path: Path) -> None:
    sample = Path("examples/audit")
    files = sorted(sample.iterdir())
    objects = [each for file in files for each in read_yaml_documents(file.read_text())]
    reversed_ = tmp_path / "reversed.yaml"
    reversed_.write_text(write_yaml(objects[::-1]))
    audits = [
        command("audit", "-o", "json", "--cluster", *map(str, paths))
        for paths in ([sample], [reversed_], [sample, reversed_])
    ]
    assert audits[0].code == 0
    assert audits[1:] == audits[:1] * 2
