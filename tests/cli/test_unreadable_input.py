"""What cannot be read is an error of every command that reads a cluster."""

import json
from pathlib import Path

import pytest
import yaml

from cli.commands import parser_for
from cli.served_page import serving
from tests.cli.running import command
from tests.cli.test_printable import parsers

# What the commands need besides the cluster.
NAMED = {"cel": ("device.driver != ''",), "explain": ("pod",)}
CALLS = [
    (*name, *NAMED.get(name[0], ()))
    for name, parser in (*parsers(), (("page",), parser_for(["page"], "").subparsers()["page"]))
    if any("--cluster" in each.option_strings for each in parser.options())
]
# Of each command with `-o json`: what makes it fail at once, for each option that can.
FAILING = {
    "--context": ("--context", "--kubeconfig", "/nope"),
    "--config": ("--config", "/nope"),
    "--facts": ("--facts", "/nope"),
    "--kubernetes-version": ("--kubernetes-version", "1.9"),
}
QUESTIONS = {
    "simulate": ((), ("--adjust", "a", "--count", "2"), ("--defrag", "a")),
    "explain": (("pod",), ("devices",), ("node/a",), ("deploy/a",)),
    "usage": ((), ("--changes",)),
}
FAILURES = [
    (*name, *asked, *failing, "-o", form)
    for name, parser in parsers()
    for options in [{option: each for each in parser.options() for option in each.option_strings}]
    for form in getattr(options.get("-o"), "choices", ())
    if form == "json" or (form == "yaml" and name[0] not in ("translate", "undo"))
    for option, failing in FAILING.items()
    if option in options
    for asked in QUESTIONS.get(name[0], (NAMED.get(name[0], ()),))
]
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"


def test_all_commands_with_a_cluster_are_called() -> None:
    assert {each[0] for each in CALLS} >= {"audit", "check", "explain", "page", "simulate"}


@pytest.mark.parametrize("words", CALLS, ids=lambda each: each[0])
def test_a_cluster_that_cannot_be_read_ends_with_an_error(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "serve", None)  # the page would be served without end
    files = ("-f", "examples/legacy") if words[0] in ("check", "simulate", "translate") else ()
    done = command(*words, *files, "--cluster", "/nope")
    assert done.code == 2, done
    assert "[FileUnreadable]" in done.err + done.out


@pytest.mark.parametrize("words", FAILURES, ids=" ".join)
def test_a_command_that_fails_says_why_in_the_format_that_it_is_asked_for(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    takes_files = words[0] in ("check", "simulate", "translate")
    files = ("-f", "examples/legacy") if takes_files and "--defrag" not in words else ()
    live = "--context" in words or words[0] in ("translate", "undo", "doctor", "usage")
    cluster = () if live else ("--cluster", str(tmp_path))
    done = command(*words, *files, *(() if words[:2] == ("config", "print") else cluster))
    findings = yaml.safe_load(done.out)["findings"]
    assert done.code == 2
    assert "error" in {each["severity"] for each in findings}


def test_findings_do_not_take_the_place_of_manifests() -> None:
    for name in ("translate", "undo"):
        done = command(name, "--context", "--kubeconfig", "/nope", "-o", "yaml")
        assert (done.code, done.out) == (2, "")
        assert "[ClusterUnreadable]" in done.err


def test_an_audit_has_what_cannot_be_read_among_its_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE)
    (tmp_path / "b.yaml").write_text("kind: [\n")
    done = command("audit", "--cluster", str(tmp_path), "-o", "json")
    codes = {each["code"] for each in json.loads(done.out)["findings"]}
    assert done.code == 2
    assert codes >= {"YamlSyntax"}


@pytest.mark.parametrize("name", ["audit", "doctor"])
def test_a_cluster_without_an_answer_is_an_error_of_a_comparison(name: str, tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "none")
    assert command(name, "--context", "a,b", "--kubeconfig", kubeconfig).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "-f", "-", "--cluster", "-"),
        ("check", "-f", "-", "--config", "-", "-o", "json"),
        ("audit", "--config", "-", "--cluster", "/nope", "-"),
    ],
)
def test_the_standard_input_is_for_one_option(words: tuple[str, ...]) -> None:
    done = command(*words, stdin=NODE)
    told = done.err + done.out
    assert done.code == 2
    assert "name the standard input, which can be read once" in told
    assert "Pass a file to all but one of these options." in told


def test_one_option_can_name_the_standard_input_twice() -> None:
    assert command("check", "-f", "-", "-f", "-", stdin=NODE).code == 0
