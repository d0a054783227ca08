"""Scenario: the webhook accepts only the API server, as installing.md says.

The two files on the control plane node are those of the page, with paths of this machine.
"""

import http.client
import ssl
from dataclasses import replace
from pathlib import Path

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.plane import ControlPlane
from e2e.installed import trust
from e2e.installed.installation import Installation, Setup, installed, wait_for_facts
from e2e.scenarios.admission import GPU, NEEDS, ORIGINAL, legacy_pod
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant_stall import refusal_of

RIGS["client certificates"] = default_options
PAGE = Path(__file__).parents[2] / "docs" / "installing.md"
KINDS = ("AdmissionConfiguration", "Config")
FOLDER = "/etc/kubernetes/admission"


def read_page() -> dict[str, str]:
    """Return the documents of the page for a control plane node, by their kinds."""
    blocks = PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]
    texts = [each.partition("```")[0] for each in blocks]
    return {kind: next(each for each in texts if f"\nkind: {kind}\n" in each) for kind in KINDS}


def present_certificate(plane: ControlPlane, folder: Path) -> None:
    """Restart the API server with the configuration of the page and the pair in a folder."""
    page = {kind: text.replace(FOLDER, str(folder)) for kind, text in read_page().items()}
    (folder / "kubeconfig").write_text(page["Config"], encoding="utf-8")
    (folder / "admission.yaml").write_text(page["AdmissionConfiguration"], encoding="utf-8")
    option = f"--admission-control-config-file={folder / 'admission.yaml'}"
    plane.options = replace(plane.options, apiserver=(*plane.options.apiserver, option))
    plane.processes["kube-apiserver"].stop()
    plane.start_apiserver()


def has_answer(cluster: Installation, pair: tuple[Path, Path] | None) -> bool:
    """Send a request to a replica with a client certificate; return whether anything comes back."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the client is verified
    if pair:
        context.load_cert_chain(*pair)
    port = cluster.webhooks[0].port("admission")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    try:
        connection.request("POST", "/admit/pods", b"{}")
        return bool(connection.getresponse().status)
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        connection.close()


@scenario("full", rig="client certificates", needs=NEEDS)
def a_webhook_with_client_ca_answers_only_the_api_server(stage: Stage) -> None:
    """Until the API server presents a certificate, its calls fail as those of anybody else."""
    plane = stage.processes
    folder = plane.folder / "admission"
    pair = self_signed(folder, "api-server")
    other = self_signed(folder, "tenant", stem="other")
    cluster = installed(stage, setup=Setup(webhook_options=(f"--client-ca={pair[0]}",)))
    stage.node("a", "lab-2g2n", {GPU: "full"})
    assert has_answer(cluster, pair)
    assert not has_answer(cluster, None)
    assert not has_answer(cluster, other)
    stage.wait("the CA signs", lambda: not trust.find_trust_problem(cluster))
    text = refusal_of(stage.client, stage, legacy_pod(stage, "early"))
    assert "failed calling webhook" in text, text
    present_certificate(plane, folder)
    cluster.ignore_denials()
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    pod = stage.client.create(stage.pod_path(), legacy_pod(stage, "train"))
    assert ORIGINAL in pod["metadata"]["annotations"]
    stage.wait_running("train")
