"""The OpenAPI document of the API, from the types of its messages."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from allocator.api.messages import (
    DEFAULT_ITEMS,
    EXPLAIN,
    GET_NODE,
    GET_OPENAPI,
    HTTP_STATUS,
    LIST_ALLOCATIONS,
    LIST_QUOTAS,
    MAX_ITEMS,
    SIMULATE,
    ApiCall,
    ApiFailure,
    NamespaceName,
    ObjectName,
)
from allocator.api.plan_messages import ADJUST, DEFRAG
from allocator.api.pool_status import LIST_POOLS
from allocator.schemas import describe_types

Json = dict[str, Any]
_JSON: Final = "application/json"
_CALLS: Final[Mapping[ApiCall, tuple[str, str]]] = {
    LIST_ALLOCATIONS: (
        "List the claims that have devices, and their devices.",
        "Requires `list resourceclaims` in the namespace; without one, at the cluster scope.",
    ),
    LIST_QUOTAS: (
        "List what is used and left of device quotas.",
        "Requires `list resourceclaims` in the namespace; without one, at the cluster scope.",
    ),
    LIST_POOLS: (
        "Count the devices of owned pools: allocated, reserved, unavailable and available.",
        "Requires `list resourceslices` at the cluster scope.",
    ),
    GET_NODE: (
        "Describe the devices of the allocator on a node.",
        "Requires `get nodes`. Claims are named where the caller may list them, else counted.",
    ),
    EXPLAIN: (
        "Explain where the devices of a pod are, or why it waits for them.",
        "Requires `get pods` in the namespace. Nodes are named if the caller may `list nodes`.",
    ),
    SIMULATE: (
        "Show where pods would run if they were created now. Nothing is reserved.",
        "Requires `create pods` in all namespaces of the objects that are sent.",
    ),
    DEFRAG: (
        "Plan which few pods would have to move so that a pod fits that waits.",
        "Requires `list pods`, `list resourceclaims` and `list nodes` at the cluster scope.",
    ),
    ADJUST: (
        "Say whether an allocated claim could have more, and which pods would have to go.",
        "Requires `get resourceclaims` in the namespace. Nothing is changed.",
    ),
    GET_OPENAPI: ("Return this document.", ""),
}
_PARAMETERS: Final[Mapping[str, Json]] = {
    "namespace": {"description": "Only this namespace.", "type": NamespaceName},
    "driver": {"description": "Only pools of this driver.", "schema": {"type": "string"}},
    "poolName": {"description": "Only pools with this name.", "schema": {"type": "string"}},
    "limit": {
        "description": "The number of items on a page.",
        "schema": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_ITEMS,
            "default": DEFAULT_ITEMS,
        },
    },
    "continue": {
        "description": "The token `continue` of the page before.",
        "schema": {"type": "string", "pattern": "^[-_A-Za-z0-9]*$"},
    },
}


def openapi_document() -> Json:
    """Return the document."""
    types = [kind for call in _CALLS for kind in (call.request, call.reply) if kind is not None]
    types = [kind for kind in types if kind is not msgspec.Raw]
    schemas = describe_types([*types, ApiFailure], "#/components/schemas/{name}")
    paths: Json = {}
    for call in _CALLS:
        paths.setdefault(call.path, {})[call.method.lower()] = _describe_call(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Allocator of Drawbridge", "version": "v1"},
        "security": [{"token": []}, {"certificate": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            },
        },
    }


def render_openapi() -> str:
    """Return the text of `docs/openapi.json`."""
    encoded = msgspec.json.encode(openapi_document(), order="sorted")
    return msgspec.json.format(encoded).decode() + "\n"


def _describe_call(call: ApiCall) -> Json:
    summary, description = _CALLS[call]
    described: Json = {
        "operationId": f"{call.method.lower()}-{call.label}",
        "summary": summary,
        "parameters": [_describe_parameter(name, "query") for name in call.query],
        "responses": {"200": _describe_reply(call), **_describe_failures(call)},
    }
    if description:
        described["description"] = description
    if "{name}" in call.path:
        path = {"description": "The name of the node.", "type": ObjectName}
        described["parameters"].append(_describe_parameter("name", "path", path))
    if call.request is not None:
        content = {_JSON: {"schema": _reference(call.request)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _describe_parameter(name: str, place: str, parameter: Json | None = None) -> Json:
    told = parameter or _PARAMETERS[name]
    schema = told["schema"] if "schema" in told else msgspec.json.schema(told["type"])
    described = {
        "name": name,
        "in": place,
        "description": told["description"],
        "schema": schema,
    }
    return {**described, "required": True} if place == "path" else described


def _describe_reply(call: ApiCall) -> Json:
    if call.reply is msgspec.Raw:
        return {"description": "The document.", "content": {_JSON: {"schema": {"type": "object"}}}}
    text = inspect.getdoc(call.reply) or ""
    return {"description": text, "content": {_JSON: {"schema": _reference(call.reply)}}}


def _describe_failures(call: ApiCall) -> Json:
    content = {_JSON: {"schema": _reference(ApiFailure)}}
    reading = {"Timeout", "TooLarge", "UnsupportedMediaType", "ExpectationFailed"}
    searching = {"TooMuchWork"}
    unused = set() if call.request is not None else reading | searching
    return {
        f"{status}": {"description": code.value, "content": content}
        for code, status in HTTP_STATUS.items()
        if code.value not in unused
    }


def _reference(kind: type) -> Json:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
