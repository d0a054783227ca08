"""A plain JSON client for an API server, for rigs and simulators; imports nothing of ours.

Blocking and small on purpose: one connection per thread, no caches, no retries but one for a
connection that the server has closed in between.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

JSON = dict[str, Any]
PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server said no."""

    def __init__(self, code: int, body: JSON) -> None:
        super().__init__(f"{code}: {body.get('message', body)}")
        self.code = code
        self.body = body


class Stream:
    """An answer without an end, line by line; `close` may be called from another thread."""

    def __init__(
        self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response

    def __iter__(self) -> Iterator[JSON]:
        for line in self._response:
            yield json.loads(line)

    def close(self) -> None:
        """End it, also for a thread that waits for the next line."""
        with contextlib.suppress(OSError):
            if self._connection.sock:
                self._connection.sock.shutdown(socket.SHUT_RDWR)


class Client:
    """Talks to one API server as one user."""

    def __init__(self, port: int, token: str, authority: str) -> None:
        self.port = port
        self.token = token
        self.authority = authority
        self._context = ssl.create_default_context(cadata=authority)
        self._local = threading.local()

    def get(self, path: str, **query: str) -> JSON:
        """Read one object or list."""
        return self.call("GET", path, query=query)

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> JSON:
        """Create an object in the collection at `path`."""
        return self.call("POST", path, body, query=query)

    def replace(self, path: str, body: Mapping[str, Any]) -> JSON:
        """Write an object as a whole."""
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = PATCH, **query: str) -> JSON:  # noqa: ANN401  # a patch may be a list
        """Change an object by a merge patch, or another kind of patch."""
        return self.call("PATCH", path, body, kind, query)

    def apply(self, path: str, body: Mapping[str, Any], manager: str = "rig") -> JSON:
        """Server-side apply, taking over what others own."""
        return self.patch(path, body, APPLY, fieldManager=manager, force="true")

    def delete(self, path: str, *, grace: int | None = 0) -> JSON:
        """Delete an object, at once; with `grace` None as its own grace period says.

        A pod that is deleted at once may leave its devices prepared while the scheduler gives them
        to the next one; where a kubelet is simulated, pods are deleted with their grace.
        """
        return self.call("DELETE", path, None if grace is None else {"gracePeriodSeconds": grace})

    def delete_if_there(self, path: str) -> None:
        """Delete an object that somebody else may have deleted, at once."""
        try:
            self.delete(path)
        except ApiError as problem:
            if problem.code != 404:
                raise

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401  # JSON, or bytes that are sent as they are
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> JSON:
        """Make one request; ApiError for an answer of 400 and above."""
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        # Compact, because the API server keeps a claim's opaque parameters byte for byte, gives
        # them back compact, and calls the claim changed when they come again in other bytes.
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body, separators=(",", ":")).encode()
        response, payload = self._exchange(method, target, data, kind)
        try:
            answer = json.loads(payload) if payload else {}
        except ValueError:
            answer = {"message": payload.decode(errors="replace")}
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, answer)
        return answer

    def response_headers(self, path: str) -> Mapping[str, str]:
        """Read an object and return the headers of the response, by their names in lower case."""
        response, _ = self._exchange("GET", path, None, "application/json")
        return {name.lower(): value for name, value in response.headers.items()}

    def watch(self, path: str, **query: str) -> "Stream":
        """Open a watch; its events come line by line until either side closes it."""
        connection = self._connect(None)
        target = path + "?" + urllib.parse.urlencode({"watch": "true", **query})
        connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
        response = connection.getresponse()
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, {"message": response.read().decode()})
        return Stream(connection, response)

    def _exchange(
        self, method: str, target: str, data: bytes | None, kind: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        for attempt in (1, 2):
            connection = self._connection()
            try:
                connection.request(method, target, data, headers)
                response = connection.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError) as problem:
                self._local.connection = None
                if attempt == 2:  # the one retry is used up
                    raise ConnectionError(f"{method} {target}: {problem!r}") from problem
        raise AssertionError

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(60)
            self._local.connection = connection
        return connection

    def _connect(self, seconds: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=seconds, context=self._context
        )
