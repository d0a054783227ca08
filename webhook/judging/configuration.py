"""Review the ConfigMap with the configuration: deny a text that no process would use.

A text that stays as it was gets a warning: a label may change beside it, and after an upgrade, a
tool may apply what an earlier version accepted.

It runs in a copy of the process (`webhook.server.configuration_reviews`). Only a courtesy at the
terminal: the controller judges the same text again, and the processes keep the last valid
configuration.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.agreement.configuration_in_use import ConfigurationConfigMap
from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.finding import Severity
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.names import CONFIGURATION_CONFIG_MAP, CONFIGURATION_KEY
from drawbridge.process import review
from drawbridge.process.review import Malformed
from webhook.admission.replies import Reply, compose_reply, reply_error, reply_malformed
from webhook.admission.responses import ALLOWED, Decided, ResponseOptions, respond

FILE_COMMAND: Final = "details: drawbridge config print --config FILE"


def review_configuration(body: bytes) -> Reply:
    """Deny a ConfigMap with a new configuration that is refused."""
    request = review.decode_review(body)
    if isinstance(request, Malformed):
        return reply_malformed(request)
    if request.kind.kind != "ConfigMap" or request.name not in ("", CONFIGURATION_CONFIG_MAP):
        return compose_reply(request, ALLOWED)
    try:
        config_map = msgspec.json.decode(request.object, type=ConfigurationConfigMap)
    except UNDECODABLE as error:
        return reply_error(request, 400, f"the ConfigMap cannot be decoded: {error}")
    findings = read_offered(config_map).findings
    if findings and _has_text(request.old_object, config_map):
        findings = tuple(replace(each, severity=Severity.WARNING) for each in findings)
    options = ResponseOptions(FILE_COMMAND)
    return compose_reply(request, respond(Decided(findings=findings), options))


def _has_text(before: msgspec.Raw, config_map: ConfigurationConfigMap) -> bool:
    """Whether the object before the request has the same text."""
    try:
        old = msgspec.json.decode(before, type=ConfigurationConfigMap)
    except UNDECODABLE:
        return False  # there was none
    return _find_texts(old) == _find_texts(config_map)


def _find_texts(config_map: ConfigurationConfigMap) -> list[str | None]:
    parts = (config_map.data, config_map.binary_data)
    return [(each or {}).get(CONFIGURATION_KEY) for each in parts]
