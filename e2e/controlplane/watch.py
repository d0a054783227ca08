"""A list-watch: keeps telling somebody what happens to a collection, over any interruption.

It knows objects by namespace and name only. After a gap it lists again and tells what vanished in
between as deleted, so that whoever listens never keeps a ghost.
"""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable

from e2e.controlplane.client import JSON, ApiError, Client, Stream

Listener = Callable[[str, JSON], None]
PAUSE_SECONDS = 0.2
WATCH_SECONDS = "300"


class ListWatch:
    """One collection, told event by event (ADDED, MODIFIED, DELETED) on a thread of its own."""

    def __init__(self, client: Client, path: str, listener: Listener) -> None:
        self.client = client
        self.path = path
        self.listener = listener
        self.known: dict[str, JSON] = {}
        self._stopping = threading.Event()
        self._listed = threading.Event()
        self._stream: Stream | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def start(self, seconds: float = 10) -> None:
        """Start; returns once the first list was told."""
        self._thread.start()
        if not self._listed.wait(seconds):
            raise TimeoutError(f"{self.path} was not listed within {seconds:g} s")

    def stop(self) -> None:
        """End the thread; nothing is told afterwards."""
        self._stopping.set()
        if self._stream:
            self._stream.close()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow(self._list())
            except (ApiError, OSError, ValueError, http.client.HTTPException):
                # The server is away, restarting, or has forgotten our version: begin again.
                time.sleep(PAUSE_SECONDS)

    def _list(self) -> str:
        answer = self.client.get(self.path)
        listed = {_key(item): item for item in answer["items"]}
        for key in [key for key in self.known if key not in listed]:
            self._tell("DELETED", self.known[key])
        for key, item in listed.items():
            if _version(self.known.get(key)) != _version(item):
                self._tell("MODIFIED" if key in self.known else "ADDED", item)
        self._listed.set()
        version: str = answer["metadata"]["resourceVersion"]
        return version

    def _follow(self, version: str) -> None:
        self._stream = self.client.watch(
            self.path, resourceVersion=version, timeoutSeconds=WATCH_SECONDS
        )
        with contextlib.closing(self._stream):
            for event in self._stream:
                if self._stopping.is_set():
                    return
                if event["type"] == "ERROR":
                    raise ApiError(int(event["object"].get("code", 0)), event["object"])
                self._tell(event["type"], event["object"])

    def _tell(self, kind: str, item: JSON) -> None:
        if kind == "DELETED":
            self.known.pop(_key(item), None)
        else:
            self.known[_key(item)] = item
        self.listener(kind, item)


def _key(item: JSON) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _version(item: JSON | None) -> str:
    return item["metadata"]["resourceVersion"] if item else ""
