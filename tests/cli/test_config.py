"""`drawbridge config` prints the configuration, or all errors in it."""

import json
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from cli.diagnosis import codes as diagnosis_codes
from cli.input import codes as input_codes
from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config import codes as configuration_codes
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.documents import codes as document_codes
from drawbridge.finding import EXPLAINED
from tests.cli.running import command
from tests.tables import every_row, read_yaml

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "configuration.yaml"
HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"


run = partial(command, "config")


def test_without_a_file_the_defaults_are_printed() -> None:
    code, out, err = run("print")
    assert (code, err) == (0, "")
    assert accept_configuration(read_yaml(out), {}) == Configuration()


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_printed_configuration_can_be_read_again(form: str) -> None:
    code, first, _ = run("print", "--config", str(EXAMPLE), "-o", form)
    assert code == 0
    again, second, _ = run("print", "--config", "-", "-o", form, stdin=first.encode())
    assert (again, second) == (0, first)


def test_the_example_has_every_supported_field() -> None:
    _, out, _ = run("print", "-o", "json")
    assert set(read_yaml(EXAMPLE.read_text("utf-8"))) == set(json.loads(out))


def test_the_schema_is_valid_and_accepts_the_example() -> None:
    code, out, err = run("schema")
    assert (code, err) == (0, "")
    validator = jsonschema.Draft202012Validator(json.loads(out))
    validator.check_schema(validator.schema)
    assert validator.is_valid(read_yaml(EXAMPLE.read_text("utf-8")))
    assert not validator.is_valid({})


def test_every_error_is_printed_with_its_line() -> None:
    text = HEAD + "placment: native\nunsetGroups: alone\nstrategy:\n  default: 5\n"
    code, out, err = run("print", "--config", "-", stdin=text.encode())
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith(" ")]
    assert [line.partition(": ")[0] for line in lines] == ["<stdin>:3", "<stdin>:6"]
    assert "[FieldUnknown]" in lines[0]
    assert "[WrongType]" in lines[1]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_errors_are_printed_in_the_output_format(form: str) -> None:
    text = HEAD + "placment: native\n"
    code, out, err = run("print", "--config", "-", "-o", form, stdin=text.encode())
    assert (code, err) == (2, "")
    (finding,) = read_yaml(out)["findings"]
    fields = ["code", "severity", "path", "object", "message", "remedy", "file", "line", "column"]
    assert list(finding) == fields
    assert (finding["code"], finding["path"]) == ("FieldUnknown", "placment")


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "---\n---\n", HEAD + "---\n" + HEAD],
    ids=["empty", "comment", "two empty", "two"],
)
def test_a_file_must_contain_one_configuration(text: str) -> None:
    code, _, err = run("print", "--config", "-", stdin=text.encode())
    assert code == 2
    assert "[ConfigurationNotOne]" in err


def test_comments_and_empty_documents_are_ignored() -> None:
    text = f"# a\n---\n{HEAD}...\n---\n# b\n"
    assert run("print", "--config", "-", stdin=text.encode())[0] == 0


@pytest.mark.parametrize("name", ["no-such-file", "examples/no/such"])
def test_a_file_that_cannot_be_opened_is_a_finding(name: str) -> None:
    code, _, err = run("print", "--config", name)
    assert code == 2
    assert "[FileUnreadable]" in err


@every_row(
    "data",
    [b"\0", b"\xff\xfe", b"a: [", b"a: &a [*a]", b"{" * 5000, b"a: 1\na: 2\n", b"!!python/none"],
    ids=repr,
)
def test_arbitrary_bytes_give_findings(data: bytes) -> None:
    code, out, err = run("print", "--config", "-", stdin=data)
    assert (code, out) == (2, "")
    assert err.startswith("<stdin>:")


def test_an_unquoted_off_disables_a_finding() -> None:
    name = ACCEPTED_NAMES[0]
    text = f"{HEAD}findings: {{{name}: off}}\n"
    code, out, _ = run("print", "--config", "-", stdin=text.encode())
    assert code == 0
    assert read_yaml(out)["findings"] == {name: "off"}


WITHOUT_POLICY = (document_codes, configuration_codes, input_codes, diagnosis_codes)


def test_policies_accept_the_codes_about_clusters_but_not_those_about_files() -> None:
    without_policy = {name for module in WITHOUT_POLICY for name in module.CODES}
    assert set(ACCEPTED_NAMES) == set(EXPLAINED) - without_policy


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: drawbridge-config
data:
  config.yaml: |
    # A comment.
    apiVersion: drawbridge.dev/v1alpha1
    kind: Configuration
    {setting}
"""
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\n"


@pytest.mark.parametrize("before", ["", DEPLOYMENT], ids=["alone", "beside other objects"])
def test_a_config_map_is_read_like_its_configuration(before: str) -> None:
    text = before + CONFIG_MAP.format(setting="scope: {rollout: {percent: 5}}")
    code, out, err = run("print", "--config", "-", stdin=text.encode())
    assert (code, err) == (0, "")
    assert read_yaml(out)["scope"]["rollout"] == {"percent": 5}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (CONFIG_MAP.format(setting="placment: native"), "<stdin>:10: "),
        (DEPLOYMENT + CONFIG_MAP.format(setting="placment: native"), "<stdin>:14: "),
        (CONFIG_MAP.format(setting="placement: ["), "<stdin>:10: "),
        # The lines of the configuration are not lines of this file.
        (
            json.dumps(read_yaml(CONFIG_MAP.format(setting="placment: native"))),
            "<stdin>:1: ",
        ),
    ],
    ids=["literal block", "second document", "unreadable block", "JSON"],
)
def test_errors_in_a_config_map_have_the_position_in_the_file(text: str, place: str) -> None:
    code, _, err = run("print", "--config", "-", stdin=text.encode())
    assert code == 2
    assert err.startswith(place), err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nkind: ConfigMap\ndata: {other: a}\n", "has no key config.yaml"),
        (CONFIG_MAP.format(setting="") + "---\n" + CONFIG_MAP.format(setting=""), "found 2"),
        (CONFIG_MAP.format(setting="") + "---\n" + HEAD, "found 2 documents"),
    ],
    ids=["other key", "two ConfigMaps", "ConfigMap and Configuration"],
)
def test_a_file_without_exactly_one_configuration_is_an_error(text: str, message: str) -> None:
    code, _, err = run("print", "--config", "-", stdin=text.encode())
    assert code == 2
    assert message in err


def test_the_configuration_of_the_manifests_is_read() -> None:
    code, _, err = run("print", "--config", str(ROOT / "manifests/base/configuration.yaml"))
    assert (code, err) == (0, "")


def test_a_folder_is_no_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    code, out, err = run("print", "--config", str(tmp_path))
    assert (code, out) == (2, "")
    assert "a folder; name the file with the Configuration" in err


def test_a_document_that_is_no_object_is_named_so() -> None:
    code, _, err = run("print", "--config", "-", stdin=b"hello")
    assert code == 2
    assert 'the document must be an object, not "hello"' in err
