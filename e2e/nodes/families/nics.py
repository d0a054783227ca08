"""Publishes network devices: whole ports of dra.net and virtual functions of SR-IOV."""

import zlib
from collections.abc import Iterator
from typing import Any

from e2e.nodes.layout import Device, Layout, Sheet, Wire
from e2e.nodes.machine import Machine, Nic

DRANET = "dra.net"
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
DRANET_CLASSES = {DRANET: f"device.driver == '{DRANET}'"}
SRIOV_CLASSES = {SRIOV: f"device.driver == '{SRIOV}'"}
FUNCTIONS = 2
# dra.net's parameters carry no kind: an empty name stands for that.
DRANET_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "": (
        "nic",
        {
            "interface": {"name": str, "addresses": list, "mtu": int, "dhcp": bool},
            "routes": list,
        },
    ),
}
SRIOV_GROUP = "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1"
SRIOV_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "VfConfig": (
        "vf",
        {
            "driver": str,
            "ifName": str,
            "netAttachDefName": str,
            "netAttachDefNamespace": str,
            "addVhostMount": bool,
        },
    ),
}


def dranet(machine: Machine, mode: str = "") -> Layout:
    """Publish every port.

    `mode`: numa (its node also by the name that drivers share) | reversed (the last port first, so
    that who takes the first that is free takes no neighbour of the first GPU) | numa+reversed.
    """
    modes = set(mode.split("+")) - {""}
    if modes - {"numa", "reversed"}:
        raise ValueError(f"dra.net has no mode {mode}")
    numa = "numa" in modes
    devices = [_port(machine, number, nic, numa=numa) for number, nic in enumerate(machine.nics)]
    ordered = reversed(devices) if "reversed" in modes else devices
    return Layout(DRANET, machine.name, (Sheet(tuple(ordered)),))


_CONNECTX = ("Mellanox Technologies", "MT2910 Family [ConnectX-7]")
_PRODUCTS = {"aws-p4d": ("Amazon.com, Inc.", "Elastic Fabric Adapter (EFA)")}


def _port(machine: Machine, number: int, nic: Nic, *, numa: bool) -> Device:
    vendor, product = _PRODUCTS.get(machine.shape, _CONNECTX)
    dashed = nic.bus.replace(":", "-").replace(".", "-")
    wire: Wire = {
        "attributes": {
            "ifName": {"string": f"eth{number}"},
            "rdmaDevice": {"string": nic.name},
            "rdma": {"bool": True},
            "ebpf": {"bool": False},
            "sriov": {"bool": False},
            "virtual": {"bool": False},
            "encapsulation": {"string": "ether"},
            "state": {"string": "up"},
            "type": {"string": "device"},
            "mtu": {"int": 9000},
            "mac": {"string": _mac(machine, nic)},
            "numaNode": {"int": nic.numa},
            "pciAddress": {"string": nic.bus},
            "pciVendor": {"string": vendor},
            "pciDevice": {"string": product},
            "pciSubsystem": {"string": "0083"},
            **({"alias": {"string": "storage"}} if nic.storage else {}),
            "resource.kubernetes.io/pcieRoot": {"string": nic.root},
            **({"resource.kubernetes.io/numaNode": {"int": nic.numa}} if numa else {}),
        }
    }
    return Device(f"pci-{dashed}", "nic", machine.nic_identity(nic), wire)


def _mac(machine: Machine, nic: Nic) -> str:
    number = zlib.crc32(machine.nic_identity(nic).encode())
    return "02:00:" + ":".join(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))


def sriov(machine: Machine, mode: str = "") -> Layout:
    """Publish virtual functions of every compute port; `mode` is the administrator's name."""
    devices = tuple(
        device
        for nic in machine.nics
        if not nic.storage
        for device in _functions(machine, nic, mode or "mlnx_rdma")
    )
    return Layout(SRIOV, machine.name, (Sheet(devices),))


def _functions(machine: Machine, nic: Nic, resource: str) -> Iterator[Device]:
    for number in range(FUNCTIONS):
        # The first functions of a two-port card are its ports.
        bus = f"{nic.bus[:-1]}{number + 2}"
        attributes: Wire = {
            "vendor": {"string": "15b3"},
            "deviceID": {"string": "101e"},
            "pfDeviceID": {"string": "1021"},
            "pciAddress": {"string": bus},
            "pfPciAddress": {"string": nic.bus},
            "PFName": {"string": nic.name},
            "EswitchMode": {"string": "legacy"},
            "linkType": {"string": "ethernet"},
            "vfID": {"int": number},
            "rdmaCapable": {"bool": True},
            "resourceName": {"string": resource},
            "dra.net/numaNode": {"int": nic.numa},
            "k8s.cni.cncf.io/deviceID": {"string": bus},
            "k8s.cni.cncf.io/resourceName": {"string": f"mellanox.com/{resource}"},
            "resource.kubernetes.io/pciBusID": {"string": bus},
            "resource.kubernetes.io/pcieRoot": {"string": nic.root},
        }
        name = bus.replace(":", "-").replace(".", "-")
        yield Device(name, "vf", f"{machine.name}/{bus}", {"attributes": attributes})
