"""Sends generated requests to the API, and compares the responses with its OpenAPI document.

The requests come from the document: its paths, parameters and schemas, valid or damaged. What a
caller must not know is in no request, so it must be in no response. `python -m
tests.allocator.api_fuzz 100000` sends as many, and prints the memory of the process in between.
"""

import asyncio
import json
import random
import string
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import aiohttp
import yarl
from jsonschema import Draft202012Validator

from allocator.api.openapi import openapi_document
from tests.allocator.api_served import ReviewServer, ServedApi, serving_api
from tests.allocator.clusters import Cluster, allocation_on, claim, pod

Json = Any
SECRETS: Final = ("infer", "train-7")
RIGHTS: Final = {
    "dev": ["list resourceclaims in red", "get pods in red", "create pods in red"],
    "lead": ["get nodes in *", "list nodes in *", "get pods in red", "create pods in red"],
    "none": [],
}
TOKENS: Final = (*RIGHTS, "stolen", "")
NAMES: Final = ("red", "blue", "default", "p", "wants", "mine", "n1", "n2", "gpu", "absent")
JUNK: Final = (None, True, -1, 0, 2**70, 1.5, "", "\x00", "é", "a" * 300, [], {}, [[]], {"a": None})
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")


class SentRequest(NamedTuple):
    """One request; `path` is that of the document."""

    method: str
    path: str
    url: str
    headers: dict[str, str]
    body: bytes | None


class RequestMaker:
    """Makes requests from an OpenAPI document."""

    def __init__(self, document: Json, seed: int) -> None:
        self._random = random.Random(seed)
        self._calls = [
            (method, path, call)
            for path, methods in document["paths"].items()
            for method, call in methods.items()
        ]
        self._schemas = document["components"]["schemas"]

    def make(self) -> SentRequest:
        """Return the next request."""
        method, path, call = self._random.choice(self._calls)
        given = [(each, self._value(each["schema"])) for each in call["parameters"]]
        url = path
        for parameter, value in given:
            if parameter["in"] == "path":
                url = url.replace(
                    f"{{{parameter['name']}}}", yarl.URL.build(path=f"/{value}").raw_path[1:]
                )
        query = [(e["name"], f"{v}") for e, v in given if e["in"] == "query" and self._chance(0.5)]
        if self._chance(0.1):
            query += [(self._text(), self._text())] * self._random.randint(1, 2)
        url += f"?{'&'.join(_quoted(*each) for each in query)}" if query else ""
        chosen = self._random.choice(METHODS) if self._chance(0.05) else method.upper()
        body = self._body(call) if chosen not in {"GET", "HEAD"} else None
        return SentRequest(chosen, path, url, self._headers(), body)

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._random.choice(TOKENS)}"}
        headers["Content-Type"] = "application/json" if self._chance(0.97) else "text/plain"
        if self._chance(0.02):
            headers["Content-Encoding"] = "gzip"
        if self._chance(0.02):
            headers["Authorization"] = "".join(filter(str.isprintable, self._text()))
        return headers

    def _body(self, call: Json) -> bytes:
        content = call.get("requestBody", {"content": {}})["content"]
        schema = content.get("application/json", {}).get("schema", {})
        value = self._value(schema)
        for _ in range(self._random.choice((0, 0, 0, 1, 2))):
            value = self._damaged(value)
        encoded = json.dumps(value).encode()
        if self._chance(0.03):
            cut = self._random.randrange(len(encoded) + 1)
            encoded = encoded[:cut] + self._random.randbytes(3) + encoded[cut:]
        return b"[" * 9000 + encoded if self._chance(0.005) else encoded

    def _value(self, schema: Json) -> Json:  # noqa: PLR0911  # one per type
        """Return a value of a schema, or now and then another one."""
        if self._chance(0.03):
            return self._random.choice(JUNK)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._object(self._schemas[name])
        match schema.get("type"):
            case "string":
                return self._random.choice(NAMES) if self._chance(0.9) else self._text()
            case "boolean":
                return self._chance(0.5)
            case "integer":
                return self._random.choice((1, 2, 100, 500, self._random.randint(-10, 10_000)))
            case "array":
                return [self._value(schema["items"]) for _ in range(self._random.randint(0, 4))]
            case _:
                return self._random.choice(JUNK)

    def _object(self, schema: Json) -> Json:
        made = {
            "pods": lambda: [self._pod() for _ in range(self._random.randint(1, 3))],
            "claims": lambda: [self._claim() for _ in range(self._random.randint(0, 3))],
            "templates": lambda: [self._template() for _ in range(self._random.randint(0, 2))],
        }
        return {
            name: made[name]() if name in made else self._value(property_schema)
            for name, property_schema in schema["properties"].items()
            if name in schema.get("required", ()) or self._chance(0.7)
        }

    # --- objects of Kubernetes ---

    def _metadata(self) -> Json:
        namespace = "red" if self._chance(0.9) else self._random.choice(NAMES)
        return {"name": self._random.choice(NAMES), "namespace": namespace}

    def _pod(self) -> Json:
        kinds = ("resourceClaimName", "resourceClaimTemplateName")
        claims = [
            {"name": f"c{i}", self._random.choice(kinds): self._random.choice(NAMES)}
            for i in range(self._random.randint(0, 2))
        ]
        spec: Json = {"resourceClaims": claims}
        if self._chance(0.5):
            spec["priority"] = self._random.choice((0, 5, 2**40, -1))
        if self._chance(0.3):
            spec["nodeSelector"] = {"name": self._random.choice(NAMES)}
        if self._chance(0.3):
            spec["tolerations"] = [{"operator": "Exists"}]
        if self._chance(0.2):
            resources = {"requests": {"nvidia.com/gpu": self._random.choice(("1", "x", 1))}}
            spec["containers"] = [{"name": "c", "resources": resources}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._metadata(), "spec": spec}

    def _spec(self) -> Json:
        expressions = (
            "true",
            "false",
            "device.driver",
            "device.attributes['a'].b == 1",
            "((",
            "1/0",
        )
        exactly: Json = {
            "deviceClassName": "gpu" if self._chance(0.9) else self._random.choice(NAMES),
            "count": self._random.choice((1, 1, 2, 3, 100)),
        }
        if self._chance(0.4):
            exactly["selectors"] = [{"cel": {"expression": self._random.choice(expressions)}}]
        if self._chance(0.1):
            exactly = {**exactly, "allocationMode": self._random.choice(("All", "None"))}
        return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}

    def _claim(self) -> Json:
        return {"metadata": self._metadata(), "spec": self._spec()}

    def _template(self) -> Json:
        return {"metadata": self._metadata(), "spec": {"spec": self._spec()}}

    # --- damage ---

    def _damaged(self, value: Json) -> Json:
        """Replace one part of a value."""
        if isinstance(value, dict) and value and self._chance(0.8):
            key = self._random.choice(sorted(value, key=str))
            return {**value, key: self._damaged(value[key])}
        if isinstance(value, list) and value and self._chance(0.8):
            index = self._random.randrange(len(value))
            return [*value[:index], self._damaged(value[index]), *value[index + 1 :]]
        return self._random.choice(JUNK)

    def _text(self) -> str:
        return "".join(self._random.choices(string.printable, k=self._random.randint(0, 12)))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _quoted(name: str, value: str) -> str:
    return f"{yarl.URL.build(query={name: value}).raw_query_string}"


