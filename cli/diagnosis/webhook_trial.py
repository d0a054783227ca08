"""Sample pods that show, in a dry run, whether the webhook answers.

The first pod has a usual device-plugin request, which the webhook translates, leaves or denies. A
pod that is left unchanged does not show who left it, so the second pod has a request that the
webhook always denies.
"""

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.names import GUARD_WEBHOOK, ORIGINAL_ANNOTATION, POD_WEBHOOK
from drawbridge.translate.changes.codes import TRANSLATION_CHANGED

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_USUAL: Final = "nvidia.com/gpu"
_NAME: Final = "drawbridge-doctor"
# Koordinator denies cores of a GPU without memory, and so does its dialect.
_DENIED_ALWAYS: Final = "koordinator.sh/gpu-core"
_DENIED: Final = f'webhook "{POD_WEBHOOK}" denied the request'
# The guard denies what the webhook for pods did not get, or what was changed after its answer.
_GUARDED: Final = f'webhook "{GUARD_WEBHOOK}" denied the request'
_CALL_FAILED: Final = "failed calling webhook"


class TrialResult(enum.Enum):
    """What happened to the sample pods."""

    TRANSLATED = "translated"
    DENIED = "denied"
    LEFT = "left"
    NOT_CALLED = "not called"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"


class WebhookTrial(NamedTuple):
    """The result in a namespace, and what the sample pod requests that shows it."""

    result: TrialResult
    namespace: str
    resource: str = ""
    detail: str = ""


def sample_pod(limits: Mapping[str, str]) -> dict[str, Value]:
    """Return a pod with these device requests that strict namespaces admit."""
    amounts: dict[str, Value] = {"cpu": "1m", "memory": "1Mi"}
    container: dict[str, Value] = {
        "name": "main",
        "image": "none",
        "resources": {"limits": {**amounts, **limits}, "requests": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


async def try_webhook(session: "Session", namespace: str) -> WebhookTrial:
    """Create the sample pods in dry runs."""
    first = await _create(session, namespace, {_USUAL: "1"})
    if not isinstance(first, dict):
        return _of_error(first, namespace, _USUAL)
    if get_value(first, ("metadata", "annotations", ORIGINAL_ANNOTATION)) is not None:
        return WebhookTrial(TrialResult.TRANSLATED, namespace, _USUAL)
    second = await _create(session, namespace, {_DENIED_ALWAYS: "50"})
    if isinstance(second, dict):
        detail = "is admitted unchanged"
        return WebhookTrial(TrialResult.NOT_CALLED, namespace, _DENIED_ALWAYS, detail)
    answered = _of_error(second, namespace, _DENIED_ALWAYS)
    if answered.result is TrialResult.DENIED:
        return WebhookTrial(TrialResult.LEFT, namespace, _USUAL)
    return answered


async def _create(
    session: "Session", namespace: str, limits: Mapping[str, str]
) -> dict[str, Value] | str:
    """Return the pod as it would be stored, or the message of the refusal."""
    path = resources.PODS.path(namespace)
    try:
        response = await session.call(
            "POST", path, query={"dryRun": "All"}, body=sample_pod(limits)
        )
    except ApiError as error:
        return error.message
    created: dict[str, Value] = msgspec.json.decode(response)
    return created


def _of_error(message: str, namespace: str, resource: str) -> WebhookTrial:
    if _DENIED in message:
        reason = message.partition(f"{_DENIED}: ")[2]
        return WebhookTrial(TrialResult.DENIED, namespace, resource, reason)
    if _GUARDED in message and TRANSLATION_CHANGED.name not in message:
        detail = f"is denied by {GUARD_WEBHOOK} only"
        return WebhookTrial(TrialResult.NOT_CALLED, namespace, resource, detail)
    called = _CALL_FAILED in message and "drawbridge.dev" in message
    result = TrialResult.UNREACHABLE if called else TrialResult.UNKNOWN
    return WebhookTrial(result, namespace, resource, message)
