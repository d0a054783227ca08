"""What a script lets happen to our processes and to the API servers.

The events of users, administrators and drivers are in `tests.world.events`.
"""

import asyncio
import functools
import itertools
from typing import TYPE_CHECKING

from allocator.scheduler.lease import READ_SECONDS
from tests.world.configurations import Owner
from tests.world.events import create, create_important, create_native, event, finish_pod
from tests.world.machines import draw_seconds
from tests.world.network import LATEST_SECONDS, LEASE_SECONDS, Trap
from tests.world.objects import CHANGING

if TYPE_CHECKING:
    from tests.world.world import World

# A request is late by no more than this, and some seconds for faults.
_LATE_SECONDS = int(LATEST_SECONDS) - 4
# A host stands still for longer than another one needs to lead, and to take back what it finds.
_TAKEN_BACK_SECONDS = 40.0
# Another host leads by then, and this one does not know yet that it may not.
_ANSWER_SECONDS = 9.0
# So many important pods ask for the devices meanwhile.
_RIVALS = 3
# A watch is behind by this time in the mean, longer than a late request.
_LONG_LAG = 40.0
# Hours by which the clock of a server is wrong, in seconds.
_LARGE_STEPS = (7200, -7200)
# What counts as a fault: some events, and what happens to requests.
FAULT_NAMES = (
    *("delete with force", "forge mark"),
    *("kill", "kill allocator", "kill scheduler", "kill webhook"),
    *("stop at write", "stand still", "cut off", "forbid", "give back unheard"),
    *("end watches", "refuse watches", "expire", "skew", "stop server", "restore"),
    *("answer 403", "answer 429", "answer 503", "lost response", "late request"),
    *("cut computation", "claim made twice"),
)


# --- our processes ---


@event(0.7)
def kill(world: "World", drawn: int) -> str:
    """Kill a scheduler with its allocator; others start at once."""
    host = world.choose_pair(drawn).host
    world.kill_pair(host)
    return host


@event(0.8)
def kill_allocator(world: "World", drawn: int) -> str:
    """Kill an allocator beside its scheduler."""
    pair = world.choose_pair(drawn)
    pair.restart.set()
    return pair.host


