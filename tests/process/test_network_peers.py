"""What is scarce is taken from the peer that keeps it from others for longest, or is shared."""

import pytest

from drawbridge.process.network_peers import Holding, PeerShares, find_greediest, find_peer
from tests.tables import every_row

NOW = 100.0
MIB = 1 << 20
# The API server has one address: what it sends takes milliseconds, however much it is.
API_SERVER = {f"api-{i}": Holding("10.0.0.1", NOW - 0.005, 3 * MIB) for i in range(20)}


@every_row(
    ("attackers", "loser"),
    [
        pytest.param({}, "api-0", id="alone, the first one loses"),
        pytest.param({"a": Holding("10.1.0.1", NOW - 3, 8 * MIB)}, "a", id="one large body"),
        pytest.param(
            {f"a{i}": Holding(f"10.1.0.{i}", NOW - 2 + i / 100, MIB) for i in range(60)},
            "a0",
            id="many addresses, each with little",
        ),
        pytest.param(
            {f"a{i}": Holding("10.1.0.1", NOW - 0.01, MIB) for i in range(200)},
            "a0",
            id="one address that starts again and again",
        ),
        pytest.param(
            {"slow": Holding("10.1.0.1", NOW - 10, 1), "a": Holding("10.1.0.2", NOW - 1, MIB)},
            "a",
            id="a slow body that takes no room is kept",
        ),
        pytest.param(
            {"first": Holding("10.1.0.1", NOW - 9, 1), "a": Holding("10.1.0.1", NOW - 1, MIB)},
            "first",
            id="of one peer, the oldest",
        ),
    ],
)
def test_the_greediest_loses(attackers: dict[str, Holding], loser: str) -> None:
    assert find_greediest({**API_SERVER, **attackers}, NOW) == loser


def test_nobody_loses_if_nobody_holds_anything() -> None:
    assert find_greediest({}, NOW) is None


@every_row(
    ("host", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),  # IPv4 on a socket of both versions
        ("fd00:1:2:3::1", "fd00:1:2:3::/64"),
        ("fd00:1:2:3:ffff::9", "fd00:1:2:3::/64"),
        ("fd00:1:2:4::1", "fd00:1:2:4::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_a_network(host: str, peer: str) -> None:
    assert find_peer(host) == peer


@every_row(
    ("held", "room"),
    [
        pytest.param({}, 100, id="alone, what is for all"),
        pytest.param({"API": 70}, 30, id="the rest of it"),
        pytest.param({"API": 100}, 0, id="no more, if it is in use"),
        pytest.param({"a": 100}, 20, id="the half of what is divided among two"),
        pytest.param({"a": 100, "API": 15}, 5, id="the rest of the half"),
        pytest.param({"a": 100, "b": 20, "c": 13}, 10, id="a quarter of it among four"),
        pytest.param({"a": 90}, 20, id="and not both"),
    ],
)
def test_a_peer_with_little_has_room_although_others_hold_much(
    held: dict[str, int], room: int
) -> None:
    shares = PeerShares(100, 40)
    for peer, amount in held.items():
        shares.add(peer, amount)
    assert [shares.has_room("API", room), shares.has_room("API", room + 1)] == [True, False]
    for peer, amount in held.items():
        shares.remove(peer, amount)
    assert shares.has_room("API", 100)
