"""`drawbridge check` of what drivers and administrators publish: findings and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.judge.slices import expressions
from tests.cli.running import command, read_findings
from tests.tables import every_row

CLEAN = """\
# a complete pool
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: a
spec:
  driver: d.io
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
  - name: x
    attributes:
      numa: {int: 0}
"""
WARNED = CLEAN + "      d.io/numa: {int: 0}\n"
REFUSED = CLEAN.replace("name: x", "name: X")
UNDECODABLE = CLEAN.replace("int: 0", "int: zero")
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: "true"}}]
  extendedResourceName: gpu
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n"


def check(*arguments: str, stdin: str | bytes = b"") -> tuple[int, str]:
    return command("check", "--strict", *arguments, stdin=stdin)[:2]


def findings(*arguments: str, stdin: str | bytes = b"") -> tuple[int, list[dict[str, Any]]]:
    code, out = check(*arguments, "-o", "json", stdin=stdin)
    return code, read_findings(out)


def test_slices_that_no_expression_reads_are_checked_without_their_views(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(expressions, "device_variables")
    assert check("-f", "-", stdin=CLEAN)[0] == 0


@pytest.mark.parametrize(
    ("text", "code", "codes"),
    [
        (CLEAN, 0, []),
        (WARNED, 1, ["NameTwice"]),
        (REFUSED, 2, ["Malformed"]),
        (UNDECODABLE, 2, ["WrongType"]),
        (CLASS, 2, ["Malformed"]),
        (f"{WARNED}---\n{CLASS}", 2, ["NameTwice", "Malformed"]),
        (f"{CLEAN}---\n{POD}", 0, []),
        (NODE, 0, ["NothingToJudge"]),
        ("", 0, ["NothingToJudge"]),
    ],
    ids=[
        "clean",
        "a warning",
        "an error",
        "a slice that cannot be decoded",
        "a class",
        "the highest severity",
        "a pod without devices",
        "no object to check",
        "an empty file",
    ],
)
def test_the_exit_code_is_the_worst_finding(
    tmp_path: Path, text: str, code: int, codes: list[str]
) -> None:
    (tmp_path / "f.yaml").write_text(text)
    got, printed = findings("-f", str(tmp_path / "f.yaml"))
    assert (got, [each["code"] for each in printed]) == (code, codes)


def test_warnings_are_success_without_strict() -> None:
    assert command("check", "-f", "-", stdin=WARNED).code == 0


def test_info_findings_are_counted_and_printed_on_request() -> None:
    told = "1 info finding not shown; -v prints it\nlooked at no object: no errors or warnings\n"
    assert check("-f", "-") == (0, told)
    assert "[NothingToJudge]" in check("-f", "-", "-v")[1]
    assert check("-f", "-", "-q") == (0, "")


def test_text_begins_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(WARNED)
    code, out = check("-f", str(path))
    assert code == 1
    first, remedy, _ = out.splitlines()
    assert first.startswith(
        f"{path}:14: warning: ResourceSlice/a spec.devices[0].attributes[d.io/n"
    )
    assert first.endswith("[NameTwice]")
    assert remedy.startswith("    ")


def test_findings_come_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(CLASS)
    (tmp_path / "a.yaml").write_text(REFUSED.replace("driver: d.io", "driver: d_io"))
    _, out = check("-f", str(tmp_path / "b.yaml"), "-f", str(tmp_path / "a.yaml"))
    places = [line.split(": ")[0].rpartition("/")[2] for line in out.splitlines()[:-1:2]]
    assert places == ["b.yaml:6", "a.yaml:7", "a.yaml:11"]


def test_an_invalid_document_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(f"{REFUSED}---\na: [\n---\n{CLASS}")
    code, printed = findings("-f", str(tmp_path))
    assert code == 2
    assert {"ResourceSlice/a", "DeviceClass/gpu"} < {each["object"] for each in printed}
    assert len(printed) == 3


def test_slices_of_one_pool_can_be_in_several_files(tmp_path: Path) -> None:
    two = CLEAN.replace("resourceSliceCount: 1", "resourceSliceCount: 2")
    (tmp_path / "a.yaml").write_text(two)
    assert findings("-f", str(tmp_path))[0] == 2
    (tmp_path / "b.yaml").write_text(
        two.replace("name: a", "name: b").replace("name: x", "name: z")
    )
    assert findings("-f", str(tmp_path)) == (0, [])


def test_standard_input_is_read() -> None:
    code, printed = findings("-f", "-", stdin=REFUSED)
    assert (code, [each["path"] for each in printed]) == (2, ["spec.devices[0].name"])


def test_the_items_of_a_list_are_checked() -> None:
    spec = {
        "driver": "d.io",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
    }
    items = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }
        for name in "ab"
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    code, out = check("-f", "-", stdin=text)
    assert code == 2
    assert "PoolIncomplete" in out
    line = next(i for i, each in enumerate(text.splitlines(), 1) if "resourceSliceCount" in each)
    assert out.startswith(f"<stdin>:{line}: error: ResourceSlice/a spec.pool.resourceSliceCount:")


def test_the_last_of_several_slices_with_one_name_is_checked() -> None:
    code, out = check("-f", "-", stdin=f"{CLEAN}---\n{WARNED}".encode())
    assert code == 1
    assert [line.split(":")[1] for line in out.splitlines()[:-1:2]] == ["19", "28"]


def test_the_configuration_sets_severities(tmp_path: Path) -> None:
    head = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
    path = tmp_path / "config.yaml"
    for policy, expected in (("enforce", 2), ("warn", 1), ("off", 0)):
        path.write_text(f"{head}findings: {{NameTwice: {policy}}}\n")
        assert findings("-f", "-", "--config", str(path), stdin=WARNED)[0] == expected


def test_the_configuration_sets_the_compatibility_of_devices_without_groups(tmp_path: Path) -> None:
    use = "consumesCounters: [{counterSet: s, counters: {c: {value: 1}}"
    devices = f"""
  - name: x
    {use}, compatibilityGroups: [g]}}]
  - name: z
    {use}}}]
