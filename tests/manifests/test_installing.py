"""docs/installing.md names values, components and labels that exist, in five commands."""

import re
import shlex
from pathlib import Path

import pytest

from tests.manifests import rendering
from tests.manifests.rendering import CHART, MANIFESTS, ROOT, Json
from tests.tables import read_yaml, read_yaml_documents

PAGE = (ROOT / "docs" / "installing.md").read_text("utf-8")
VALUES: Json = read_yaml((CHART / "values.yaml").read_text("utf-8"))


def read_section(title: str) -> str:
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert match is not None, title
    return match[1]


def read_commands(title: str) -> list[str]:
    """Return the commands of the first block of a section."""
    block = re.search(r"```console cluster\n(.*?)```", read_section(title), re.DOTALL)
    assert block is not None, title
    return re.findall(r"^\$ (.*)$", block[1], re.MULTILINE)


def has_value(path: str) -> bool:
    value: object = VALUES
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def test_at_most_five_commands_lead_to_a_translated_pod() -> None:
    commands = read_commands("First install")
    assert len(commands) <= 5
    assert commands[0].startswith("helm install drawbridge manifests/chart/drawbridge ")
    assert any("drawbridge.dev/translate=enforce" in each for each in commands)


def test_the_options_of_the_first_command_are_accepted() -> None:
    command = read_commands("First install")[0].replace("<your registry>", "registry.example")
    words = [word for word in shlex.split(command)[2:] if word != "--create-namespace"]
    words[1] = str(ROOT / words[1])
    text = rendering.run("helm", "template", *words)
    images = set(re.findall(r'image: "(\S+)"', text))
    assert images == {f"registry.example/drawbridge:{rendering.read_version()}"}
    with pytest.raises(AssertionError, match="repositry"):
        rendering.run("helm", "template", *words, "--set=image.repositry=a")


def test_every_component_has_a_row_and_its_values_exist() -> None:
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (.*?) \|", read_section("Change the settings"), re.MULTILINE
    )
    components = {each.name for each in (MANIFESTS / "components").iterdir()}
    assert {name for name, _ in rows} == components
    for name, values in rows:
        named = re.findall(r"`([\w.]+)(?::[^`]*)?`", values)
        assert named, name
        for path in named:
            assert has_value(path), path


def test_uninstalling_selects_every_webhook_configuration_and_no_other(tmp_path: Path) -> None:
    selectors = [
        re.search(r"-l (\S+)=(\S+)", command)
        for command in read_commands("Uninstall")
        if "webhookconfigurations" in command
    ]
    (selector,) = selectors
    assert selector is not None
    values = {"judge": {"enabled": True}}
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    objects = [each for each in rendering.render_chart(values, tmp_path) if each["kind"] in kinds]
    assert len(objects) == 3
    for value in objects:
        assert value["metadata"]["labels"][selector[1]] == selector[2]


def test_labels_are_removed_before_the_webhooks_and_the_webhooks_before_the_processes() -> None:
    commands = read_commands("Uninstall")
    order = [
        next(i for i, each in enumerate(commands) if part in each)
        for part in ("drawbridge.dev/translate-", "delete mutatingwebhook", "delete -k")
    ]
    assert order == sorted(order)


def test_the_commands_for_the_network_of_the_nodes_move_both_parts(tmp_path: Path) -> None:
    block = re.search(
        r"^### The network of the nodes\n.*?```console cluster\n(.*?)```",
        PAGE,
        re.DOTALL | re.MULTILINE,
    )
    assert block is not None
    label, upgrade, _ = (shlex.split(line.removeprefix("$ ")) for line in block[1].splitlines())
    assert label[:4] == ["kubectl", "label", "namespace", rendering.NAMESPACE]
    key, _, level = label[4].partition("=")
    flags = ["--reset-then-reuse-values", "--set"]
    assert upgrade[:2] == ["helm", "upgrade"]
    assert upgrade[6:8] == flags
    words = ["drawbridge", str(CHART), *upgrade[4:6], *upgrade[7:], "--set=judge.enabled=true"]
    text = rendering.run("helm", "template", *words)
    # The component sets the label, too.
    components = {"components": ["judge", "host-network"]}
    folder = rendering.write_kustomization(tmp_path, components)
    of_overlay = rendering.render_kustomization(folder)
    for objects in ([each for each in read_yaml_documents(text) if each], of_overlay):
        by_key = rendering.index(objects)
        for part in ("webhook", "judge"):
            pod = by_key["Deployment", rendering.NAMESPACE, f"drawbridge-{part}"]["spec"]
            assert pod["template"]["spec"]["hostNetwork"] is True
    labels = rendering.index(of_overlay)["Namespace", "", rendering.NAMESPACE]["metadata"]["labels"]
    assert (labels[key], level) == ("privileged", "privileged")
