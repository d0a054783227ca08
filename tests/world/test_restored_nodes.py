"""A restore makes a node one of others again, and our allocators hear of no node for a while."""

from tests.world.script import Event
from tests.world.world import play

# n4 becomes owned after the backup. When it is given back, our allocators hear of no change of
# nodes, and their lists of nodes hang. Then both kinds of pods ask for all devices.
SCRIPT = (
    Event(0.1, "back up", 0),
    Event(0.1, "give back unheard", 2),
    Event(8.0, "restore", 0),
    *(Event(0.5, "create native", number) for number in range(6)),
    *(Event(0.5, "create", 26 + number) for number in range(6)),
)


def test_no_device_is_given_on_a_node_that_a_restore_gave_back() -> None:
    outcome = play(0, SCRIPT)
    assert not outcome.violation
    assert outcome.counted["restore"] == 1
