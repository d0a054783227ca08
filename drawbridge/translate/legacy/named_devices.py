"""Reads resource names to which the configuration or a DeviceClass gives a meaning.

A name counts devices of its target, or is a part of each device that its container gets from the
target.
"""

from typing import Final

from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.config.target import NamedDevices, Target
from drawbridge.translate.legacy.asks import Ask, DeviceShare, Kind, PodRequests
from drawbridge.translate.legacy.codes import REQUESTS_CONTRADICT
from drawbridge.translate.legacy.dialects import vgpu
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import Container, DeviceResource, PodView
from drawbridge.translate.legacy.selectors import RawCEL

NAME: Final = "named"
_Requested = tuple[DeviceResource, NamedDevices]


def read(pod: PodView, configuration: Configuration) -> PodRequests:
    """Read the requests of each container."""
    builder = RequestBuilder(NAME, pod)
    names = configuration.named_devices
    for container in pod.containers:
        by_target: dict[int, list[_Requested]] = {}
        for resource in container.resources.values():
            if devices := names.get(resource.name):
                by_target.setdefault(id(devices.target), []).append((resource, devices))
        for requested in by_target.values():
            _read_target(builder, container, requested, configuration)
    return builder.build()


def _read_target(
    builder: RequestBuilder,
    container: Container,
    requested: list[_Requested],
    configuration: Configuration,
) -> None:
    """Make one ask for each name that counts devices, or one for a single device."""
    target = requested[0][1].target
    counting = [(resource, devices) for resource, devices in requested if not devices.is_amount]
    parts = [resource for resource, devices in requested if devices.is_amount]
    share = _share(parts, configuration) if parts else None
    if parts and len(counting) > 1:
        several = " and ".join(resource.original_name for resource, _ in counting)
        message = f"{parts[0].original_name}: the container requests it with both {several}"
        builder.findings.append(REQUESTS_CONTRADICT.at(parts[0].where, message))
        builder.keep_resources([resource for resource, _ in requested])
        return
    for resource, devices in counting:
        ask = _make_ask(target, container, resource, share)
        selectors = (RawCEL(devices.selector),) if devices.selector else ()
        ask = replace(ask, count=resource.amount, selectors=selectors)
        builder.add_ask(ask, (resource, *parts))
    if not counting:
        builder.add_ask(_make_ask(target, container, parts[0], share), parts)


def _make_ask(
    target: Target, container: Container, resource: DeviceResource, share: DeviceShare | None
) -> Ask:
    return Ask(
        kind=Kind(target.kind or Kind.OTHER),
        named=resource.name,
        row="share" if share else "whole",
        share=share,
        users=(container.user,),
    )


def _share(parts: list[DeviceResource], configuration: Configuration) -> DeviceShare:
    units = vgpu.units(configuration.legacy)
    return DeviceShare(
        amounts=tuple(
            (part.name, part.amount * vgpu.configured_amount(units, part.name, 1))
            for part in sorted(parts, key=lambda each: each.name)
        )
    )
