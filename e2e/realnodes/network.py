"""Connects the nodes of a rig: one bridge, a network namespace for each node, and routes.

The bridge is the control plane's end and the gateway of every node. All addresses are private to
the rig's network namespace.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.realnodes.settings import SERVICES

HUB = "10.99.0.1"
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def address(number: int) -> str:
    """Return the address of a node by its number."""
    return f"10.99.0.{11 + number}"


def pods(number: int) -> str:
    """Return the range of addresses of a node's pods."""
    return f"10.244.{number}.0/24"


def connect(names: Sequence[str]) -> None:
    """Set up the network of the rig and of these nodes."""
    _run("ip link set lo up")
    _run("ip link add rig type bridge")
    _run(f"ip addr add {HUB}/24 dev rig")
    _run("ip link set rig up")
    # Without a route, what is sent to a Service fails before kube-proxy's rules see it.
    _run(f"ip route add {SERVICES} dev rig")
    FORWARD.write_text("1", encoding="ascii")
    for number, name in enumerate(names):
        _run(f"ip netns add {name}")
        _run(f"ip link add n-{name} type veth peer name eth0 netns {name}")
        _run(f"ip link set n-{name} master rig up")
        _run(f"ip -n {name} addr add {address(number)}/24 dev eth0")
        _run(f"ip -n {name} link set lo up")
        _run(f"ip -n {name} link set eth0 up")
        _run(f"ip -n {name} route add default via {HUB}")
        # The file is that of the network namespace of whoever opens it.
        write = ["ip", "netns", "exec", name, "tee", str(FORWARD)]
        subprocess.run(write, input=b"1", stdout=subprocess.DEVNULL, check=True)
        _run(f"ip route add {pods(number)} via {address(number)}")


def cut(name: str) -> None:
    """Take a node off the network, as when its cable is pulled."""
    _run(f"ip link set n-{name} down")


def restore(name: str) -> None:
    """Connect a node again."""
    _run(f"ip link set n-{name} up")


def namespace(name: str) -> Path:
    """Return the file of a node's network namespace."""
    return Path("/run/netns") / name


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True)
