"""A running API of an allocator, with an API server in memory that knows tokens and rights."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from allocator.api.callers import CallerAccess
from allocator.api.calls import ApiCalls
from allocator.api.http_handler import ApiHandler, serve_api
from allocator.api.reviews import Reviews
from allocator.api.searches import ApiSearches
from allocator.decisions.pod_devices import PodDecisions
from drawbridge.api_error import ApiError
from drawbridge.ledger.disruption_budgets import DisruptionBudget
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.priorities import PriorityClass
from drawbridge.process.addresses import Address
from drawbridge.process.forked import DEFAULT_FORK_LIMITS, ForkLimits
from tests.allocator.clusters import Cluster

Plain = dict[str, Any]


class ReviewServer:
    """Answers TokenReviews and SubjectAccessReviews.

    `users` maps tokens to users, `rights` users to rights such as `list resourceclaims in red`; in
    `*` is at the cluster scope.
    """

    def __init__(self, users: Mapping[str, str], rights: Mapping[str, list[str]]) -> None:
        self.users = dict(users)
        self.rights = {user: set(texts) for user, texts in rights.items()}
        self.bodies: list[Plain] = []
        self.error: ApiError | None = None
        self.knows_audiences = True

    async def call(
        self, method: str, path: str, *, body: object = None, seconds: float = 30
    ) -> bytes:
        """Answer a review."""
        assert method == "POST"
        assert seconds <= 5
        if self.error is not None:
            raise self.error
        sent = msgspec.json.decode(msgspec.json.encode(body), type=dict[str, Any])
        self.bodies.append(sent)
        kind, spec = sent["kind"], sent["spec"]
        assert path.endswith(f"/{kind.lower()}s")
        status = self._token(spec) if kind == "TokenReview" else self._access(spec)
        return msgspec.json.encode({**sent, "status": status})

    def count(self, kind: str) -> int:
        """How many reviews of a kind were asked for."""
        return sum(each["kind"] == kind for each in self.bodies)

    def _token(self, spec: Plain) -> Plain:
        user = self.users.get(spec["token"])
        if user is None:
            return {"authenticated": False, "error": "unknown"}
        groups = ["system:authenticated"]
        identity = {"username": user, "uid": f"uid-{user}", "groups": groups}
        audiences = spec.get("audiences", []) if self.knows_audiences else []
        return {"authenticated": True, "user": identity, "audiences": audiences}

    def _access(self, spec: Plain) -> Plain:
        wanted = spec["resourceAttributes"]
        where = [wanted["namespace"], "*"] if wanted.get("namespace") else ["*"]
        asked = {f"{wanted['verb']} {wanted['resource']} in {each}" for each in where}
        return {"allowed": bool(asked & self.rights.get(spec["user"], set()))}


class ServedApi:
    """The API, and a client."""

    def __init__(self, cluster: Cluster, reviews: ReviewServer) -> None:
        self.cluster = cluster
        self.reviews = reviews
        self.leading = True
        self.problems: list[str] = []
        self.priority_classes: list[PriorityClass] | None = []
        self.disruption_budgets: list[DisruptionBudget] = []
        self.pods: dict[tuple[str, str], Pod] = {}
        self.now = 0.0
        self.port = 0
        self.scheme = "http"
        self.tls: Any = None
        self.waiting = asyncio.Semaphore(0)
        self.access: CallerAccess

    # --- the state and the leadership ---

    @property
    def ready(self) -> bool:
        """Whether decisions exist."""
        return not self.problems

    @property
    def decisions(self) -> PodDecisions:
        """The decisions of the cluster."""
        return self.cluster.decisions

    def find_problems(self) -> list[str]:
        """Why nothing is decided."""
        return self.problems

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod that the test added."""
        return self.pods.get((namespace, name))

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, as from a watch."""
        self.pods[pod.namespace, pod.metadata.name] = pod
        self.cluster.add(pod)

    # --- preemption ---

    def find_problem(self) -> str:
        """Why priorities are not known."""
        return "priorityclasses are not synced" if self.priority_classes is None else ""

    def running(self) -> Iterable[Pod]:
        """The added pods with a node."""
        return (each for each in self.pods.values() if each.spec.node_name)

    def budgets(self) -> Iterable[DisruptionBudget]:
        """The budgets of the test."""
        return self.disruption_budgets

    def classes(self) -> Iterable[PriorityClass]:
        """The classes of the test."""
        return self.priority_classes or ()

    # --- the client ---

    async def send(
        self, call: str, token: str | None = None, body: object = None, **headers: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Send `GET /path`; return the status, the decoded body and the headers."""
        method, _, path = call.partition(" ")
        sent = dict(headers)
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        stream = None if data is None else io.BytesIO(data)
        url = f"{self.scheme}://127.0.0.1:{self.port}"
        async with (
            aiohttp.ClientSession(url) as client,
            client.request(method, path, data=stream, headers=sent, ssl=self.tls or True) as reply,
        ):
            return reply.status, msgspec.json.decode(await reply.read()), reply.headers


@contextlib.asynccontextmanager
async def serving_api(
    cluster: Cluster,
    reviews: ReviewServer,
    *,
    is_local: bool = False,
    audience: str = "",
    certificate: Any = None,  # noqa: ANN401  # a certificate source
    limits: ForkLimits = DEFAULT_FORK_LIMITS,
) -> AsyncIterator[ServedApi]:
    """Serve the API of a cluster until the context exits."""
    served = ServedApi(cluster, reviews)
    made = Reviews(reviews, audience, now=lambda: served.now)
    access = CallerAccess(made, is_local=is_local, now=lambda: served.now)
    served.access = access
    calls = ApiCalls(served, served, access, ApiSearches(limits), served)
    handler = ApiHandler(calls, access, now=lambda: served.now)
    async with serve_api(Address("127.0.0.1", 0), certificate, handler) as listener:
        served.port = listener.port
        served.scheme = "http" if certificate is None else "https"
        yield served


def data_folder() -> Path:
    """The folder with the tables of these tests."""
    return Path(__file__).parent / "cases"
