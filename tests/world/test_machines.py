"""How long a node of the world needs until it is ready."""

import asyncio
from unittest.mock import Mock

from tests.cluster.fake.server import Server
from tests.virtual_time import run_virtually
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
