"""The handler of the judge over a cluster in memory, and reviews to send to it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from drawbridge.config.model import Configuration
from drawbridge.dra.claim import read_claim, read_template
from drawbridge.dra.classes import read_class
from drawbridge.dra.nodes import node_reader
from drawbridge.dra.resource_quotas import quota_reader
from drawbridge.dra.slices import read_slice
from drawbridge.finding import Finding
from drawbridge.process.review import AdmissionRequest
from tests.tables import YamlValue
from webhook.admission.replies import Reply
from webhook.judging.handler import JudgeHandler
from webhook.judging.judged_cluster import JudgedCluster, JudgedObject, JudgeSettings, ObjectChange
from webhook.judging.reviews import judge_review

ENFORCE: Final = {"drawbridge.dev/translate": "enforce"}
_READERS: Final = {
    "ResourceClaim": read_claim,
    "ResourceClaimTemplate": read_template,
    "DeviceClass": read_class,
    "ResourceSlice": read_slice,
    "ResourceQuota": quota_reader().read,
    "Node": node_reader().read,
}
_GROUPS: Final = {
    "Pod": ("", "v1"),
    "Deployment": ("apps", "v1"),
    "CronJob": ("batch", "v1"),
}


def read(plain: YamlValue) -> JudgedObject:
    """Decode an object of the cluster."""
    read = _READERS[plain["kind"]](plain)
    assert not isinstance(read, tuple), read
    return read


def change(before: YamlValue | None, after: YamlValue | None, version: int = 1) -> ObjectChange:
    """Return a change of an object; its uid is its name unless it has one."""
    plain = after or before
    metadata = plain["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    uid = metadata.get("uid", f"{plain['kind']}/{namespace}/{name}")
    if after is not None:
        after = {**after, "metadata": {**metadata, "uid": uid, "resourceVersion": f"{version}"}}
    return ObjectChange(
        namespace, name, uid, f"{version}", before and read(before), after and read(after)
    )


class MemoryView:
    """Namespaces with fixed labels. Implements `NamespaceView`."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.namespaces = namespaces
        self.settings = JudgeSettings()

    def configuration(self) -> Configuration:
        """Return the configuration."""
        return self.settings.configuration

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace."""
        return self.namespaces.get(name)

    async def read_namespace_labels(self, _name: str, _seconds: float) -> Mapping[str, str] | None:
        """Return None: no other namespace exists."""
        return None


class InlineJudge:
    """Judges at once, with the real questions. Implements `Judge`."""

    def __init__(self, cluster: JudgedCluster) -> None:
        self.cluster = cluster
        self.judged: list[AdmissionRequest] = []
        self.error: Exception | None = None

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], _seconds: float, _peer: str
    ) -> tuple[Finding, ...]:
        """Return the findings about an object."""
        if self.error is not None:
            raise self.error
        self.judged.append(request)
        return judge_review(request, self.cluster.context(request.namespace, labels))


class JudgeHarness:
    """A handler, its view and its judge."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]], *objects: YamlValue) -> None:
        self.view = MemoryView(namespaces)
        self.judge = InlineJudge(JudgedCluster(self.view.settings, 0))
        self.judge.cluster.apply([change(None, each) for each in objects])
        self.handler = JudgeHandler(self.view, self.view.configuration, self.judge)

    def send(self, body: bytes) -> Reply:
        """Handle a review."""
        return asyncio.run(self.handler.review_object(body, 1.0))

    def respond(self, body: bytes) -> tuple[Reply, YamlValue]:
        """Handle a review; return the reply and the response in it."""
        reply = self.send(body)
        return reply, json.loads(reply.body)["response"]


def review(  # all but the object by name
    plain: YamlValue,
    *,
    old: YamlValue | None = None,
    operation: str = "",
    user: str = "someone",
    namespace: str | None = "team",
    sub_resource: str = "",
    dry_run: bool = False,
) -> bytes:
    """Build the review of an object."""
    group, version = _GROUPS.get(plain["kind"], ("resource.k8s.io", "v1"))
    version = str(plain.get("apiVersion", version)).rpartition("/")[2]
    api_version = f"{group}/{version}" if group else version
    plain = {"apiVersion": api_version, **plain}
    old = old and {"apiVersion": api_version, "kind": plain["kind"], **old}
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": plain["kind"]},
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "name": plain["metadata"].get("name", ""),
        "namespace": namespace or "",
        "subResource": sub_resource,
        "userInfo": {"username": user},
        "dryRun": dry_run,
        "object": plain,
        "oldObject": old,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": request}).encode()