@event(0.8)
def kill_scheduler(world: "World", drawn: int) -> str:
    """Kill a scheduler beside its allocator, or stop it, so that it releases its Lease."""
    pair, releases = world.choose_pair(drawn), bool(drawn // 2 % 2)
    if releases:
        world.stop_scheduler(pair.host)
    else:
        pair.scheduler.die()
    return f"{pair.host}, which releases its Lease" if releases else pair.host


@event(0.6)
def kill_webhook(world: "World", _drawn: int) -> str:
    """Kill the webhook; another one starts at once."""
    world.webhook.restart.set()
    return world.webhook.host


@event(0.6)
def stand_still(world: "World", drawn: int) -> str:
    """Let a host stand still for a while; what it had decided is sent later."""
    pair, seconds = world.choose_pair(drawn), draw_seconds(drawn, 25)
    # What it sends after that is later than any request that was sent can arrive.
    seconds += _TAKEN_BACK_SECONDS if drawn // 2 % 4 == 0 else 0.0
    world.network.stand_still(pair.host, seconds)
    return f"{pair.host} for {seconds:.1f} s"


class _Stops:
    """What can happen at a write of an allocator, with the times that are drawn for it."""

    def __init__(self, world: "World", drawn: int) -> None:
        self.world, self.drawn = world, drawn
        self.seconds = 14 + draw_seconds(drawn, 14)
        self.longer = self.seconds + _TAKEN_BACK_SECONDS * (drawn // 64 % 2)
        # Either what it had decided is later than any request, or its Lease would not be over yet.
        is_late = bool(drawn // 128 % 2)
        self.alone = LATEST_SECONDS + self.seconds if is_late else 1 + draw_seconds(drawn, 10)
        self.late, self.closed = draw_seconds(drawn, _LATE_SECONDS), draw_seconds(drawn // 2)
        # Its sender hears of this for long enough to release what the pod has.
        self.latest = LATEST_SECONDS - 0.5 - draw_seconds(drawn, 3)

    def choose(self, number: int, write: str) -> tuple[str, Trap]:
        """Return one of them, told."""
        after = f"it arrives after {self.late:.1f} s"
        stands = f"the host stands still for {self.seconds:.1f} s"
        cut = f"the host is cut off for {self.seconds:.1f} s"
        before = f"the host stands still for {self.longer:.1f} s before it"
        alone = f"the allocator stands still for {self.alone:.1f} s before it, another one leads"
        late, latest, longer = self.late, self.latest, f"{self.longer:.1f} s"
        choices = (
            ("the allocator is killed", Trap(write, self.restart_allocator)),
            ("the host is killed", Trap(write, self.kill)),
            (stands, Trap(write, self.stand_still)),
            (cut, Trap(write, self.cut_off)),
            (after, Trap(write, lambda *_: None, late)),
            (f"the host is killed, and {after}", Trap(write, self.kill, late)),
            (f"the scheduler is killed, and {after}", Trap(write, self.restart_scheduler, late)),
            (f"its node is closed, and {after}", Trap(write, self.close_node, late)),
            ("its response is lost, and all watches lag", Trap(write, self.see_nothing, 0.1)),
            (before, Trap(write, self.stop_before, before=True)),
            (alone, Trap("binding", self.stop_alone, before=True)),
            (
                "the host is killed, and nobody hears of pods",
                Trap("binding", self.kill_unseen, 0.1),
            ),
            (
                f"its node is closed, and the host stands still for {longer} before it releases it",
                Trap("binding", self.stop_release, before=True),
            ),
            (
                f"its node is closed, it arrives after {latest:.1f} s, and a release waits for it",
                Trap("binding", self.close_and_wait, latest),
            ),
            (
                f"the host stands still for {longer} before it, and the claim may not change",
                Trap("status", self.stop_unchanging, before=True),
            ),
            (
                "answers come late, and the scheduler ends",
                Trap("mark", self.answer_late),
            ),
        )
        return choices[number % len(choices)]

    def restart_allocator(self, host: str, _: str) -> None:
        self.world.pairs[host].restart.set()

    def restart_scheduler(self, host: str, _: str) -> None:
        self.world.pairs[host].scheduler.die()

    def kill(self, host: str, _: str) -> None:
        self.world.kill_pair(host)

    def stand_still(self, host: str, _: str) -> None:
        self.world.network.stand_still(host, self.seconds)

    def cut_off(self, host: str, _: str) -> None:
        self.world.network.cut_off(host, self.seconds, breaks=True)

    def close_node(self, host: str, path: str) -> None:
        """Let nobody say whether it arrives, and the pod need another node."""
        self.world.network.cut_off(host, 3)
        self._close_nodes(path, self.late + self.closed)

    def see_nothing(self, _: str, path: str) -> None:
        """Let nobody hear that it has arrived, and the pod seem to need another node."""
        for front in self.world.network.fronts:
            front.lag = _LONG_LAG
        self._close_nodes(path, 2 * _LONG_LAG)

    def stop_before(self, host: str, path: str) -> None:
        """Let it be sent when nobody waits for it any more, and the pod need another node."""
        self.world.network.stand_still(host, self.longer)
        self._close_nodes(path, self.longer)

    def stop_alone(self, host: str, path: str) -> None:
        """Let it be sent when another one has led for a while, and the pod need another node."""
        self.world.stop_scheduler(host)
        self.world.network.stand_still(f"allocator {host}", self.alone)
        pause = 0.5  # until the Lease is released
        stand_still = functools.partial(self.world.network.stand_still, host, self.alone - pause)
        asyncio.get_running_loop().call_later(pause, stand_still)
        self._close_nodes(path, self.alone)

    def stop_release(self, host: str, path: str) -> None:
        """Let what takes devices back be sent when another one has bound the pod with them."""
        self.world.network.cut_off(host, 2)
        self._close_nodes(path, _TAKEN_BACK_SECONDS)

        def stand_still(host: str, path: str) -> None:
            self.world.network.stand_still(host, self.longer)
            for node in self.world.nodes_of_path(path):
                self.world.machines[node].open_again()

        self.world.network.set_trap("allocator", Trap("release", stand_still, before=True))

    def close_and_wait(self, host: str, path: str) -> None:
        """Let it arrive between the two looks of who takes the devices of the pod back."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.latest + 0.5
        self.world.network.cut_off(host, 2)
        self._close_nodes(path, self.latest + self.closed)

        def stand_still(host: str, _: str) -> None:
            self.world.network.stand_still(host, until - loop.time())

        self.world.network.set_trap("allocator", Trap("pod status", stand_still, before=True))

    def stop_unchanging(self, host: str, path: str) -> None:
        """Let it be sent when another one leads, which cannot remove the mark yet."""
        network, claim = self.world.network, path.removesuffix("/status")
        network.stand_still(host, self.longer)
        network.unchanging[claim] = asyncio.get_running_loop().time() + self.longer + 1
        self._let_others_ask(self.longer / 2)

    def answer_late(self, host: str, _: str) -> None:
        """Let another one lead while the last that this one has heard says that it leads.

        Its scheduler ends when its Lease was read once more, and the next one is slow to start.
        """
        network, loop = self.world.network, asyncio.get_running_loop()
        network.answer_late(f"allocator {host}", _ANSWER_SECONDS)
        stop = functools.partial(self.world.stop_scheduler, host, _ANSWER_SECONDS)
        loop.call_later(READ_SECONDS + 0.1, stop)
        self._let_others_ask(_ANSWER_SECONDS / 3)

    def _let_others_ask(self, pause: float) -> None:
        """Let important pods come that the next leader can give the same devices."""

        def ask(number: int) -> None:
            if not self.world.is_calm:
                create_important(self.world, self.drawn + number)

        for number in range(_RIVALS):
            asyncio.get_running_loop().call_later(pause, ask, number)

    def kill_unseen(self, host: str, path: str) -> None:
        """Let another one lead that has not heard of it, and the pod seem to need another node."""
        until = asyncio.get_running_loop().time() + 2 * _LONG_LAG
        for other, kind in itertools.product(self.world.pairs, ("scheduler", "allocator")):
            self.world.network.make_deaf(f"pods of {kind} {other}", until)
        self._close_nodes(path, 2 * _LONG_LAG)
        for node in self.world.nodes_of_path(path):
            self.world.machines[node].stop_kubelet(2 * _LONG_LAG)  # or the pod ends before
        self.world.kill_pair(host)

    def _close_nodes(self, path: str, seconds: float) -> None:
        for node in self.world.nodes_of_path(path):
            self.world.machines[node].cordon(seconds)


@event(5)
def stop_at_write(world: "World", drawn: int) -> str:
    """Stop an allocator at its next mark, allocation or binding, before it has the answer.

    Or it goes on, and this write arrives late.
    """
    write = ("mark", "status", "binding")[drawn % 3]
    told, trap = _Stops(world, drawn).choose(drawn // 3, write)
    world.network.set_trap("allocator", trap)
    return f"{trap.end}: {told}"


@event(0.6)
def cut_off(world: "World", drawn: int) -> str:
    """Cut a host of ours or a node off from the API servers for a while."""
    hosts = [*sorted(world.pairs), world.webhook.host, *sorted(world.machines)]
    host, seconds = hosts[drawn % len(hosts)], draw_seconds(drawn, 18)
    breaks = bool(drawn // 64 % 2)
    world.network.cut_off(host, seconds, breaks=breaks)
    return f"{host} for {seconds:.1f} s{', and its connections break' if breaks else ''}"


@event(0.3)
def forbid(world: "World", drawn: int) -> str:
    """Take a right away from our roles for a while."""
    plural = ("resourceclaims", "pods", "nodes", "resourceslices", "leases")[drawn % 5]
    seconds = draw_seconds(drawn, 8)
    world.network.forbidden["", plural] = asyncio.get_running_loop().time() + seconds
    return f"{plural} for {seconds:.1f} s"


@event(0.6)
def give_back_unheard(world: "World", drawn: int) -> str:
    """Give a node to others while our allocators hear of no change, and both get pods.

    A node that others have becomes owned first. Or another machine comes with its name. Its labels
    say whose it is, or the configuration names it.
    """
    machine, loop = world.machines[CHANGING], asyncio.get_running_loop()
    # Most pauses are long enough for the fence to settle.
    seconds, pause = 2 * LEASE_SECONDS + draw_seconds(drawn, 30), draw_seconds(drawn // 2, 40)
    owner = Owner(world, by_name=drawn // 16 % 3 == 0)
    is_replaced = bool(drawn // 8 % 2)
    how = f"{'replaced, ' if is_replaced else ''}unheard for {seconds:.1f} s, by {owner.told_by}"

    def give_back() -> None:
        if world.is_calm or not owner.is_ours:
            return
        until = loop.time() + seconds
        world.network.hanging["allocator", owner.told_by] = until
        for host in world.pairs:
            world.network.make_deaf(f"allocator {host}", until)
        for pod in world.all("pods"):
            if pod["spec"].get("nodeName") == CHANGING:
                finish_pod(world, pod)
        if is_replaced:
            machine.remove(draw_seconds(drawn // 3, 6))
        owner.change()
        for number in range(6):
            make = create_native if number % 2 else create
            loop.call_later(seconds * (number + 1) / 6, make, world, drawn + number)

    if owner.is_ours:
        give_back()
        return f"{CHANGING}, {how}"
    owner.change()
    loop.call_later(pause, give_back)
    return f"{CHANGING} is owned, and given back after {pause:.1f} s, {how}"


# --- API servers ---


@event(1.5)
def end_watches(world: "World", _drawn: int) -> str:
    """End all watches normally."""
    world.server.end_watches()
    return "all"


@event(0.8)
def refuse_watches(world: "World", drawn: int) -> str:
    """Break all watches of our processes, and open none for a while, as a busy server does."""
    seconds, loop = draw_seconds(drawn, 18), asyncio.get_running_loop()
    world.network.no_watch = loop.time() + seconds
    world.network.break_off()
    loop.call_later(seconds / 2, world.server.expire)
    return f"all for {seconds:.1f} s"


@event(1.5)
def bookmark(world: "World", _drawn: int) -> str:
    """Send bookmarks to all watches."""
    world.server.bookmark()
    return "all"


@event(0.8)
def expire(world: "World", _drawn: int) -> str:
    """Compact the history, so that watches and pages expire."""
    world.server.expire()
    return "all"


@event(3)
def lag(world: "World", drawn: int) -> str:
    """Let the watches of one server lag."""
    front = world.network.fronts[drawn % 2]
    front.lag = (0.01, 0.05, 0.05, 0.3, 0.3, 1.5, 1.5, 10.0, 10.0, 60.0)[drawn // 2 % 10]
    return f"server {drawn % 2} by {front.lag} s"


@event(1)
def skew(world: "World", drawn: int) -> str:
    """Set the clock of one server; some steps are so large that nobody believes them."""
    front = world.network.fronts[drawn % 2]
    steps = _LARGE_STEPS if drawn // 16 % 4 == 0 else (0, 11, -11, 120, -120)
    front.skew = steps[drawn // 2 % len(steps)]
    return f"server {drawn % 2} by {front.skew} s"


@event(0.6)
def stop_server(world: "World", drawn: int) -> str:
    """Stop one server for a while; its watches end."""
    seconds = draw_seconds(drawn, 10)
    world.network.fronts[drawn % 2].stop(asyncio.get_running_loop().time() + seconds)
    return f"server {drawn % 2} for {seconds:.1f} s"


@event(2)
def back_up(world: "World", _drawn: int) -> str:
    """Take a snapshot of the storage."""
    return f"version {world.back_up()}"


@event(0.7)
def restore(world: "World", drawn: int) -> str:
    """Put a snapshot back, the last one or one of this moment.

    Its version can be later than it was, as etcdutl does if it is told.
    """
    later = (0, 0, 50, 1_000)[drawn % 4]
    if drawn // 4 % 3 == 0:
        return f"version {world.restore(later=later)}"
    pause = draw_seconds(drawn, 3)
    loop = asyncio.get_running_loop()
    taken = world.back_up()
    is_quiet = drawn // 4 % 3 == 1
    if is_quiet:
        # Others write what nobody of ours watches, so that only the version tells of the restore.
        world.network.store.version += 20 + drawn // 16 % 100
        pause /= 10
    loop.call_later(pause / 2, world.server.bookmark)

    def restore_now() -> None:
        if not world.is_calm:
            world.restore(later=later)

    loop.call_later(pause, restore_now)
    return f"version {taken} after {pause:.1f} s{', and little is lost' if is_quiet else ''}"
