"""The public CEL conformance tests pass, except for those that need protobuf messages.

Those that Kubernetes does not pass either must fail.
"""

from pathlib import Path

from drawbridge.cel.errors import CompileError, EvaluationError
from tests.cel import spec
from tests.tables import read_yaml

SCOPE = read_yaml((Path(__file__).parent / "cases" / "spec_scope.yaml").read_text())
# Texts that show that a test needs a protobuf message, enum or extension.
MARKS = ("TestAllTypes", "message_type", "object_value", "NullValue")


def _listed(*parts: str) -> set[str]:
    return {
        f"{entry['file']}/{entry['section']}/{name}"
        for part in parts
        for entry in SCOPE[part]
        for name in entry["tests"]
    }


def test_every_test_in_scope_passes() -> None:
    listed = _listed(*SCOPE)
    in_scope = [test for test in spec.tests() if test.name not in listed]

    failed = [
        f"{test.name}: {difference}" for test in in_scope if (difference := _wrong(test.plain))
    ]

    assert failed == []
    assert len(in_scope) > 1500


def test_each_test_that_kubernetes_does_not_pass_fails() -> None:
    tests = {test.name: test for test in spec.tests()}

    assert [name for name in _listed("newer", "deviating") if not _wrong(tests[name].plain)] == []


def test_each_excluded_test_needs_a_protobuf_message() -> None:
    tests = {test.name: test for test in spec.tests()}
    for entry in SCOPE["excluded"]:
        for name in entry["tests"]:
            shown = str(tests["/".join((entry["file"], entry["section"], name))].plain)

            assert any(mark in shown for mark in MARKS), f"{name} needs no message"


def _wrong(plain: spec.Plain) -> str:
    """Return the error in the result of a test, or "" if it passes."""
    try:
        actual, deduced = spec.answer(plain)
    except (CompileError, EvaluationError) as error:
        return "" if "eval_error" in plain else f"{error}"
    if "eval_error" in plain:
        return f"{actual!r} is no error"
    if "typed_result" in plain:
        return _wrong_type(plain["typed_result"], actual, deduced)
    expected = spec.value(plain["value"]) if "value" in plain else True
    return "" if spec.same(expected, actual) else f"{actual!r}, not {expected!r}"


def _wrong_type(expected: spec.Plain, actual: object, deduced: object) -> str:
    expected_type = spec.type_(expected["deduced_type"])
    if deduced != expected_type:
        return f"of type {deduced}, not {expected_type}"
    if "result" in expected and not spec.same(spec.value(expected["result"]), actual):
        return f"{actual!r}, not {expected['result']!r}"
    return ""
