"""A fake API server with devices and a complete installation of Drawbridge."""

import base64
import datetime as dt
from pathlib import Path

from certs.authority import create_authority
from drawbridge.agreement.match_conditions import derive_conditions
from drawbridge.agreement.published_facts import build_data_key
from drawbridge.config.model import Configuration
from drawbridge.facts import serialized
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.names import ORIGINAL_ANNOTATION
from tests.cli.test_live_cluster import OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON
from tests.tables import read_yaml_documents

ROOT = Path(__file__).parents[2]
SYSTEM = "drawbridge-system"
DAY = 86_400
NOW = dt.datetime.now(dt.UTC)


def bundle(days: float) -> str:
    """Return a caBundle whose certificate expires in so many days."""
    start = (NOW - dt.timedelta(days=50)).timestamp()
    authority = create_authority(start, (50 + days) * DAY)
    return base64.b64encode(authority.certificate.pem.encode()).decode()


def registration(ca: str) -> JSON:
    """Return the webhook configuration of the manifests, as the controller completes it."""
    text = (ROOT / "manifests/base/admission-pods.yaml").read_text("utf-8")
    value: JSON = next(iter(read_yaml_documents(text)))
    conditions = derive_conditions(Configuration())
    for webhook in value["webhooks"]:
        webhook["clientConfig"]["caBundle"] = ca
        for name, expression in conditions.get(webhook["name"], {}).items():
            webhook["matchConditions"] = [{"name": name, "expression": expression}]
    return value


def register_all(api: FakeApi) -> None:
    """Put the webhook configurations of workloads, of the guard and of the judge."""
    register(api, "base/admission-workloads.yaml")
    register(api, "components/judge/judge-webhooks.yaml")


def register(api: FakeApi, name: str) -> None:
    """Put a webhook configuration of the manifests."""
    for value in read_yaml_documents((ROOT / "manifests" / name).read_text("utf-8")):
        for webhook in value["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle(300)
        api.put(value)


def config_map(name: str, data: dict[str, str]) -> JSON:
    metadata = {"name": name, "namespace": SYSTEM}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def facts_map() -> JSON:
    facts = gather_facts(FactsInput()).facts
    digest = serialized.facts_hash(facts)
    content = serialized.encode_facts(facts).decode()
    return config_map("drawbridge-facts", {"current": digest, build_data_key(digest): content})


def lease(age: float, holder: str = "controller-0", name: str = "drawbridge-controller") -> JSON:
    renewed = NOW - dt.timedelta(seconds=age)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": SYSTEM},
        "spec": {"holderIdentity": holder, "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"},
    }


def deployment(name: str, ready: int = 2) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": ready},
    }


def namespace(name: str, mode: str) -> JSON:
    labels = {"drawbridge.dev/translate": mode}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def translating(plural: str, value: JSON) -> JSON:
    """Mark pods as the webhook does."""
    if plural == "pods":
        value["metadata"].setdefault("annotations", {})[ORIGINAL_ANNOTATION] = "[]"
    return value


def healthy(api: FakeApi) -> None:
    """Put a cluster with devices and a complete installation."""
    installed = (
        registration(bundle(300)),
        config_map("drawbridge-config", {"config.yaml": CONFIGURATION}),
        facts_map(),
        # In the future, so that it does not get too old however long a test takes.
        lease(-DAY),
        deployment("drawbridge-webhook"),
        deployment("drawbridge-controller"),
        namespace("team-a", "enforce"),
    )
    for obj in (*OBJECTS, *installed):
        api.put(obj)
    register(api, "base/admission-workloads.yaml")
    api.on_write = translating


CONFIGURATION = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
