"""Who may call the API, and what each caller is told: two tenants on one node."""

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from allocator.api import callers
from allocator.api.callers import is_expired, read_subject
from allocator.api.http_handler import is_loopback
from allocator.api.reviews import ALLOWED_SECONDS, DENIED_SECONDS
from drawbridge.cluster.errors import UnreachableError
from drawbridge.process.addresses import Address
from drawbridge.process.tls import ServingCertificate
from tests.allocator.api_served import ReviewServer, data_folder, serving_api
from tests.allocator.clusters import Cluster, allocation_on, claim, pod
from tests.cluster.certificates import Authority
from tests.tables import read_yaml

pytestmark = pytest.mark.asyncio
TABLE = read_yaml((data_folder() / "api_access.yaml").read_text())
RED, ALL = "GET /v1/allocations?namespace=red", "GET /v1/allocations"
SECRETS = ("train", "infer")


def two_tenants() -> Cluster:
    cluster = Cluster(n1=3, n2=1)
    for name, namespace, number in (("train", "red", 0), ("infer", "blue", 1)):
        allocation = allocation_on("n1", number)
        cluster.add_claim(claim(name, namespace=namespace, allocation=allocation, pods=[name]))
    return cluster


def review_server(**users: str) -> ReviewServer:
    tokens = {name: name for name in TABLE["rights"]}
    return ReviewServer({**tokens, **users}, TABLE["rights"])


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda each: f"{each['user']} {each['call']}")
async def test_a_caller_is_told_only_what_it_may_read(case: dict[str, Any]) -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        for name, namespace, node in (("train", "red", "n1"), ("infer", "blue", "n1")):
            served.add_pod(pod(name, name, node=node, namespace=namespace))
        served.cluster.add_claim(claim("large", 3, namespace="red"))
        served.add_pod(pod("wants", "large", namespace="red"))
        status, body, _ = await served.send(case["call"], case["user"], case.get("body"))
    assert status == case.get("status", 200), body
    told = [name for name in SECRETS if name in str(body)]
    assert sorted(told) == sorted(case.get("told", [])), body


async def test_a_device_of_another_tenant_is_counted_and_not_named() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        _, body, _ = await served.send("GET /v1/nodes/n1", "red-lead")
    (pool,) = body["pools"]
    assert [(each["name"], each.get("held", 0)) for each in pool["devices"]] == [
        ("gpu-0", 1),
        ("gpu-1", 1),
        ("gpu-2", 0),
    ]
    assert [each.get("claims", []) for each in pool["devices"]][1] == []


async def test_an_operator_needs_one_review_for_the_holders_of_all_namespaces() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        await served.send("GET /v1/nodes/n1", "operator")
        asked = [
            body["spec"]["resourceAttributes"]
            for body in served.reviews.bodies
            if body["kind"] == "SubjectAccessReview"
        ]
    assert [(each["verb"], each["resource"], each.get("namespace")) for each in asked] == [
        ("get", "nodes", None),
        ("list", "resourceclaims", None),
    ]


async def test_results_of_reviews_count_for_some_seconds_also_refusals() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        for _ in range(3):
            assert (await served.send(RED, "red-dev"))[0] == 200
            assert (await served.send(RED, "blue-dev"))[0] == 403
            assert (await served.send(RED, "stolen"))[0] == 401
        assert served.reviews.count("TokenReview") == 3
        assert served.reviews.count("SubjectAccessReview") == 2
        served.reviews.rights["red-dev"].clear()
        served.reviews.rights["blue-dev"].add("list resourceclaims in red")
        del served.reviews.users["red-dev"]
        served.now += DENIED_SECONDS
        assert (await served.send(RED, "blue-dev"))[0] == 200
        served.now += ALLOWED_SECONDS - DENIED_SECONDS
        assert (await served.send(RED, "red-dev"))[0] == 401


async def test_a_review_has_the_whole_identity_and_never_shows_the_token() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        await served.send(RED, "red-dev")
        access = served.reviews.bodies[1]["spec"]
    assert access["user"] == "red-dev"
    assert access["uid"] == "uid-red-dev"
    assert access["groups"] == ["system:authenticated"]
    assert access["resourceAttributes"] == {
        "verb": "list",
        "group": "resource.k8s.io",
        "resource": "resourceclaims",
        "namespace": "red",
    }


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic cmVkOnJlZA==", "Bearer \xe9", "red-dev"]
)
async def test_a_request_without_a_valid_token_is_refused(header: str) -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        status, body, headers = await served.send(RED, Authorization=header)
    assert (status, body["code"]) == (401, "Unauthorized")
    assert headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_for_another_audience_is_refused() -> None:
    async with serving_api(two_tenants(), review_server(), audience="drawbridge") as served:
        assert (await served.send(RED, "red-dev"))[0] == 200
        assert served.reviews.bodies[0]["spec"]["audiences"] == ["drawbridge"]
    silent = review_server()
    silent.knows_audiences = False
    async with serving_api(two_tenants(), silent, audience="drawbridge") as served:
        assert (await served.send(RED, "red-dev"))[0] == 401


