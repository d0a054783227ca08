"""Review the ConfigMap with the configuration: deny what no process would use.

It runs in a copy of the process (`webhook.server.configuration_reviews`). Only a courtesy at the
terminal: the controller judges the same text again, and the processes keep the last valid
configuration.
"""

from typing import Final

import msgspec

from drawbridge.agreement.configuration_in_use import ConfigurationConfigMap
from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.names import CONFIGURATION_CONFIG_MAP
from drawbridge.process import review
from drawbridge.process.review import Malformed
from webhook.admission.replies import Reply, compose_reply, reply_error, reply_malformed
from webhook.admission.responses import ALLOWED, Decided, ResponseOptions, respond

FILE_COMMAND: Final = "details: drawbridge config print --config FILE"


def review_configuration(body: bytes) -> Reply:
    """Deny a ConfigMap whose configuration is refused."""
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
    options = ResponseOptions(command=FILE_COMMAND, file_command=FILE_COMMAND)
    return compose_reply(request, respond(Decided(findings=findings), options))
