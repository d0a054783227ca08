"""Builds Kubernetes objects for scenarios with the least fields needed. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

JSON = dict[str, Any]
RESOURCE = "/apis/resource.k8s.io/v1"


def taint_rules_path(version: str) -> str:
    """Return the path of the DeviceTaintRules of a version; before 1.36 there are none."""
    return f"{RESOURCE}{'beta2' if version == '1.36' else ''}/devicetaintrules"


def request(name: str, device_class: str, *selectors: str, **more: object) -> JSON:
    """Request one device of a class; `more` is added to `exactly`."""
    exactly: JSON = {"deviceClassName": device_class, **more}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": exactly}


def deployment(pod: JSON, replicas: int) -> JSON:
    """Return a Deployment with this pod as template, named like the pod."""
    name = pod["metadata"]["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        },
    }


def claim_spec(
    *requests: JSON, constraints: Sequence[JSON] = (), config: Sequence[JSON] = ()
) -> JSON:
    """Combine requests into a claim spec."""
    devices: JSON = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    if config:
        devices["config"] = list(config)
    return {"devices": devices}


def opaque(driver: str, parameters: Mapping[str, Any], *requests: str) -> JSON:
    """Return the configuration of a driver's devices."""
    entry: JSON = {"opaque": {"driver": driver, "parameters": dict(parameters)}}
    return entry | ({"requests": list(requests)} if requests else {})


def pod_spec(
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **more: object,
) -> JSON:
    """Return a pod spec with one container; `claims` and `templates` map names in the pod."""
    entries = [
        {"name": name, "resourceClaimName": claim} for name, claim in (claims or {}).items()
    ] + [
        {"name": name, "resourceClaimTemplateName": template}
        for name, template in (templates or {}).items()
    ]
    resources: JSON = {}
    if entries:
        resources["claims"] = [{"name": entry["name"]} for entry in entries]
    if limits:
        resources["limits"] = dict(limits)
    spec: JSON = {
        "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
        **more,
    }
    return spec | ({"resourceClaims": entries} if entries else {})


def result(driver: str, pool: str, device: str, **more: object) -> JSON:
    """Return one allocated device as an allocator writes it."""
    return {"request": "gpu", "driver": driver, "pool": pool, "device": device, **more}


def allocation(node: str, results: Sequence[JSON], config: Sequence[JSON] = ()) -> JSON:
    """Return an allocation that is bound to one node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    devices: JSON = {"results": list(results)}
    if config:
        devices["config"] = [{"source": "FromClaim", **entry} for entry in config]
    return {
        "devices": devices,
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }


def device_class(name: str, expression: str, **spec: object) -> JSON:
    """Return a DeviceClass with one selector."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }
