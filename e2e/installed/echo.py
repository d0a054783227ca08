"""Serves a webhook that returns a fixed response: the cost of any webhook in Python.

    python -m e2e.installed.echo CERTIFICATE KEY ADDRESS [ANSWERS]

Reads the whole review and allows it with a fixed patch. With a file of responses it returns the one
for the pod's label `ask`. Logs its port as the product's processes do.
"""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

PATCH = base64.b64encode(
    b'[{"op":"add","path":"/metadata/labels/rig.drawbridge.dev~1echo","value":"true"}]'
).decode()
# As in Drawbridge's webhook: longer than the API server keeps an idle connection (90 s).
IDLE_SECONDS = 120.0


Answers = Mapping[str, Mapping[str, Any]]


class EchoHandler:
    """Returns fixed responses."""

    def __init__(self, ready: Answers) -> None:
        self._ready = ready

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Respond to one review; a request without a body checks the connection."""
        if request.method != "POST":
            return web.Response(text="ok")
        review = msgspec.json.decode(await request.read())
        asked = review["request"]
        response = self._of(asked["object"]) if self._ready else _PLAIN
        answer = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {**response, "uid": asked["uid"]},
        }
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _of(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._ready[pod["metadata"]["labels"]["ask"]]


_PLAIN = {"allowed": True, "patchType": "JSONPatch", "patch": PATCH}


async def serve(certificate: str, key: str, host: str, ready: Answers) -> None:
    """Serve on port 443 of an address until the process ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = web.Server(EchoHandler(ready).answer, access_log=None, keepalive_timeout=IDLE_SECONDS)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, host, 443, ssl=context)
    address = f"{host}:{listening.sockets[0].getsockname()[1]}"
    told = {"msg": "listening", "name": "admission", "address": address}
    sys.stderr.write(f"{json.dumps(told)}\n")
    sys.stderr.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    certificate, key, host, *files = sys.argv[1:]
    ready = msgspec.json.decode(Path(files[0]).read_bytes()) if files else {}
    asyncio.run(serve(certificate, key, host, ready))
