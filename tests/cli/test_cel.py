"""`drawbridge cel` evaluates a selector on devices, or a batch of selectors."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.cli.running import command
from tests.tables import every_row

ROOT = Path(__file__).parent.parent.parent
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: pool-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: a}}
    capacity: {memory: {value: 40Gi}}
  - name: gpu-1
    attributes: {model: {string: b}, extra: {bool: true}}
"""
VERDICT = {
    "compile", "admitted", "new_compile", "result", "error_kind", "error", "error_position",
    "cost", "estimated_max_cost",
}  # fmt: skip


run = partial(command, "cel")


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "slices.yaml"
    path.write_text(SLICE)
    return str(path)


def test_the_matching_devices_are_counted_and_named(inventory: str) -> None:
    source = 'device.attributes["gpu.example.com"].model == "a"'
    matches = ["1 of 2 devices matches", "  gpu.example.com/pool-1/gpu-0"]
    code, out, err = run(source, "--inventory", inventory)
    assert (code, err) == (0, "")
    assert out.splitlines() == matches
    assert run(source, "--inventory", inventory, "-q")[1].splitlines() == matches[:1]


def test_no_match_is_explained_by_terms_and_values(inventory: str) -> None:
    own = 'device.attributes["gpu.example.com"].model'
    code, out, _ = run(f'device.driver != "x" && {own} == "c"', "--inventory", inventory)
    assert code == 0
    assert out.splitlines() == [
        "0 of 2 devices match",
        '  2 of 2 devices: device.driver != "x"',
        f'  0 of 2 devices: {own} == "c"',
        '  gpu.example.com/model: "a" (1), "b" (1)',
    ]
    none = run('"x" in device.attributes["gpu.example.com"]', "--inventory", inventory)[1]
    assert none.splitlines()[0] == "0 of 2 devices match"


def test_each_device_has_a_line_with_verbose(inventory: str) -> None:
    source = 'device.attributes["gpu.example.com"].model == "a"'
    code, out, _ = run(source, "--inventory", inventory, "-v")
    assert code == 0
    assert out.splitlines() == [
        "gpu.example.com/pool-1/gpu-0: true",
        "gpu.example.com/pool-1/gpu-1: false",
        "1 of 2 devices matches",
    ]


def test_an_error_has_a_caret_under_its_position(inventory: str) -> None:
    source = 'device.attributes["gpu.example.com"].extra'

    code, out, _ = run(source, "--inventory", inventory)

    assert code == 1
    assert out.splitlines() == [
        "1 of 2 devices matches",
        "  gpu.example.com/pool-1/gpu-1",
        "1 of 2 devices fails (gpu.example.com/pool-1/gpu-0): no such key: extra",
        f"  {source}",
        f"  {' ' * source.index('.extra')}^",
    ]


def many(number: int) -> str:
    """Return a slice in which every second device has no model."""
    devices = "".join(
        f"  - {{name: g{i}, attributes: {{model: {{string: a}}}}}}\n  - {{name: h{i}}}\n"
        for i in range(number)
    )
    return SLICE.partition("  - name")[0] + devices


def test_errors_are_grouped_by_cause_and_long_lists_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text(many(30))
    source = 'device.attributes["gpu.example.com"].model == "a"'
    code, out, _ = run(source, "--inventory", str(path))
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "30 of 60 devices match"
    assert lines[21] == "  and 10 more devices; -v prints each device"
    cause = "30 of 60 devices fail: no such key: model, for example gpu.example.com/pool-1/h0"
    assert lines[22] == cause
    assert len(lines) == 25
    assert len(run(source, "--inventory", str(path), "-v")[1].splitlines()) == 60 + 1 + 3


def test_json_has_every_device_with_its_error(inventory: str) -> None:
    code, out, _ = run(
        'device.attributes["gpu.example.com"].extra', "--inventory", inventory, "-o", "json"
    )

    assert code == 1
    assert json.loads(out) == {
        "compile": "ok",
        "admitted": True,
        "error": None,
        "devices": [
            {
                "driver": "gpu.example.com",
                "pool": "pool-1",
                "device": "gpu-0",
                "result": "error",
                "error": "no such key: extra",
            },
            {
                "driver": "gpu.example.com",
                "pool": "pool-1",
                "device": "gpu-1",
                "result": True,
                "error": None,
            },
        ],
    }