"""
    first = CLEAN.replace("Count: 1", "Count: 2").split("  devices:")[0]
    sets = (
        first.replace("name: a", "name: b")
        + "  sharedCounters: [{name: s, counters: {c: {value: 4}}}]"
    )
    text = f"{first}  devices:{devices}---\n{sets}\n".encode()
    code, printed = findings("-f", "-", stdin=text)
    assert code == 1
    assert {each["code"] for each in printed} == {"GroupsMixed", "GroupsAlone"}
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nunsetGroups: all\n")
    assert findings("-f", "-", "--config", str(path), stdin=text) == (0, [])


def test_an_invalid_configuration_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\nplace: x\n")
    code, printed = findings("-f", "-", "--config", str(path), stdin=CLEAN)
    assert code == 2
    assert printed[0]["object"] == "Configuration"


def test_a_missing_file_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(WARNED)
    code, printed = findings("-f", str(tmp_path / "none"), "-f", str(tmp_path / "f.yaml"))
    assert code == 2
    assert [each["code"] for each in printed] == ["FileUnreadable", "NameTwice"]


@every_row(
    "data", [b"\x00\xff", b"{", b"[1, 2", b"\xef\xbb\xbf", b"- a\n- b\n", b"kind: ResourceSlice\n"]
)
def test_arbitrary_bytes_do_not_fail(data: bytes) -> None:
    code, _ = findings("-f", "-", stdin=data)
    assert code in (0, 1, 2)


RULED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair, namespace: team}
spec:
  metadata:
    annotations:
      drawbridge.dev/rules: '{"apiVersion":"drawbridge.dev/v1alpha1","kind":"Rules","near":[
        {"requests":["gpu","nic"],"attributes":["resource.kubernetes.io/pcieRoot"]}]}'
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  generateName: pair-
  annotations: {drawbridge.dev/rules: "{}"}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


def test_errors_in_rules_have_the_line_of_the_annotation() -> None:
    code, out = check("-f", "-", stdin=RULED)
    assert code == 2
    first, second = (line for line in out.splitlines() if line.startswith("<stdin>:"))
    assert first.startswith("<stdin>:7:")
    assert "RuleNamesNoRequest" in first
    assert "near[0]: the claim has no request nic" in first
    assert second.startswith("<stdin>:18:")
    assert "RulesUnreadable" in second
    reported = findings("-f", "-", stdin=RULED)[1]
    assert [(each["object"], each["path"]) for each in reported] == [
        (
            "ResourceClaimTemplate/team/pair",
            "spec.metadata.annotations[drawbridge.dev/rules]",
        ),
        ("ResourceClaim#2", "metadata.annotations[drawbridge.dev/rules]"),
    ]


def test_valid_rules_have_no_findings() -> None:
    valid = RULED.partition("---")[0].replace('"nic"', '"gpu"').replace('["gpu","gpu"]', '["gpu"]')
    assert findings("-f", "-", stdin=valid) == (0, [])


# --- ignored fields ---


def test_an_ignored_field_names_the_field_that_is_meant() -> None:
    misspelt = CLEAN.replace("attributes:", "atributes:")
    code, (reported,) = findings("-f", "-", stdin=misspelt)
    assert (code, reported["code"], reported["line"]) == (1, "FieldIgnored", 12)
    assert reported["path"] == "spec.devices[0].atributes"
    assert reported["message"].endswith("is ignored; did you mean attributes?")


def test_equal_ignored_fields_of_a_list_are_counted() -> None:
    devices = "".join(f"  - {{name: d{i}, taint: []}}\n" for i in range(3))
    code, (reported,) = findings("-f", "-", stdin=(CLEAN + devices).encode())
    assert code == 1
    assert reported["message"] == "unknown field taint in 3 places is ignored; did you mean taints?"
    assert reported["path"] == "spec.devices[1].taint"


def test_a_missing_field_names_the_misspelt_one() -> None:
    code, reported = findings("-f", "-", stdin=CLEAN.replace("driver:", "drivr:").encode())
    assert code == 2
    assert [each["code"] for each in reported] == ["FieldMissing", "FieldIgnored"]
    assert reported[0]["message"] == "driver is required; is it the unknown field drivr?"


def test_opaque_parameters_and_metadata_have_any_field() -> None:
    claim = CLAIM.replace(
        "requests:",
        "config: [{opaque: {driver: new.io, parameters: {anyField: 1}}}]\n    requests:",
    ).replace("metadata: {name: c", "metadata: {uid: u, anyField: x, name: c")
    claim = claim.replace("EXPRESSION", "true")
    assert "anyField: x" in claim
    assert findings("-f", "-", stdin=claim)[1] == []


# --- unreadable objects ---

HALF = CLEAN.replace("resourceSliceCount: 1", "resourceSliceCount: 2")


def test_an_unreadable_slice_does_not_make_its_pool_incomplete() -> None:
    other = HALF.replace("name: a", "name: b").replace("int: 0", "int: zero")
    code, reported = findings("-f", "-", stdin=f"{HALF}---\n{other}".encode())
    assert (code, [each["code"] for each in reported]) == (2, ["WrongType"])
    elsewhere = other.replace("name: p,", "name: q,")
    _, reported = findings("-f", "-", stdin=f"{HALF}---\n{elsewhere}".encode())
    assert [each["code"] for each in reported] == ["PoolIncomplete", "WrongType"]


def test_an_unreadable_object_does_not_hide_findings_about_others() -> None:
    other = WARNED.replace("name: a", "name: b").replace("{name: p", "{name: q")
    text = f"{UNDECODABLE}---\n{other}---\n{CLASS}"
    code, reported = findings("-f", "-", stdin=text)
    assert (code, [each["code"] for each in reported]) == (
        2,
        ["WrongType", "NameTwice", "Malformed"],
    )


# --- claims ---

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
        selectors: [{cel: {expression: 'EXPRESSION'}}]
"""
GPU_CLASS = CLASS.replace("  extendedResourceName: gpu\n", "")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "d.io"', []),
        ('device.driver == "d.io" &&', ["ExpressionRefused"]),
        ('device.attributes["d.io"].nuna == 0', ["ReadNowhere"]),
    ],
)
def test_selectors_of_claims_are_tried_on_the_devices(expression: str, expected: list[str]) -> None:
    claim = CLAIM.replace("EXPRESSION", expression.replace("'", "''"))
    text = f"{CLEAN}---\n{GPU_CLASS}---\n{claim}"
    _, reported = findings("-f", "-", stdin=text)
    about = [each["code"] for each in reported if each["object"] == "ResourceClaim/c"]
    assert [each for each in about if each in expected] == expected, reported
    assert bool(about) is bool(expected), reported


# --- the summary ---


def test_the_last_line_says_what_was_looked_at() -> None:
    text = f"{CLEAN}---\n{GPU_CLASS}---\n{POD}"
    told = "looked at 1 ResourceSlice, 1 DeviceClass, 1 Pod: no findings\n"
    assert check("-f", "-", stdin=text) == (0, told)
    assert check("-f", "-", "-q", stdin=text) == (0, "")
    out = check("-f", "-", stdin=f"{WARNED}---\n{CLASS}".encode())[1]
    assert out.endswith("looked at 1 ResourceSlice, 1 DeviceClass: 1 error, 1 warning\n")


def test_what_is_wrong_in_the_cluster_alone_is_not_reported(tmp_path: Path) -> None:
    others = WARNED.replace("name: a", "name: b").replace("{name: p", "{name: q")
    (tmp_path / "cluster.yaml").write_text(f"{others}---\n{CLASS}")
    words = ("-f", "-", "--cluster", str(tmp_path / "cluster.yaml"))
    assert findings(*words, stdin=f"{CLEAN}---\n{GPU_CLASS.replace('gpu', 'npu')}") == (0, [])
