"""The real admission of pods in the world: its caches, its handler and the templates it makes.

The API server refuses a pod while nobody answers (failurePolicy Fail), and who creates the pod
tries again.
"""

import asyncio
import base64
import contextlib
from typing import Any

import jsonpatch
import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.client import ResourceClient, decode_object
from drawbridge.cluster.history import HistoryChangedError
from drawbridge.cluster.resources import TEMPLATES
from drawbridge.process.settings import Settings, watch_in_use
from tests.cluster.fake.kinds import JSON
from tests.world import clock
from tests.world.network import Network, WorldSession
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.handler import AdmissionHandler
from webhook.admission.replies import Reply, await_reply
from webhook.admission.templates import TemplateCache
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.template_store import WatchedTemplateStore

_SECONDS = 5.0


class RefusedPodError(Exception):
    """A pod is not created now."""


class UnansweredError(RefusedPodError):
    """Nobody has answered, or not with a decision."""


class Webhook:
    """One replica; `restart` ends it at once, and another one starts in its place."""

    def __init__(self, network: Network, host: str) -> None:
        self.network, self.host = network, host
        self.restart = asyncio.Event()
        self._view: WatchedClusterView | None = None
        self._handler: AdmissionHandler | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.restart.clear()
            running = asyncio.ensure_future(self._serve())
            killed = asyncio.ensure_future(self.restart.wait())
            try:
                await asyncio.wait((running, killed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._view = self._handler = None
                for task in (running, killed):
                    task.cancel()
                ended = await asyncio.gather(running, killed, return_exceptions=True)
            if isinstance(ended[0], BaseExceptionGroup):
                _, others = ended[0].split(HistoryChangedError)
                if others is not None:
                    raise others
            elif isinstance(ended[0], Exception):
                raise ended[0]
            await asyncio.sleep(1)

    async def _serve(self) -> None:
        session: Any = WorldSession(self.network, f"webhook {self.host}")
        settings = Settings([watch_in_use(session)])
        async with asyncio.TaskGroup() as group:
            for part in settings.run():
                group.create_task(part)
            await settings.wait()
            self._view = view = WatchedClusterView(session, settings.current)
            settings.subscribe(view.configure)
            client = ResourceClient(session, TEMPLATES, decode_object)
            templates = TemplateCache(
                WatchedTemplateStore(view.templates, client),
                clock.now,
                asyncio.get_running_loop().time,
            )
            self._handler = AdmissionHandler(view, templates, AnswerCache())
            for part in view.run():
                group.create_task(part)

    async def admit(self, pod: JSON) -> JSON:
        """Return a pod as our webhook wants it; raises RefusedPodError."""
        patch = (await self._review(pod, is_guarded=False)).get("patch")
        if not patch:
            return pod
        changed: JSON = jsonpatch.apply_patch(pod, msgspec.json.decode(base64.b64decode(patch)))
        return changed

    async def guard(self, pod: JSON) -> bool:
        """Return whether the guard has allowed a pod; it is stored as well if nobody answers."""
        try:
            await self._review(pod, is_guarded=True)
        except UnansweredError:
            return False
        return True

    async def _review(self, pod: JSON, *, is_guarded: bool) -> JSON:
        trouble, loop = self.network.trouble_of(f"webhook {self.host}"), asyncio.get_running_loop()
        await asyncio.sleep(self.network.random.expovariate(100))
        view, handler = self._view, self._handler
        if view is None or handler is None or view.find_missing():
            raise UnansweredError("it is not ready")
        if max(trouble.cut, trouble.still) > loop.time():
            raise UnansweredError("no answer")
        review = handler.review_guarded_pod if is_guarded else handler.review_pod
        reply: Reply | None = None
        with contextlib.suppress(TimeoutError, ApiError):
            async with asyncio.timeout(_SECONDS):
                reply = await await_reply(review(_make_review(pod), _SECONDS))
        if reply is None or self._handler is not handler:
            raise UnansweredError("no answer")
        if reply.status != 200:
            raise UnansweredError(f"{reply.status}")
        response: JSON = msgspec.json.decode(reply.body)["response"]
        if not response.get("allowed"):
            raise RefusedPodError((response.get("status") or {}).get("message", ""))
        self.network.count(f"{'guard' if is_guarded else 'review'} that {reply.outcome}")
        return response


def _make_review(pod: JSON) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "operation": "CREATE",
        "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return msgspec.json.encode(body)
