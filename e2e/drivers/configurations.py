"""Draws opaque configurations for drivers: right ones, and ones with one or more mistakes.

    configuration("gpu.nvidia.com", seed)

The same seed gives the same configuration.
"""

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Draw = random.Random

NVIDIA, COMPUTE, EXAMPLE = "gpu.nvidia.com", "compute-domain.nvidia.com", "gpu.example.com"
NETWORK = "dra.net"
_NVIDIA_VERSION = "resource.nvidia.com/v1beta1"
_EXAMPLE_VERSION = "gpu.resource.example.com/v1alpha1"
_INTERVALS = ("Default", "Short", "Medium", "Long", "Tiny", "short", "", None)
_QUANTITIES = ("1Gi", "512Ki", "1Mi", "1023Ki", "1.5Gi", "10GB", "", "0", "-1Gi", 1048576, 0, None)
_PERCENTAGES = (0, 1, 50, 100, 101, -1, 2**31, "50", 50.5, None, True)
_DEVICES = ("0", "1", "31", "-1", "x", "", "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c")
_DOMAINS = ("4a9f2b7e-0000-4000-8000-000000000001", "a", "", ".", "..", "a/b", "a%b", "a b", "-a")
_POLICIES = ("LegacyOnly", "PreferIommuFD", "Newest", "", None)
_NAMES = (
    "net1",
    "eth_0",
    "a.b",
    "-",
    ".",
    "..",
    "a/b",
    "a b",
    "n\u00e9t",
    "\u00b2",
    "x" * 15,
    "x" * 16,
)
_ADDRESSES = (
    *(
        "10.0.0.1",
        "0.0.0.1",
        "10.0.0.256",
        "010.0.0.1",
        "::",
        "2001:db8::1",
        "fe80::1%eth0",
        "fe80::1%",
    ),
    *("::ffff:10.0.0.1", "10.1", "", "x"),
)
_LENGTHS = ("/24", "/0", "/32", "/33", "/128", "/129", "/08", "/", "/+8", "/255.0.0.0", "")
_HARDWARE = (
    *(
        "02:00:5e:10:00:01",
        "02-00-5e-10-00-01",
        "0200.5e10.0001",
        "2:0:5e:10:0:1",
        "02:00:5e:10:00",
    ),
    *("02:00:5E:10:00:01:02:03", "02-00:5e-10-00-01", ""),
)
_NUMBERS = (0, 1, 67, 68, 253, 254, 255, 256, 9000, 32767, 32768, -1, 2**31, 2**63, 1.5, "1", None)
# What is put where something else belongs.
_STRANGE: tuple[Any, ...] = (None, True, 0, 1.5, "", "text", [], ["text"], {}, {"name": "x"})
_FIELDS = ("sharing", "strategy", "Strategy", "timeSlicingConfig", "mpsConfig", "metadata", "iommu")


def configuration(driver: str, seed: int) -> Json:
    """Draw the parameters of one configuration."""
    draw = random.Random(f"{driver} {seed}")  # not a secret
    parameters = _OF_DRIVER[driver](draw)
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        draw.choice(_MISTAKES)(parameters, draw)
    return parameters


def _nvidia(draw: Draw) -> Json:
    kind = draw.choice(("GpuConfig",) * 5 + ("MigDeviceConfig",) * 3 + ("VfioDeviceConfig",))
    parameters: Json = {"apiVersion": _NVIDIA_VERSION, "kind": kind}
    if kind == "VfioDeviceConfig":
        if draw.random() < 0.7:
            parameters["iommu"] = _some(
                draw,
                backendPolicy=draw.choice(_POLICIES),
                enableAPIDevice=draw.choice((True, None)),
            )
    elif draw.random() < 0.9:
        parameters["sharing"] = _sharing(draw, kind)
    return parameters


def _sharing(draw: Draw, kind: str) -> Json | None:
    strategy = draw.choice(("TimeSlicing",) * 4 + ("MPS",) * 4 + ("Exclusive", "", None))
    if draw.random() < 0.03:
        return None
    sharing: Json = {"strategy": strategy}
    if draw.random() < (0.5 if kind == "GpuConfig" else 0.1):
        interval = draw.choice(_INTERVALS)
        sharing["timeSlicingConfig"] = draw.choice(({"interval": interval}, {}, None))
    if draw.random() < 0.5:
        sharing["mpsConfig"] = draw.choice((_mps(draw), _mps(draw), None))
    return sharing


def _mps(draw: Draw) -> Json:
    keys = draw.sample(_DEVICES, draw.randint(0, 2))
    return _some(
        draw,
        defaultActiveThreadPercentage=draw.choice(_PERCENTAGES),
        defaultPinnedDeviceMemoryLimit=draw.choice(_QUANTITIES),
        defaultPerDevicePinnedMemoryLimit={key: draw.choice(_QUANTITIES) for key in keys},
        multiUser=draw.choice((True, False, None)),
    )


def _compute(draw: Draw) -> Json:
    kind = draw.choice(("ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"))
    domain = draw.choice((*_DOMAINS, "a" * 63, "a" * 64))
    return {"apiVersion": _NVIDIA_VERSION, "kind": kind, "domainID": domain} | (
        {"allocationMode": draw.choice(("Single", "All", ""))} if draw.random() < 0.3 else {}
    )


