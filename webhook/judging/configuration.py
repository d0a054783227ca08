"""Review the ConfigMap with the configuration: deny what no process would use.

It runs in a process of its own (`webhook.server.configuration_reviews`). Only a courtesy at the
terminal: the controller judges the same text again, and the processes keep the last valid
configuration.
"""

from typing import Final

import msgspec

from drawbridge.agreement.configuration_in_use import ConfigurationConfigMap
from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.finding import Finding
from drawbridge.names import CONFIGURATION_CONFIG_MAP
from drawbridge.process import review
from drawbridge.process.review import UNDECODABLE, Malformed, compose_allowed
from webhook.admission.replies import (
    PartialResponse,
    Reply,
    compose_refusal,
    compose_reply,
    reply_invalid,
    reply_malformed,
)

FILE_COMMAND: Final = "details: drawbridge config print --config FILE"


def review_configuration(body: bytes) -> Reply:
    """Deny a ConfigMap whose configuration is refused."""
    request = review.decode_review(body)
    if isinstance(request, Malformed):
        return reply_malformed(request)
    if request.kind.kind != "ConfigMap" or request.name not in ("", CONFIGURATION_CONFIG_MAP):
        return compose_reply(request, PartialResponse(compose_allowed(), "allowed"))
    try:
        config_map = msgspec.json.decode(request.object, type=ConfigurationConfigMap)
    except UNDECODABLE as error:
        return reply_invalid(request, f"the ConfigMap cannot be decoded: {error}")
    findings: tuple[Finding, ...] = read_offered(config_map).findings
    if findings:
        return compose_reply(request, compose_refusal(findings, FILE_COMMAND))
    return compose_reply(request, PartialResponse(compose_allowed(), "allowed"))
