"""Commands that read a saved cluster answer for the version of Kubernetes that its nodes have."""

from pathlib import Path

from tests.cli.running import Printed, command
from tests.tables import every_row

EXAMPLES = Path(__file__).parents[2] / "examples"
LEGACY = str(EXAMPLES / "legacy" / "hami.yaml")
NODE = """
apiVersion: v1
kind: Node
metadata: {name: saved-1}
status: {nodeInfo: {kubeletVersion: v1.35.4+build}}
"""
# Each prints something else for 1.35 than for 1.37.
COMMANDS = [
    ("inventory", ("config", "facts")),
    ("inventory", ("translate", "-f", LEGACY)),
    ("inventory", ("check", "-f", LEGACY)),
    ("inventory", ("simulate", "-f", LEGACY)),
    ("inventory", ("cel", 'device.attributes["example.com"].numbers.includes(1)')),
    ("audit", ("audit",)),
]


@every_row("cluster, words", COMMANDS)
def test_the_kubelets_of_a_saved_cluster_tell_its_version(
    cluster: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODE, "utf-8")

    def run(*options: str) -> Printed:
        return command(*words, "--cluster", str(EXAMPLES / cluster), str(nodes), *options)

    assert run() == run("--kubernetes-version", "1.35")
    assert run() != run("--kubernetes-version", "1.37")
