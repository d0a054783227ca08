"""Intel's device plugin: GPUs by kernel driver, and monitoring of all GPUs.

No driver serves the shares of GPUs that older versions of the plugin support.
"""

from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.translate.legacy.asks import Ask, Kind, PodRequests
from drawbridge.translate.legacy.codes import MEANING_CHANGES, NAME_OLD
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import DeviceResource, PodView
from drawbridge.translate.legacy.selectors import DriverKind

NAME: Final = "intel"
PROJECT: Final = ""
TRIGGERS: Final = frozenset({"gpu.intel.com", "intel.com"})
READS: Final[frozenset[str]] = frozenset()
STANDALONE_KEYS: Final = ()
ALLOCATED: Final = ()
# The last one is the extended resource name of the class in the DRA driver's chart.
_GPUS: Final = {"gpu.intel.com/i915": "i915", "gpu.intel.com/xe": "xe", "intel.com/gpu": ""}
# Older plugins share GPUs by these resources. They do not request a whole GPU.
_PARTS: Final = frozenset(
    {"gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/tiles"}
)
_MONITORING: Final = {
    "gpu.intel.com/monitoring": "",
    "gpu.intel.com/i915_monitoring": "i915",
    "gpu.intel.com/xe_monitoring": "xe",
}


def read(pod: PodView, legacy: Legacy) -> PodRequests:  # noqa: ARG001  # every dialect's signature
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    for container in pod.containers:
        if not _PARTS.isdisjoint(container.resources):
            continue
        for resource in container.resources.values():
            if resource.name not in _GPUS and resource.name not in _MONITORING:
                continue
            monitoring = resource.name in _MONITORING
            driver = _MONITORING[resource.name] if monitoring else _GPUS[resource.name]
            ask = Ask(
                kind=Kind.GPU,
                row="monitoring" if monitoring else "whole",
                vendor="intel",
                count=None if monitoring else builder.read_count(resource),
                selectors=(DriverKind((driver,)),) if driver else (),
                admin=monitoring,
                users=(container.user,),
            )
            builder.add_ask(ask, (resource,))
            _report_changes(builder, resource, monitoring=monitoring)
    return builder.build()


def _report_changes(builder: RequestBuilder, resource: DeviceResource, *, monitoring: bool) -> None:
    if resource.name.endswith("_monitoring"):
        builder.findings.append(
            NAME_OLD.at(
                resource.where, f"{resource.original_name} is now named gpu.intel.com/monitoring"
            )
        )
    elif not monitoring and resource.amount > 1:
        builder.findings.append(
            MEANING_CHANGES.at(
                resource.where,
                f"the pod gets {resource.amount} different GPUs; a plugin that shares GPUs could "
                f"allocate the same GPU {resource.amount} times",
            )
        )
