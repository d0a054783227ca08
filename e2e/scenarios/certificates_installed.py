"""Scenarios: certificates from files, and webhooks that are removed from the manifests."""

import json
import subprocess
from typing import Any

import yaml

from e2e.installed import trust
from e2e.installed.installation import Setup, installed, wait_for_facts
from e2e.scenarios.admission import GPU, NEEDS, ORIGINAL, legacy_pod
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

RIGS["files"] = default_options
RIGS["husk"] = default_options
RIGS["switched"] = default_options
REMOVED = ("guard.drawbridge.dev", "updates.drawbridge.dev")


@scenario("full", rig="files", needs=NEEDS)
def a_certificate_from_files_is_served_and_the_controller_makes_none(stage: Stage) -> None:
    """Nothing reads or writes Secrets; a pair that does not fit is refused in words."""
    cluster = installed(stage, setup=Setup(files=True))
    stage.node("a", "lab-2g2n", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    pod = stage.client.create(stage.pod_path(), legacy_pod(stage, "one"), dryRun="All")
    assert ORIGINAL in pod["metadata"]["annotations"]
    assert not stage.exists(trust.SECRET)
    key = cluster.folder / "drawbridge-webhook-tls" / "tls.key"
    words = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)]
    subprocess.run(words, check=True)
    replica = cluster.webhooks[0]

    def told() -> list[Any]:
        return replica.messages("the certificate cannot be used")

    (line, *_) = stage.wait("the log names the problem", told)
    assert "does not belong to the certificate" in line["reason"], line
    pod = stage.client.create(stage.pod_path(), legacy_pod(stage, "two"), dryRun="All")
    assert ORIGINAL in pod["metadata"]["annotations"]


@scenario("full", rig="switched", needs=NEEDS)
def a_leader_that_makes_certificates_leaves_the_bundle_of_an_administrator(stage: Stage) -> None:
    """It leads on while a rollout changes the mode. On the way back, the leader adds its CA."""
    cluster = installed(stage)
    stage.wait("the CA signs", lambda: not trust.find_trust_problem(cluster))
    managed = trust.read_secret(cluster)["ca.crt"].strip()
    cluster.certify()
    (own,) = trust.read_bundles(cluster)
    stage.wait("it says so", lambda: "BundleManagedElsewhere" in trust.read_reasons(cluster))
    assert trust.read_bundles(cluster) == {own}
    for path in trust.CONFIGURATIONS:
        stage.client.patch(path, {"metadata": {"annotations": {"drawbridge.dev/ca": None}}})

    def is_trusted_beside() -> bool:
        bundles = trust.read_bundles(cluster)
        return all(own.strip() in each and managed in each for each in bundles)

    stage.wait("both are trusted", is_trusted_beside)


@scenario("full", rig="husk", needs=NEEDS)
def a_webhook_removed_from_the_manifests_leaves_no_incomplete_entry(stage: Stage) -> None:
    """Both kinds of apply remove it, and the controller neither keeps nor adds it again."""
    cluster = installed(stage)
    stage.wait("the CA signs", lambda: not trust.find_trust_problem(cluster))
    for words in (("--server-side", "--force-conflicts"), ("--server-side",), ()):
        kind = "WebhookConfiguration"
        whole = [each for each in cluster.objects if each["kind"].endswith(kind)]
        rendered = yaml.safe_dump_all(whole)
        cluster.kubectl("apply", *words, "-f", "-", stdin=rendered).check()
        # While the controller changes the entries, it owns the fields for a moment.
        stage.wait("all webhooks are trusted", lambda: not trust.find_trust_problem(cluster))
        stage.wait("the guard denies", lambda: read_policy(stage) == "Fail")
        stage.wait("nothing is owned", lambda: not find_owners(stage))
        fewer = yaml.safe_dump_all(without(whole))
        cluster.kubectl("apply", *words, "-f", "-", stdin=fewer).check()
        assert not read_names(stage) & set(REMOVED), (words, read_names(stage))
        for path in trust.CONFIGURATIONS:
            remove = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            stage.client.patch(path, remove, "application/json-patch+json")
        stage.wait("what is left is trusted", lambda: not trust.find_trust_problem(cluster))
        assert not read_names(stage) & set(REMOVED), (words, read_names(stage))


def without(objects: list[Any]) -> list[Any]:
    """Return the manifests without the removed webhooks."""
    changed = json.loads(json.dumps(objects))
    for configuration in changed:
        configuration["webhooks"] = [
            hook for hook in configuration["webhooks"] if hook["name"] not in REMOVED
        ]
    return list(changed)


def read_names(stage: Stage) -> set[str]:
    """Return the names of all webhooks of the installation."""
    webhooks = (stage.client.get(path)["webhooks"] for path in trust.CONFIGURATIONS)
    return {each["name"] for hooks in webhooks for each in hooks}


def read_policy(stage: Stage) -> str:
    """Return the failurePolicy of the guard, which the controller sets last."""
    hooks = stage.client.get(trust.CONFIGURATIONS[1])["webhooks"]
    return next((each["failurePolicy"] for each in hooks if each["name"] == REMOVED[0]), "")


def find_owners(stage: Stage) -> set[str]:
    """Return the field managers of the product in the webhook configurations."""
    return {
        entry["manager"]
        for path in trust.CONFIGURATIONS
        for entry in stage.client.get(path)["metadata"]["managedFields"]
        if entry["manager"].startswith("drawbridge")
    }