class ResponseChecker:
    """Compares responses with the document."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._validators: dict[str, Draft202012Validator] = {}

    def problems(self, sent: SentRequest, status: int, body: bytes) -> Iterator[str]:
        """Yield what is wrong with a response."""
        call = self._document["paths"][sent.path].get(sent.method.lower())
        if call is None or sent.url.partition("?")[0] in {"/v1/nodes/", ""}:
            if status not in {401, 404, 405, 429}:
                yield f"status {status} of a call that the document does not have"
            return
        if status >= 500:
            yield f"status {status}: {body[:300]!r}"
        told = call["responses"].get(f"{status}")
        if told is None:
            yield f"status {status} is not documented"
            return
        value = json.loads(body)
        for error in self._validator(told).iter_errors(value):
            yield f"the response does not match the document: {error.message[:300]}"
        if sent.path != "/v1/openapi.json":
            yield from (f"{secret} is told" for secret in SECRETS if secret.encode() in body)

    def _validator(self, told: Json) -> Draft202012Validator:
        schema = told["content"]["application/json"]["schema"]
        key = json.dumps(schema)
        if key not in self._validators:
            components = self._document["components"]
            self._validators[key] = Draft202012Validator({**schema, "components": components})
        return self._validators[key]


def make_cluster() -> Cluster:
    """Two nodes; a tenant whose names are secret has some of the devices."""
    cluster = Cluster(n1=3, n2=1)
    for number, name in enumerate(SECRETS):
        allocation = allocation_on("n1", number)
        cluster.add_claim(claim(name, namespace="blue", allocation=allocation, pods=[name]))
    cluster.add_claim(claim("mine", namespace="red", allocation=allocation_on("n2", 0)))
    cluster.add_claim(claim("gpu", 2, namespace="red"))
    return cluster


async def send(served: ServedApi, requests: Iterator[SentRequest]) -> Counter[int]:
    """Send requests; raise AssertionError for the first response that is wrong."""
    for name, used in (("p", "mine"), ("wants", "gpu")):
        served.add_pod(pod(name, used, namespace="red"))
    for name in SECRETS:
        served.add_pod(pod(name, name, namespace="blue", node="n1"))
    checker, seen = ResponseChecker(openapi_document()), Counter[int]()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{served.port}") as client:
        for request in requests:
            served.now += 20  # nothing is limited, and each token and right is reviewed again
            url = yarl.URL(request.url, encoded=True)
            async with client.request(
                request.method, url, headers=request.headers, data=request.body
            ) as response:
                body = await response.read()
            for problem in checker.problems(request, response.status, body):
                raise AssertionError(f"{problem}\n{request}")
            seen[response.status] += 1
    return seen


def _resident_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # as the kernel has it
        return int(file.read().split()[1]) * 4


async def _main(number: int, seed: int) -> None:
    maker, total = RequestMaker(openapi_document(), seed), Counter[int]()
    reviews = ReviewServer({name: name for name in RIGHTS}, RIGHTS)
    async with serving_api(make_cluster(), reviews) as served:
        for part in range(10):
            total += await send(served, (maker.make() for _ in range(number // 10)))
            reviews.bodies.clear()
            print(f"{total.total():>9,} requests, {_resident_kib():,} KiB")  # noqa: T201
            if part == 0:
                first = _resident_kib()
        print(dict(sorted(total.items())), f"grew by {_resident_kib() - first:,} KiB")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
