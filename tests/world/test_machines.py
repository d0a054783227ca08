"""When a node of the world takes pods."""

import asyncio
from unittest.mock import Mock

from tests.cluster.fake.server import Server
from tests.virtual_time import run_virtually
from tests.world.full_nodes import FullNodes
from tests.world.machines import READY_SECONDS, Machine
from tests.world.objects import ALL_NODES, is_open


def test_a_new_node_is_ready_no_sooner_because_the_faults_end() -> None:
    """Our controller has that time to keep others off it."""
    server = Server()
    machine = Machine("n1", ALL_NODES["n1"], server, Mock(plugin=()))

    def is_ready() -> bool:
        return all(map(is_open, server.all("nodes")))

    async def main() -> None:
        machine.register()
        machine.cordon(100)
        await asyncio.sleep(READY_SECONDS / 2)
        machine.heal()
        await asyncio.sleep(READY_SECONDS / 2 - 0.1)
        assert not is_ready()
        await asyncio.sleep(0.2)
        assert is_ready()

    run_virtually(main)


def test_a_node_that_a_restore_brings_back_is_ready_when_the_faults_end() -> None:
    server = Server()
    machine = Machine("n1", ALL_NODES["n1"], server, Mock(plugin=()))

    async def main() -> None:
        machine.register()
        new = server.all("nodes")[0]
        await asyncio.sleep(READY_SECONDS + 0.1)
        server.put(new)
        assert not is_open(server.all("nodes")[0])
        machine.heal()
        assert is_open(server.all("nodes")[0])

    run_virtually(main)


def test_whoever_schedules_hears_when_a_full_node_takes_pods_again() -> None:
    """It takes some after its time, or when the faults end."""
    full, told = FullNodes(), list[bool]()
    machine = Machine("n1", ALL_NODES["n1"], Server(), Mock(plugin=()))
    full.tell(lambda: told.append("n1" in full))

    async def main() -> None:
        machine.register()
        machine.fill(5, full)
        await asyncio.sleep(4.9)
        assert "n1" in full
        await asyncio.sleep(0.2)
        assert told == [False]
        machine.fill(5, full)
        machine.heal()
        assert told == [False, False]

    run_virtually(main)
