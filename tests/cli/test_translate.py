"""`drawbridge translate`: edited manifests, findings and exit codes."""

import io
import json
from pathlib import Path

import pytest

from cli.main import dispatch
from cli.terminal.streams import Streams
from tests.cli.running import EIGHT_IN_OWNED_POOLS, JUDGED_POOLS, command, own_zone, read_findings
from tests.tables import YamlValue, every_row, read_yaml, read_yaml_documents

ROOT = Path(__file__).parents[2]
LEGACY = sorted((ROOT / "examples" / "legacy").glob("*.yaml"))
POD = """\
# a pod of mine
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml}
spec:
  containers:
  - name: main   # the only one
    resources:
      limits:
        nvidia.com/gpu: 1
        cpu: 2
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c} # kept\n"
BROKEN = "kind: Pod\nmetadata: {name: {{ .Values.name }}}\n"
REFUSED = POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1\n      requests: {nvidia.com/gpu: 2}")


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    streams = Streams(io.BytesIO(stdin), out, io.StringIO())
    code = dispatch(["translate", "--exit-code", *arguments], streams, "drawbridge")
    assert isinstance(streams.err, io.StringIO)
    return code, raw.getvalue(), streams.err.getvalue()


def printed(stdin: str, *arguments: str) -> tuple[int, YamlValue]:
    code, out, _ = run("-f", "-", "-o", "json", *arguments, stdin=stdin.encode())
    read = json.loads(out)
    assert list(read) == ["objects", "templates", "findings", "changed"]
    return code, read


@every_row(
    ("text", "code", "changed"),
    [
        (OTHER, 0, 0),
        ("", 0, 0),
        (POD, 1, 1),
        (f"{OTHER}---\n{POD}", 1, 1),
        (BROKEN, 2, 0),
        (REFUSED, 2, 0),
        (f"{BROKEN}---\n{REFUSED}---\n{POD}", 2, 1),
    ],
)
def test_the_exit_code_shows_changes_and_errors(text: str, code: int, changed: int) -> None:
    got, read = printed(text)
    assert (got, read["changed"]) == (code, changed)
    assert len(read["templates"]) == changed
    fields = ["code", "severity", "path", "object", "message", "remedy", "file", "line", "column"]
    assert all(list(each) == fields for each in read["findings"])


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        ((), POD, 0),
        (("--strict",), OTHER, 0),
        (("--strict",), POD, 1),
        (("--strict",), REFUSED, 2),
        ((), REFUSED, 2),
    ],
)
def test_success_is_0_unless_an_option_asks_for_more(
    options: tuple[str, ...], text: str, code: int
) -> None:
    assert command("translate", "-f", "-", *options, stdin=text).code == code


@every_row("text", [OTHER, BROKEN, REFUSED, "\xff junk: [", "", "# only\n", "---\n"])
def test_an_untranslated_file_is_printed_byte_for_byte(text: str) -> None:
    data = text.encode("latin-1")
    _, out, _ = run("-f", "-", stdin=data)
    assert out == data


def test_yaml_keeps_comments_and_adds_the_template_at_the_end() -> None:
    code, out, err = run("-f", "-", stdin=f"{BROKEN}---\n{POD}".encode())
    text = out.decode()
    assert code == 2
    assert text.startswith(f"{BROKEN}---\n# a pod of mine\n")
    assert "  - name: main   # the only one\n" in text
    assert "\n        nvidia.com/gpu: 1" not in text
    assert "<stdin>:2: error: Pod#1: " in err
    pod, template = list(read_yaml_documents(text.removeprefix(f"{BROKEN}---\n")))
    assert template["kind"] == "ResourceClaimTemplate"
    assert template["metadata"]["namespace"] == "ml"
    (claim,) = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_equal_requests_in_a_namespace_share_a_template() -> None:
    second, third = (
        POD.replace("name: p,", "name: q,"),
        POD.replace("namespace: ml", "namespace: x"),
    )
    _, read = printed(f"{POD}---\n{second}---\n{third}")
    assert read["changed"] == 3
    assert [each["metadata"]["namespace"] for each in read["templates"]] == ["ml", "x"]
    assert len({each["metadata"]["name"] for each in read["templates"]}) == 1


def test_translating_the_output_changes_nothing() -> None:
    _, out, _ = run("-f", "-", stdin=POD.encode())
    code, again, _ = run("-f", "-", stdin=out)
    assert (code, again) == (0, out)


def test_a_template_in_the_input_is_not_added_again() -> None:
    _, out, _ = run("-f", "-", stdin=POD.encode())
    template = out.decode().rpartition("---\n")[2]
    code, read = printed(f"{POD}---\n{template}")
    assert (code, read["templates"], len(read["objects"])) == (1, [], 2)


def test_a_template_in_the_input_with_different_content_is_an_error() -> None:
    _, out, _ = run("-f", "-", stdin=POD.encode())
    template = out.decode().rpartition("---\n")[2].replace("count: 1", "count: 2")
    code, read = printed(f"{POD}---\n{template}")
    (finding,) = (e for e in read["findings"] if e["code"] == "TemplateInInputDiffers")
    assert (code, finding["severity"], read["templates"]) == (2, "error", [])
    assert finding["object"].startswith("ResourceClaimTemplate/ml/drawbridge-")


def test_files_become_documents_of_one_stream(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OTHER.rstrip("\n"))
    (tmp_path / "b.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap"}\n')
    (tmp_path / "c.yaml").write_text(f"---\n{POD}")
    code, out, _ = run("-f", str(tmp_path))
    assert code == 1
    kinds = [each["kind"] for each in read_yaml_documents(out)]
    assert kinds == ["ConfigMap", "ConfigMap", "Pod", "ResourceClaimTemplate"]


def test_a_list_in_json_is_translated_item_by_item() -> None:
    pod = read_yaml(POD)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, {"kind": 7}, pod]})
    code, out, _ = run("-f", "-", stdin=text.encode())
    assert code == 2
    items = json.loads(out.decode().removeprefix("---\n").partition("\n---\n")[0])["items"]
    assert [bool(each.get("spec", {}).get("resourceClaims")) for each in items] == [
        True,
        False,
        True,
    ]


def test_a_request_outside_a_pod_is_reported() -> None:
    text = (
        "apiVersion: example.com/v1\nkind: Farm\nmetadata: {name: f}\n"
        "spec: {worker: {resources: {limits: {nvidia.com/gpu: 1}}}}\n"
    )
    code, read = printed(text)
    assert code == 0
    (finding,) = read["findings"]
    assert finding["code"] == "RequestNotInPod"
    assert finding["object"] == "Farm/f"
    assert finding["path"] == "spec.worker.resources.limits[nvidia.com/gpu]"
    assert "nvidia.com/gpu" in finding["message"]


def test_the_facts_show_whether_a_class_or_a_plugin_serves_a_resource() -> None:
    _, read = printed(POD)
    assert "ServerUnknown" in [each["code"] for each in read["findings"]]
    cluster = str(ROOT / "examples" / "inventory")
    code, read = printed(POD, "--cluster", cluster)
    assert (code, read["changed"]) == (0, 0)
    assert [each["code"] for each in read["findings"]] == ["LeftToClass"]


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ((), 0),
        (("--kubernetes-version", "1.34"), 1),
        (("--kubernetes-version", "1.35"), 1),
        (("--kubernetes-version", "1.35", "--feature-gates", "DRAExtendedResource=true"), 0),
        (("--kubernetes-version", "1.36"), 0),
        (("--kubernetes-version", "1.36", "--feature-gates", "DRAExtendedResource=false"), 1),
        (("--kubernetes-version", "1.37"), 0),
    ],
)
@pytest.mark.parametrize("source", ["cluster", "facts"])
def test_a_class_serves_a_resource_by_version_and_gates(
    source: str, options: tuple[str, ...], changed: int, tmp_path: Path
) -> None:
    inventory = ("--cluster", str(Path(__file__).parents[2] / "examples" / "inventory"))
    facts = tmp_path / "facts.yaml"
    if source == "facts":
        facts.write_text(command("config", "facts", *inventory).out)
    where = inventory if source == "cluster" else ("--facts", str(facts))
    code, read = printed(POD, *where, *options)
    assert (code, read["changed"]) == (changed, changed)


def test_gates_that_a_version_does_not_have_are_reported_with_facts(tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("{apiVersion: drawbridge.dev/v1alpha1, kind: Facts}")
    words = ("--facts", str(facts), "--kubernetes-version", "1.2")
    assert unusable(*words) == ["KubernetesVersionUnsupported"]


def unusable(*words: str) -> list[str]:
    """Return the codes of the findings about the input that decides a translation."""
    code, out, _ = run("-f", "-", "-o", "json", *words, stdin=POD.encode())
    assert code == 2
    return [each["code"] for each in read_findings(out.decode())]


@pytest.mark.parametrize(
    ("option", "text", "code"),
    [
        ("--kubernetes-version", "1.20", "KubernetesVersionUnsupported"),
        ("--feature-gates", "Foo", "FeatureGatesUnreadable"),
        ("--feature-gates", "Foo=true", "FeatureGateUnknown"),
        ("--feature-gates", "DRAAdminAccess=false", "FeatureGateLocked"),
    ],
)
def test_invalid_options_are_reported_without_a_cluster(option: str, text: str, code: str) -> None:
    assert unusable(option, text) == [code]


@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        (["--kubernetes-version", "1.34"], True),
        (["--kubernetes-version", "1.34", "--feature-gates", "DRAConsumableCapacity=true"], False),
        (["--kubernetes-version", "1.36"], False),
        ([], False),
    ],
)
def test_a_version_alone_tells_what_it_drops(
    tmp_path: Path, options: list[str], *, dropped: bool
) -> None:
    file = tmp_path / "pod.yaml"
    limits = "{nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        f"spec: {{containers: [{{name: c, resources: {{limits: {limits}}}}}]}}\n"
    )
    code, _, err = command("translate", "-f", str(file), *options)
    told = f"{file}:1: error: Pod/p: Kubernetes 1.34 drops exactly.capacity"
    assert (code, told in err) == ((2, True) if dropped else (0, False)), err


def test_valid_versions_and_gates_need_no_cluster() -> None:
    options = ("--kubernetes-version", "1.35", "--feature-gates", "DRAExtendedResource=true")
    assert printed(POD, *options) == printed(POD)


def test_the_configuration_changes_the_translation(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    head = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
    file.write_text(f"{head}decisions: {{nativeExtendedNames: translate}}\n")
    cluster = str(Path(__file__).parents[2] / "examples" / "inventory")
    code, read = printed(POD, "--cluster", cluster, "--config", str(file))
    assert (code, read["changed"]) == (1, 1)
    file.write_text(f"{head}findings: {{ServerUnknown: enforce}}\n")
    code, read = printed(POD, "--config", str(file))
    assert (code, read["changed"]) == (2, 0)
    assert read["objects"] == [read_yaml(POD)]


def test_a_diff_has_the_format_of_patch() -> None:
    code, out, _ = run("-f", "-", "-o", "diff", stdin=POD.encode())
    text = out.decode()
    assert code == 1
    assert text.startswith("--- a/stdin.yaml\n+++ b/stdin.yaml\n@@ ")
    assert "-        nvidia.com/gpu: 1\n" in text
    assert "--- /dev/null\n+++ b/drawbridge-templates.yaml\n" in text
    assert run("-f", "-", "-o", "diff", stdin=OTHER.encode())[1] == b""


@every_row("file", LEGACY, ids=lambda file: file.stem)
def test_every_example_is_translated_once(file: Path) -> None:
    code, out, err = run("-f", str(file))
    assert "a bug" not in err
    if code == 1:
        again = run("-f", "-", stdin=out)
        assert again[:2] == (0, out)
    else:
        assert out == file.read_bytes()
        assert "[NotExpressible]" in err or "[LeftAsItIs]" in err


def test_there_is_an_example_for_every_dialect() -> None:
    assert len(LEGACY) >= 11


CONFIGURED = """\
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
targets:
- {kind: gpu, driver: gpu.nvidia.com, class: gpu.nvidia.com, sharing: memory}
legacy: {renames: {example.com/gpu: nvidia.com/gpu}}
findings: {TolerationAdded: off}
"""


def test_configuration_and_facts_files_change_the_templates(tmp_path: Path) -> None:
    """Names from a configuration are in the templates and in their hashes."""
    facts, configuration = tmp_path / "facts.yaml", tmp_path / "config.yaml"
    configuration.write_text(CONFIGURED)
    inventory = str(Path(__file__).parents[2] / "examples" / "inventory")
    words = ("--cluster", inventory, "--config", str(configuration), "-o", "yaml")
    facts.write_text(command("config", "facts", *words).out)
    pod = POD.replace("nvidia.com/gpu: 1", "example.com/gpu: 1")
    options = ("--facts", str(facts), "--config", str(configuration))
    code, read = printed(pod, *options)
    assert code == 1, read["findings"]
    assert "TolerationAdded" not in [each["code"] for each in read["findings"]]
    (template,) = read["templates"]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    claim = read["objects"][0]["spec"]["resourceClaims"][0]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    for form in ("yaml", "diff"):
        code, text, _ = run("-f", "-", *options, "-o", form, stdin=pod.encode())
        assert code == 1
        assert template["metadata"]["name"].encode() in text


SHARED = POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1\n        nvidia.com/gpumem: %d")


@pytest.mark.parametrize(("mebibytes", "code"), [(3000, 1), (300_000, 2)])
def test_claims_of_the_translation_are_judged_on_the_devices_of_a_cluster(
    mebibytes: int, code: int
) -> None:
    text = SHARED % mebibytes
    exit_code, read = printed(
        text, "--cluster", str(Path(__file__).parents[2] / "examples" / "inventory")
    )
    assert exit_code == code
    assert len(read["templates"]) == 1
    errors = [each for each in read["findings"] if each["severity"] == "error"]
    assert [each["code"] for each in errors] == ["CapacityNeverFits"] * (code == 2)
    assert all(each["path"] == "spec" for each in errors)
    # Without a cluster, nobody knows the devices.
    assert printed(text)[0] == 1


@pytest.mark.parametrize(("scheduler", "zone", "codes"), EIGHT_IN_OWNED_POOLS)
def test_claims_of_the_translation_are_judged_on_the_pools_of_the_allocator(
    scheduler: str, zone: str, codes: list[str], tmp_path: Path
) -> None:
    configuration = own_zone(tmp_path, zone)
    text = POD.replace("gpu: 1", "gpu: 8").replace(
        "spec:", f"spec:\n  schedulerName: {scheduler}", 1
    )
    inventory = str(Path(__file__).parents[2] / "examples" / "inventory")
    _, read = printed(text, "--cluster", inventory, "--config", str(configuration))
    assert len(read["templates"]) == 1
    errors = [each for each in read["findings"] if each["severity"] == "error"]
    assert [each["code"] for each in errors] == codes
    assert all(JUDGED_POOLS[scheduler] in each["message"] for each in errors)


JSON_POD = json.dumps(read_yaml(POD))
JSON_OTHER = json.dumps(read_yaml(OTHER))


@pytest.mark.parametrize("form", ["yaml", "diff", "report", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ("--config", "none.yaml"),
        ("--facts", "none.yaml"),
        ("--kubernetes-version", "1.2"),
        ("--feature-gates", "None=true"),
        ("--cluster", "none.yaml", "--kubernetes-version", "1.2"),
    ],
    ids=["configuration", "facts", "version", "gates", "version of a cluster"],
)
def test_nothing_is_printed_if_what_decides_a_translation_is_unusable(
    words: tuple[str, ...], form: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    output = ("-o", form, "--output-dir", str(folder))
    code, out, err = run("-f", "-", *words, *output, stdin=POD.encode())
    assert code == 2
    if form == "json":
        assert list(json.loads(out)) == ["findings"]
    else:
        assert (out, "error: " in err) == (b"", True)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        ([JSON_OTHER], None),
        ([f"{JSON_OTHER}\n{JSON_OTHER}"], ["ConfigMap", "ConfigMap"]),
        ([JSON_POD], ["Pod", "ResourceClaimTemplate"]),
        ([JSON_POD, JSON_OTHER], ["Pod", "ConfigMap", "ResourceClaimTemplate"]),
        (
            [
                json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [read_yaml(POD)]}),
                "",
            ],
            ["Pod", "ResourceClaimTemplate"],
        ),
    ],
    ids=["one unchanged object", "two values", "one object", "two files", "a list, and nothing"],
)
def test_json_becomes_one_document_of_json(
    files: list[str], kinds: list[str] | None, tmp_path: Path
) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"{number}.json").write_text(text)
    _, out, _ = run("-f", str(tmp_path))
    if kinds is None:
        assert out.decode() == files[0]
        return
    listed = json.loads(out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert [each["kind"] for each in listed["items"]] == kinds
    code, again, _ = run("-f", "-", stdin=out)
    assert (code, again) == (0, out)


def test_json_before_yaml_does_not_begin_the_stream(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(JSON_POD)
    (tmp_path / "b.yaml").write_text(OTHER)
    _, out, _ = run("-f", str(tmp_path))
    assert out.startswith(b"---\n{")
    kinds = [each["kind"] for each in read_yaml_documents(out)]
    assert kinds == ["Pod", "ConfigMap", "ResourceClaimTemplate"]


ORIGINAL = "drawbridge.dev/original"


def annotations(*words: str) -> YamlValue:
    pod = next(read_yaml_documents(run("-f", "-", *words, stdin=POD.encode())[1]))
    return pod["metadata"].get("annotations", {})


def test_the_annotation_with_the_original_can_be_short_or_missing() -> None:
    full, short = annotations()[ORIGINAL], annotations("--short-original")[ORIGINAL]
    assert len(short) < 0.6 * len(full)
    assert '"/spec/containers/0/resources/limits/nvidia.com~1gpu",1]' in short
    assert annotations("--no-original", "--cluster", str(ROOT / "examples" / "inventory")) == {}


@pytest.mark.parametrize("option", ["--short-original", "--readable-names"])
@pytest.mark.parametrize("text", [POD, f"{JSON_POD}\n"], ids=["yaml", "json"])
def test_every_form_can_be_undone(option: str, text: str) -> None:
    _, out, _ = run("-f", "-", option, stdin=text.encode())
    back = command("undo", "-f", "-", "-o", "json", stdin=out.decode())
    (restored,) = json.loads(back.out)["objects"]
    assert (restored.get("items") or [restored]) == [read_yaml(text)]


NAMED = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: Train.Me, namespace: ml}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: c, resources: {limits: {GPU: 1}}}]}}}
  workerGroupSpecs:
  - groupName: big
    template: {spec: {containers: [{name: c, resources: {limits: {GPU: 1}}}]}}
""".replace("GPU", "nvidia.com/gpu")


def test_readable_names_have_the_workload_the_role_and_the_devices() -> None:
    def names(text: str) -> list[str]:
        words = ("-f", "-", "-o", "json", "--readable-names")
        read = json.loads(run(*words, stdin=text.encode())[1])
        assert all(each["metadata"]["name"] in str(read["objects"]) for each in read["templates"])
        return [each["metadata"]["name"] for each in read["templates"]]

    (pod,) = names(POD)
    assert pod.rpartition("-")[0] == "p-gpu"
    assert names(POD) == [pod]
    head, worker = names(NAMED)
    assert (head.rpartition("-")[0], worker.rpartition("-")[0]) == (
        "train-me-head-gpu",
        "train-me-big-gpu",
    )
    # Other content has another name: nobody has to change a template that pods use.
    assert names(POD.replace("gpu: 1", "gpu: 2")) != [pod]
