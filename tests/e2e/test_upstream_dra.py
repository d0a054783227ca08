"""How results of upstream's tests are read, and what is said of those that did not pass."""

import pytest

from drawbridge.agreement.configuration import read_configuration
from drawbridge.agreement.configuration_in_use import parse_text
from drawbridge.config.model import Configuration
from e2e.upstream import dra, real
from e2e.upstream.build import PACKAGES
from e2e.upstream.dra import BRIDGE, IN_TREE, JSON, KINDS, Result, judge, owning, read, results

REASONS = [{"part": "Feature:Kubelet", "reason": "there is no kubelet"}]


def _spec(name: str, state: str, message: str = "", label: str = "", kind: str = "It") -> JSON:
    failure = {"Failure": {"Message": message}} if message else {}
    return {
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "LeafNodeLabels": [label] if label else None,
        "ContainerHierarchyTexts": ["[sig-node] [DRA]", "control plane"],
        "ContainerHierarchyLabels": [["DRA"], None],
        "State": state,
        **failure,
    }


@pytest.mark.parametrize(
    ("spec", "result"),
    [
        (_spec("works", "passed"), Result("control plane works", "passed")),
        (_spec("breaks", "failed", "why"), Result("control plane breaks", "failed", "why")),
        (
            _spec("runs", "skipped", label="Feature:Kubelet"),
            Result("control plane runs", "skipped", "there is no kubelet"),
        ),
        (
            _spec("runs", "skipped", "requires 9 nodes"),
            Result("control plane runs", "skipped", "requires 9 nodes"),
        ),
        (_spec("runs", "skipped"), Result("control plane runs", "failed", "no reason")),
    ],
)
def test_a_test_has_a_state_and_a_reason_unless_it_passed(spec: JSON, result: Result) -> None:
    assert results([{"SpecReports": [spec]}], REASONS) == [result]


def test_steps_around_tests_are_no_tests() -> None:
    assert results([{"SpecReports": [_spec("", "passed", kind="ReportAfterSuite")]}], []) == []


def test_only_failures_without_an_argument_count(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [{"part": "shared pools", "kinds": [BRIDGE], "reason": "they are not owned"}]
    monkeypatch.setattr(dra, "read", lambda _: table)
    made = [
        Result("allocates from shared pools", "failed", "no device"),
        Result("allocates", "passed"),
        Result("runs", "skipped", "there is no kubelet"),
    ]
    said: list[str] = []
    assert judge(BRIDGE, made, said.append) == 0
    assert said == [
        "DIFFERS  bridge  allocates from shared pools: they are not owned",
        "SKIP  bridge  1 tests: there is no kubelet",
        "bridge: 1 failed, 1 passed, 1 skipped",
    ]
    said.clear()
    assert judge(IN_TREE, made, said.append) == 1
    assert said[0] == "FAIL  in-tree  allocates from shared pools: no device"


def test_tables_have_reasons_and_kinds_that_exist() -> None:
    assert all(each["part"] and each["reason"] for each in read("skipped.yaml"))
    for difference in read("differences.yaml"):
        assert difference["part"]
        assert difference["reason"]
        assert set(difference["kinds"]) <= set(KINDS)


def test_each_image_has_programs_that_are_built() -> None:
    needed = {program for programs in real.PROGRAMS.values() for program in programs.values()}
    assert needed == PACKAGES.keys() - {"ginkgo"}
    assert real.short("example.test/e2e/busybox:1.0-1") == "busybox"


def test_where_no_nodes_can_run_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dra, "lacks", lambda: "root is needed")
    assert dra.main(["bridge", "--nodes=real"]) == 0
    assert capsys.readouterr().out == "SKIP  bridge: root is needed\n"


def test_the_configuration_owns_each_driver_that_publishes() -> None:
    parsed = parse_text(
        owning(["dra-1.k8s.io", "dra-2.k8s.io"]), "configuration", read_configuration
    )
    assert isinstance(parsed, Configuration)
    assert [each.driver for each in parsed.owned_pools] == ["dra-1.k8s.io", "dra-2.k8s.io"]