async def test_a_local_caller_needs_no_review() -> None:
    async with serving_api(two_tenants(), review_server(), is_local=True) as served:
        status, body, _ = await served.send(ALL)
    assert (status, len(body["items"]), served.reviews.bodies) == (200, 2, [])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:9444", 200),
        ("evil.example.com", 403),
        ("127.0.0.1.example.com", 403),
        ("[", 403),
        ("", 403),
    ],
)
async def test_a_web_page_of_another_name_is_no_local_caller(host: str, status: int) -> None:
    async with serving_api(two_tenants(), review_server(), is_local=True) as served:
        assert (await served.send(ALL, Host=host))[0] == status


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("127.8.8.8", True)]
    + [(each, False) for each in ("", "0.0.0.0", "::", "10.0.0.1", "localhost", "127.1")],  # noqa: S104
)
async def test_only_loopback_addresses_need_no_caller(host: str, is_local: bool) -> None:  # noqa: FBT001
    assert is_loopback(Address(host, 9444)) is is_local


async def test_an_api_server_that_does_not_answer_is_said_and_not_remembered() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        served.reviews.error = UnreachableError("no route")
        status, body, headers = await served.send(RED, "red-dev")
        assert (status, body["code"]) == (503, "NotReady")
        assert headers["Retry-After"] == "1"
        served.reviews.error = None
        assert (await served.send(RED, "red-dev"))[0] == 200


async def test_guesses_of_tokens_are_limited_for_each_address() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        await served.send(RED, "red-dev")
        statuses = [(await served.send(RED, f"guess-{i}"))[0] for i in range(40)]
        assert statuses.count(401) == 19
        assert statuses.count(429) == 21
        assert served.reviews.count("TokenReview") == 20
        # A token that is known needs no review.
        assert (await served.send(RED, "red-dev"))[0] == 200


async def test_the_requests_of_one_caller_are_limited_and_those_of_others_continue() -> None:
    async with serving_api(two_tenants(), review_server()) as served:
        statuses = [(await served.send(RED, "red-dev"))[0] for _ in range(110)]
        assert (statuses.count(200), statuses.count(429)) == (100, 10)
        status, body, headers = await served.send(RED, "red-dev")
        assert (status, body["code"], headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert (await served.send("GET /v1/allocations?namespace=blue", "blue-dev"))[0] == 200
        served.now += 1
        assert (await served.send(RED, "red-dev"))[0] in {200, 401}


async def test_a_client_certificate_ends_also_on_an_open_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    certificate = ServingCertificate(
        *(f"{each}" for each in authority.signed("127.0.0.1")),
        f"{authority.file}",
        ssl.VerifyMode.CERT_OPTIONAL,
    )
    assert certificate.refresh()
    async with serving_api(two_tenants(), review_server(), certificate=certificate) as served:
        tls = ssl.create_default_context(cafile=f"{authority.file}")
        tls.load_cert_chain(*authority.signed("red-dev"))
        url = f"https://127.0.0.1:{served.port}/v1/allocations?namespace=red"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as client:
            async with client.get(url) as reply:
                assert reply.status == 200
            monkeypatch.setattr(callers, "is_expired", lambda *_: True)
            async with client.get(url) as reply:
                assert reply.status == 401


async def test_a_certificate_is_expired_from_its_end_on() -> None:
    certificate = {"notAfter": "Nov 21 13:00:00 2026 GMT"}
    end = 1795266000
    assert [is_expired(certificate, end + seconds) for seconds in (-1, 0, 1)] == [False, True, True]


async def test_a_client_certificate_names_the_caller(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = ServingCertificate(
        *(f"{each}" for each in authority.signed("127.0.0.1")),
        f"{authority.file}",
        ssl.VerifyMode.CERT_OPTIONAL,
    )
    assert certificate.refresh()
    async with serving_api(two_tenants(), review_server(), certificate=certificate) as served:
        served.tls = ssl.create_default_context(cafile=f"{authority.file}")
        assert (await served.send(RED))[0] == 401
        assert (await served.send(RED, "red-dev"))[0] == 200
        served.tls = ssl.create_default_context(cafile=f"{authority.file}")
        served.tls.load_cert_chain(*authority.signed("red-dev"))
        assert (await served.send(RED))[0] == 200
        assert (await served.send("GET /v1/allocations?namespace=blue"))[0] == 403
        spec = served.reviews.bodies[-1]["spec"]
        assert (spec["user"], spec["groups"]) == ("red-dev", ["system:authenticated"])


@pytest.mark.parametrize(
    ("subject", "name", "groups"),
    [
        ([[("commonName", "amy")], [("organizationName", "dev")]], "amy", ("dev",)),
        (
            [[("organizationName", "a"), ("organizationName", "b")], [("commonName", "c")]],
            "c",
            "ab",
        ),
        ([[("organizationName", "dev")]], None, ()),
        ([[("commonName", "")]], None, ()),
        ([], None, ()),
    ],
)
async def test_a_subject_is_read_as_the_api_server_reads_it(
    subject: list[Any], name: str | None, groups: tuple[str, ...]
) -> None:
    caller = read_subject({"subject": subject})
    if name is None:
        assert caller is None
    else:
        assert caller is not None
        assert (caller.name, caller.groups) == (name, (*groups, "system:authenticated"))
        assert not caller.trusted
