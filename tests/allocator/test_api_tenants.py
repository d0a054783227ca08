"""What is limited goes by tenant: the accounts of a namespace together, or a user."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import pytest

from allocator.api import searches
from allocator.api.messages import ApiFailureError
from allocator.api.reviews import DENIED_SECONDS, Caller
from allocator.api.searches import MAX_WAITING, ApiSearches
from allocator.api.tenants import Places, Rate, Share, SharedRates, Tenant, find_tenant
from drawbridge.process.forked import ForkLimits
from tests.allocator.api_served import ReviewServer, serving_api
from tests.allocator.clusters import Cluster
from tests.tables import every_row

LIST: Final = "GET /v1/allocations"
RED, BLUE = Tenant(Share.ACCOUNTS, "red"), Tenant(Share.ACCOUNTS, "blue")
GREEN, AMY = Tenant(Share.ACCOUNTS, "green"), Tenant(Share.USERS, "amy")


def account(namespace: str, number: int = 0) -> str:
    return f"system:serviceaccount:{namespace}:a{number}"


@every_row(
    ("user", "tenant"),
    [
        ("system:serviceaccount:red:portal", RED),
        ("system:serviceaccount:red:ci", RED),
        ("system:serviceaccount:blue:ci", BLUE),
        ("amy", AMY),
        ("system:serviceaccount", Tenant(Share.USERS, "system:serviceaccount")),
        ("oidc:system:serviceaccount:a:b", Tenant(Share.USERS, "oidc:system:serviceaccount:a:b")),
        ("system:node:n1", Tenant(Share.USERS, "system:node:n1")),
        ("red", Tenant(Share.USERS, "red")),
    ],
)
def test_all_accounts_of_a_namespace_are_one_tenant(user: str, tenant: Tenant) -> None:
    assert Caller(user).tenant == find_tenant(user) == tenant


# Of 8 places, a tenant has at most 4, and 2 are for tenants without one: what is held, who asks for
# how much, and whether there is room.
ROOM: Final = [
    ([], RED, 4, True),
    ([], RED, 5, False),
    ([(RED, 3)], RED, 1, True),
    ([(RED, 4)], RED, 1, False),
    ([(RED, 4)], BLUE, 2, True),
    ([(RED, 4), (BLUE, 2)], BLUE, 1, False),
    ([(RED, 4), (BLUE, 2)], GREEN, 2, True),
    ([(RED, 4), (BLUE, 2)], GREEN, 3, False),
    ([(RED, 4), (BLUE, 2), (GREEN, 2)], Tenant(Share.ACCOUNTS, "more"), 1, False),
    ([(RED, 4), (BLUE, 2), (GREEN, 2)], AMY, 4, True),
    ([(RED, 4), (BLUE, 2)], RED, 0, True),
]


@every_row(("held", "tenant", "amount", "has_room"), ROOM)
def test_no_tenant_takes_all_places_of_its_share(
    held: list[tuple[Tenant, int]], tenant: Tenant, amount: int, *, has_room: bool
) -> None:
    places = Places(4, 8, "things")
    with contextlib.ExitStack() as stack:
        for holder, some in held:
            stack.enter_context(places.hold(holder, some))
        with _refused(not has_room):
            stack.enter_context(places.hold(tenant, amount))
    with places.hold(tenant, 4):  # all places are free again
        pass


@contextlib.contextmanager
def _refused(is_refused: bool) -> Iterator[None]:  # noqa: FBT001
    if not is_refused:
        yield
        return
    with pytest.raises(ApiFailureError, match="too many things"):
        yield


def test_a_rate_has_a_part_for_tenants_that_used_nothing_of_late() -> None:
    rates = SharedRates(Rate(5, 20), Rate(10, 40))

    def take(tenant: Tenant, now: float) -> float:
        return rates.take(tenant.share, tenant, now)

    used = [take(tenant, 0) for tenant in (RED, BLUE) for _ in range(20)]
    assert [used.count(0), used[19], used[29], used[30]] == [30, 0, 0, pytest.approx(0.1)]
    assert take(GREEN, 0) == 0
    assert take(GREEN, 0) > 0
    assert take(AMY, 0) == 0
    assert [take(RED, 1), take(BLUE, 1), take(GREEN, 1)] == [0, 0, 0]


def test_a_share_without_rest_says_when_to_come_again() -> None:
    rates = SharedRates(Rate(5, 20), Rate(10, 40))
    names = [Tenant(Share.ACCOUNTS, f"n{number}") for number in range(41)]
    assert [rates.take(Share.ACCOUNTS, name, 0) for name in names] == [0.0] * 40 + [
        pytest.approx(0.1)
    ]
    assert rates.take_of_share(Share.USERS, 0, 5) == 0


class Copies:
    """Stands for the copies of the process: a search ends when the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searches = ApiSearches()
        self.order: list[str] = []
        self.gate = asyncio.Event()
        self.tasks: dict[str, asyncio.Task[str]] = {}
        monkeypatch.setattr(searches, "run_forked", self._run)

    async def _run(self, search: object, limits: ForkLimits) -> bytes:
        assert callable(search)
        assert limits
        await self.gate.wait()
        return bytes(search())

    async def ask(self, *users: str) -> None:
        """Start a search of each user."""
        for user in users:
            self.tasks[user] = asyncio.create_task(self._ask(user))
            await asyncio.sleep(0)

    async def _ask(self, user: str) -> str:
        def search() -> str:
            self.order.append(user)
            return user

        return await self.searches.run(Caller(user), search, str)

    async def finish(self) -> set[str]:
        """Let all searches end; return the users whose search was refused."""
        self.gate.set()
        results = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        refused = zip(self.tasks, results, strict=True)
        return {user for user, result in refused if isinstance(result, ApiFailureError)}


