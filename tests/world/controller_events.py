"""What a script lets happen to the replicas of the controller, most often to the one that leads."""

import asyncio
from typing import TYPE_CHECKING

from tests.world.events import event
from tests.world.machines import draw_seconds
from tests.world.network import LATEST_SECONDS, LEASE_SECONDS, Trap

if TYPE_CHECKING:
    from tests.world.world import World

# What of it counts as a fault.
FAULT_NAMES = ("kill controller", "hinder controller", "stop controller at write")
# The parts of the fence, and what tells allocators and pods of them.
_WRITTEN = (
    *("nodes", "validatingadmissionpolicies", "devicetaintrules", "drawbridge-scheduler"),
    *("resourceclaimtemplates", "configmaps"),
)
# What a replica hears of late; of all if none is named.
_HEARD = ("", "nodes", "resourceslices", "configmaps")


@event(0.6)
def kill_controller(world: "World", drawn: int) -> str:
    """Kill a replica, or stop it, so that it releases its Lease; another one starts at once."""
    replica, releases = world.controllers.choose(drawn // 2), bool(drawn % 2)
    replica.stop(releases=releases)
    return f"{replica.host}, which releases its Lease" if releases else replica.host


@event(0.9)
def hinder_controller(world: "World", drawn: int) -> str:
    """Let a replica stand still, cut it off, or let it hear of nothing for a while."""
    host = world.controllers.choose(drawn // 16).host
    # For longer than another one needs to lead, or not.
    seconds = draw_seconds(drawn, 18) + (LEASE_SECONDS + 10.0) * (drawn // 4 % 2)
    number, breaks = drawn % 4, bool(drawn // 8 % 2)
    if number == 0:
        world.network.stand_still(host, seconds)
        return f"{host} stands still for {seconds:.1f} s"
    if number == 1:
        world.network.cut_off(host, seconds, breaks=breaks)
        return f"{host} is cut off for {seconds:.1f} s{', its connections break' * breaks}"
    what = _HEARD[drawn // 8 % len(_HEARD)]
    deaf = f"{what} of controller {host}" if what else f"controller {host}"
    world.network.make_deaf(deaf, asyncio.get_running_loop().time() + seconds)
    return f"{host} hears of no {what or 'change'} for {seconds:.1f} s"


@event(1.5)
def stop_controller_at_write(world: "World", drawn: int) -> str:
    """Stop the controller at its next write of one kind, before it has the answer.

    Or it stands still before this write, and another one can have led when it comes.
    """
    network, write = world.network, _WRITTEN[drawn % len(_WRITTEN)]
    replicas = {each.host: each for each in world.controllers.replicas}
    seconds = draw_seconds(drawn, 14) + (LEASE_SECONDS + 10.0) * (drawn // 64 % 2)
    late = draw_seconds(drawn // 2, int(LATEST_SECONDS) - 4)

    def kill(host: str, _: str) -> None:
        replicas[host].stop(releases=False)

    def stand_still(host: str, _: str) -> None:
        network.stand_still(host, seconds)

    def cut_off(host: str, _: str) -> None:
        network.cut_off(host, seconds, breaks=True)

    stands = f"it stands still for {seconds:.1f} s"
    told, trap = (
        ("it is killed", Trap(write, kill)),
        (stands, Trap(write, stand_still)),
        (f"{stands} before it", Trap(write, stand_still, before=True)),
        (f"it is cut off for {seconds:.1f} s", Trap(write, cut_off)),
        (f"this arrives after {late:.1f} s", Trap(write, lambda *_: None, late)),
        (f"it is killed, and this arrives after {late:.1f} s", Trap(write, kill, late)),
    )[drawn // 8 % 6]
    network.set_trap("controller", trap)
    return f"{write}: {told}"