def _example(draw: Draw) -> Json:
    parameters: Json = {"apiVersion": _EXAMPLE_VERSION, "kind": "GpuConfig"}
    if draw.random() < 0.9:
        strategies = ("TimeSlicing",) * 4 + ("SpacePartitioning",) * 4 + ("MPS", "")
        sharing: Json = {"strategy": draw.choice(strategies)}
        if draw.random() < 0.5:
            interval = draw.choice(_INTERVALS)
            sharing["timeSlicingConfig"] = draw.choice(({"interval": interval}, {}, None))
        if draw.random() < 0.5:
            count = draw.choice((0, 1, 10, -1, "1", 1.5, None))
            sharing["spacePartitioningConfig"] = draw.choice(({"partitionCount": count}, {}, None))
        parameters["sharing"] = sharing
    return parameters


def _network(draw: Draw) -> Json:
    interface = _some(
        draw,
        name=draw.choice(_NAMES),
        addresses=[_prefix(draw) for _ in range(draw.randint(0, 2))],
        dhcp=draw.choice((True, False, None)),
        mtu=draw.choice(_NUMBERS),
        hardwareAddr=draw.choice(_HARDWARE),
        gsoMaxSize=draw.choice(_NUMBERS),
        groIPv4MaxSize=draw.choice(_NUMBERS),
        forwarding=draw.choice((True, None)),
    )
    if draw.random() < 0.2:
        interface["vrf"] = _some(draw, name=draw.choice(("vrf0", "")), table=draw.choice(_NUMBERS))
    if draw.random() < 0.1:
        interface["ipvlan"] = {"mode": "l2"}
    parameters = _some(
        draw,
        interface=interface,
        routes=[_route(draw)],
        rules=[_rule(draw)],
        neighbors=[_neighbor(draw)],
        ethtool=draw.choice(({"features": {"tso": True}}, {"privateFlags": None}, {}, None)),
    )
    if draw.random() < 0.1:
        parameters["subInterface"] = {"type": "ipvlan"}
    return parameters


def _prefix(draw: Draw) -> str:
    # Half of them are right.
    wrong = draw.choice(_ADDRESSES) + draw.choice(_LENGTHS)
    return draw.choice(("10.0.0.0/8", "2001:db8::/64", wrong, wrong))


def _address(draw: Draw) -> str:
    return draw.choice(("10.0.0.1", "2001:db8::1", draw.choice(_ADDRESSES)))


def _route(draw: Draw) -> Json:
    return {"destination": _prefix(draw), "gateway": _address(draw)} | _some(
        draw,
        source=_address(draw),
        scope=draw.choice((0, 253, 254, 256, -1, None)),
        table=draw.choice(_NUMBERS),
    )


def _rule(draw: Draw) -> Json:
    return _some(
        draw,
        priority=draw.choice(_NUMBERS),
        source=_prefix(draw),
        destination=_prefix(draw),
        table=draw.choice(_NUMBERS),
    )


def _neighbor(draw: Draw) -> Json:
    return {"destination": _address(draw), "hardwareAddr": draw.choice(_HARDWARE[:4])} | _some(
        draw, hardwareAddr=draw.choice(_HARDWARE)
    )


def _some(draw: Draw, **fields: object) -> Json:
    return {name: value for name, value in fields.items() if draw.random() < 0.5}


_OF_DRIVER: dict[str, Callable[[Draw], Json]] = {
    NVIDIA: _nvidia,
    COMPUTE: _compute,
    EXAMPLE: _example,
    NETWORK: _network,
}


def _places(value: Json) -> list[Json]:
    """List an object and the objects in it."""
    inner = [each for each in value.values() if isinstance(each, dict)]
    return [value, *(place for each in inner for place in _places(each))]


def _misspell(parameters: Json, draw: Draw) -> None:
    place = draw.choice(_places(parameters))
    if place:
        name = draw.choice(sorted(place))
        place[draw.choice((name.lower(), name.upper(), f"{name}s", name[:-1]))] = place.pop(name)


def _add(parameters: Json, draw: Draw) -> None:
    draw.choice(_places(parameters))[draw.choice(_FIELDS)] = draw.choice(_STRANGE)


def _remove(parameters: Json, draw: Draw) -> None:
    place = draw.choice(_places(parameters))
    if place:
        place.pop(draw.choice(sorted(place)))


def _replace(parameters: Json, draw: Draw) -> None:
    place = draw.choice(_places(parameters))
    if place:
        place[draw.choice(sorted(place))] = draw.choice(_STRANGE)


def _rename(parameters: Json, draw: Draw) -> None:
    """Take a version or kind of something else."""
    parameters[draw.choice(("apiVersion", "kind"))] = draw.choice(
        (
            "resource.nvidia.com/v1",
            "resource.nvidia.com/v1beta1",
            "gpu.resource.amd.com/v1alpha1",
            "v1",
            "gpuconfig",
            "MigDeviceConfig",
            "ComputeDomainChannelConfig",
            "ComputeDomain",
            "",
        )
    )


_MISTAKES = (_misspell, _add, _remove, _replace, _rename)