@pytest.mark.asyncio
async def test_the_accounts_of_one_namespace_do_not_take_the_places_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = Copies(monkeypatch)
    many = [account("red", number) for number in range(MAX_WAITING + 4)]
    await copies.ask(*many)
    portals = [account("blue"), account("green"), "amy"]
    await copies.ask(*portals)
    refused = await copies.finish()
    # One runs, 16 wait, and two of them make room.
    assert refused == set(many[MAX_WAITING - 1 :])
    assert [copies.order.index(user) for user in portals] == [2, 3, 1]


@pytest.mark.asyncio
async def test_a_caller_has_one_search_and_its_next_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = Copies(monkeypatch)
    await copies.ask("amy")
    with pytest.raises(ApiFailureError, match="a search of this caller is running"):
        await copies.searches.run(Caller("amy"), str, str)
    assert await copies.finish() == set()
    await copies.ask("amy")
    assert await copies.finish() == set()


def tenants(**accounts: int) -> ReviewServer:
    """Return an API server with accounts by namespace, whose tokens are their names."""
    users = [account(name, number) for name, count in accounts.items() for number in range(count)]
    users.append("amy")
    return ReviewServer(
        {user: user for user in users}, {user: {"list resourceclaims in *"} for user in users}
    )


@pytest.mark.asyncio
async def test_the_requests_of_all_accounts_of_a_namespace_count_together() -> None:
    async with serving_api(Cluster(n1=1), tenants(red=10, blue=1)) as served:
        statuses = [(await served.send(LIST, account("red", i % 10)))[0] for i in range(110)]
        assert (statuses.count(200), statuses.count(429)) == (100, 10)
        for other in (account("blue"), "amy"):
            assert (await served.send(LIST, other))[0] == 200


@pytest.mark.asyncio
async def test_a_large_body_counts_as_many_requests() -> None:
    body = b'{"pods": [' + b"{}," * 340_000 + b"{}]}"
    async with serving_api(Cluster(n1=1), tenants(red=1, blue=1)) as served:
        statuses = [
            (await served.send("POST /v1/simulate", account("red"), body))[0] for _ in range(6)
        ]
        assert statuses == [400] * 4 + [429] * 2
        # What is left is less than such a body, and the rest goes on.
        assert (await served.send(LIST, account("red")))[0] == 200
        assert (await served.send(LIST, account("blue")))[0] == 200


@pytest.mark.asyncio
async def test_a_page_of_pools_counts_as_several_requests() -> None:
    reviews = ReviewServer({"amy": "amy"}, {"amy": ["list resourceslices in *"]})
    async with serving_api(Cluster(n1=1), reviews) as served:
        statuses = [(await served.send("GET /v1/pools", "amy"))[0] for _ in range(22)]
        assert statuses == [200] * 20 + [429] * 2


@pytest.mark.asyncio
async def test_a_token_that_was_accepted_is_reviewed_again_while_strangers_guess() -> None:
    async with serving_api(Cluster(n1=1), tenants(blue=1)) as served:
        assert (await served.send(LIST, account("blue")))[0] == 200
        served.now += 2 * DENIED_SECONDS
        guesses = [(await served.send(LIST, f"guess-{number}"))[0] for number in range(25)]
        assert guesses[-1] == 429
        assert served.reviews.count("TokenReview") == 21
        assert (await served.send(LIST, account("blue")))[0] == 200
        assert served.reviews.count("TokenReview") == 22