def test_a_compile_error_exits_with_2_and_prints_a_caret() -> None:
    code, out, err = run('device.driver = "x"')

    assert (code, out) == (2, "")
    assert "^" in err


def test_a_compile_error_is_printed_as_json() -> None:
    code, out, _ = run("device.nope", "-o", "json")

    assert code == 2
    shown = json.loads(out)
    assert (shown["compile"], shown["admitted"], shown["devices"]) == ("error", False, [])
    assert "nope" in shown["error"]


def test_a_selector_that_only_stored_objects_may_have_is_a_warning() -> None:
    code, _, err = run('device.attributes["d"].x.includes("a")')

    assert code == 0
    assert "the API server rejects new objects with this selector" in err


def test_an_unreadable_inventory_exits_with_2(tmp_path: Path) -> None:
    code, _, err = run("true", "--inventory", str(tmp_path / "nowhere.yaml"))

    assert code == 2
    assert "nowhere.yaml" in err


def test_a_batch_prints_one_result_per_line() -> None:
    lines = [
        {"device": {"driver": "d", "attributes": {"a": {"int": 1}}}, "expression": "true"},
        {"device": {"driver": "d"}, "expression": 'device.attributes["d"].a == 1'},
        {"device": {"driver": "d"}, "expression": "device.x"},
    ]

    code, out, _ = run("--batch", "-", stdin="\n".join(map(json.dumps, lines)).encode())

    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [answer["result"] for answer in answers] == [True, "error", None]
    assert [answer["error_kind"] for answer in answers] == [None, "no_such_key", "undefined_field"]
    assert answers[2]["error_position"] == [1, 7]
    assert all(set(answer) == VERDICT for answer in answers)


@every_row(
    "line",
    [
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"expression": 1}',
        b'{"expression": "true", "list_attributes": "maybe"}',
        b'{"expression": "true", "device": {"attributes": {"a": {"int": "x"}}}}',
        b'{"expression": "true", "device": {"capacity": {"a": "lots"}}}',
        b'{"expression": "true", "device": {"capacity": {"a": {}}}}',
        b'{"expression": "true", "device": {"attributes": {"a": {"int": 9223372036854775808}}}}',
        b'{"expression": "\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_line_gets_an_error_and_the_next_lines_are_evaluated(line: bytes) -> None:
    code, out, _ = run("--batch", "-", stdin=line + b'\n{"expression": "true"}\n')

    bad, good = (json.loads(each) for each in out.splitlines())
    assert code == 2
    assert bad["compile"] == "error"
    assert set(bad) == VERDICT
    assert good["result"] is True


def test_the_result_depends_on_the_kubernetes_version() -> None:
    line = json.dumps({"expression": 'device.attributes["d"].s.includes("a")'}).encode()

    answers = {
        version: json.loads(run("--batch", "-", "--kubernetes-version", version, stdin=line)[1])
        for version in ("1.34", "1.35", "1.36", "1.37")
    }

    assert [answers[version]["compile"] for version in answers] == ["error", "error", "ok", "ok"]


def test_the_default_version_is_the_newest() -> None:
    line = json.dumps({"expression": '"ab".lastIndexOf("", 5) == 2'}).encode()

    answers = [
        run("--batch", "-", *options, stdin=line)
        for options in ((), ("--kubernetes-version", "1.37"), ("--kubernetes-version", "1.36"))
    ]

    assert answers[0] == answers[1] != answers[2]


def test_results_of_worker_processes_are_printed_in_order() -> None:
    # Every third sum is wrong. A malformed line comes after the first chunks.
    lines = [f'{{"expression": "{n} + 1 == {n + (n % 3 > 0)}"}}' for n in range(300)]
    lines[250] = "no JSON"
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "cel", "--batch", "-"],
        input="\n".join(lines).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, b"")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [n % 3 > 0 for n in range(300)]
    assert answers.pop(250)["error_kind"] == "input"
    del wanted[250]
    assert [answer["result"] for answer in answers] == wanted


def test_a_missing_batch_file_exits_with_2(tmp_path: Path) -> None:
    code, out, err = run("--batch", str(tmp_path / "nowhere"))

    assert (code, out) == (2, "")
    assert "nowhere" in err


@pytest.mark.parametrize("arguments", [(), ("true", "--batch", "-")])
def test_an_expression_and_a_batch_are_mutually_exclusive(arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)

    assert code == 2
    assert "--batch" in err
